"""Prefill and decode on replicas of their own."""

from __future__ import annotations

import math
from collections.abc import Callable

from llmcalc.architecture import Model
from llmcalc.estimate import layout, serving, simulate
from llmcalc.estimate.planned import Pools
from llmcalc.estimate.service import MOST_BATCH, Candidate, Service, candidate
from llmcalc.figures import Figure
from llmcalc.formulas import serving as f
from llmcalc.plan import Deployment
from llmcalc.traffic import Request

PREFILL_DERATE, DECODE_DERATE = 0.9, 0.92  # aiconfigurator picking.py
MOST_REPLICAS = 1000


def pools(model: Model, plan: Deployment, service: Service, sample: list[Request], link_bytes_per_s: float) -> Pools:
    """Prefill and decode on replicas of their own.

    TTFT is bounded from above by the sum of the pools' percentiles and the transfer.
    """
    found = candidate(model, plan, service, sample)
    if found.batch_limit == 0:
        return Pools(disaggregated_why="does not fit" if found.memory_batch == 0 else "TPOT of one sequence is over the limit")
    profile, rates, rate = found.profile, found.rates, service.traffic.rate
    reading = profile.prompt_s(rates, 0, 0)
    writing = max(profile.output - 1, 0) * serving.token_share_s(rates, profile.kv_s(rates), found.batch_limit)
    moved = layout.sequence_bytes(model, plan, Figure("ctx_tokens", round(profile.prompt))).value
    transfer = f.transfer_s(moved, link_bytes_per_s)
    prefill_share, decode_share = f.pool_replicas(rate, reading, PREFILL_DERATE), f.pool_replicas(rate, writing, DECODE_DERATE)
    prefills, decodes, ttft, tpot = _grow(found, service, reading, transfer, math.ceil(prefill_share), math.ceil(decode_share))
    return Pools(
        disaggregated_prefill_replicas=prefills,
        disaggregated_decode_replicas=decodes,
        disaggregated_prefill_devices=prefills * plan.ranks,
        disaggregated_decode_devices=decodes * plan.ranks,
        disaggregated_prefill_per_decode=prefill_share / decode_share if writing else None,
        disaggregated_transfer_bytes_per_request=moved,
        disaggregated_transfer_s=transfer,
        disaggregated_transfer_bytes_per_s=f.transfer_rate(rate, moved),
        disaggregated_ttft_s=ttft,
        disaggregated_tpot_s=tpot,
        disaggregated_met=(service.max_ttft_s is None or ttft <= service.max_ttft_s)
        and (service.max_tpot_s is None or tpot <= service.max_tpot_s),
    )


def _grow(
    found: Candidate, service: Service, reading: float, transfer: float, prefills: int, decodes: int
) -> tuple[int, int, float, float]:
    """(prefill replicas, decode replicas, TTFT, TPOT) from so many on, until the limits are met."""
    prefills, decodes = max(1, prefills), max(1, decodes)
    traced, number = service.traffic.trace is not None, service.simulated

    def part(replicas: int, convert: Callable[[Request], Request], batch: int) -> simulate.Outcome:
        stream = map(convert, service.traffic.requests(service.seed, replicas))
        count, warmup = (None, 0) if traced else (number, number // 10)
        return simulate.simulate(found.rates, stream, max_batch=batch, chunk=0, count=count, warmup=warmup)

    while True:
        first = part(prefills, lambda request: request._replace(output=1), MOST_BATCH)
        rest = part(decodes, lambda request: request._replace(cached=request.prompt), found.batch_limit)
        reads, waits = first.ttft.at(service.percentile) or 0.0, rest.ttft.at(service.percentile) or 0.0
        ttft, tpot = reads + transfer + waits, rest.tpot.at(service.percentile) or 0.0
        if service.max_tpot_s is not None and tpot > service.max_tpot_s and decodes < MOST_REPLICAS:
            decodes += 1
        elif service.max_ttft_s is not None and ttft > service.max_ttft_s and prefills < MOST_REPLICAS and decodes < MOST_REPLICAS:
            prefills, decodes = prefills + (waits <= reads - reading), decodes + (waits > reads - reading)
        else:
            return prefills, decodes, ttft, tpot
