"""A load test: what to expect at each rate, and the measured figures beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from llmcalc.estimate.planned import Compared, Loaded
from llmcalc.estimate.service import Candidate, Service, run
from llmcalc.loadgen import Run

TIMES = tuple((name, p) for name in ("ttft", "tpot", "e2e") for p in (50, 95, 99))


def load_test(found: Candidate, service: Service, replicas: int, loads: Sequence[Run]) -> tuple[Loaded, ...]:
    """What to expect of the whole deployment under each load: requests at a rate, or so many at a time."""
    rows = []
    for load in loads:
        users = None if load.concurrency is None else max(1, round(load.concurrency / replicas))
        traffic = replace(service.traffic, rate=load.rate, users=users)
        outcome = run(found, replace(service, traffic=traffic), replicas, batch=found.policy.max_batch if users else None)
        measured: Any = {f"{name}_p{p}_s": getattr(outcome, name).at(p / 100) for name, p in TIMES}
        reached = outcome.tokens_per_s * replicas
        rows.append(
            Loaded(
                rate=load.rate,
                utilization=(reached / found.profile.output if users else load.rate) / replicas / found.max_rate,
                concurrency=outcome.mean_batch * replicas,
                output_tokens_per_s=reached if users else load.rate * found.profile.output,
                **measured,
            )
        )
    return tuple(rows)


def compared(predicted: Sequence[Loaded], measured: Sequence[Run]) -> tuple[Compared, ...]:
    """The measured figures beside the predicted ones of the same loads."""
    rows = []
    for row, beside in zip(predicted, measured, strict=True):
        more: dict[str, Any] = {}
        for name, p in TIMES:
            key = f"{name}_p{p}"
            value, expected = beside.times.get(f"{key}_s"), row[f"{key}_s"]
            more |= {f"{key}_s": expected, f"measured_{key}_s": value}
            if expected is not None and value:
                more[f"{key}_error"] = expected / value - 1
        rows.append(Compared(rate=row.rate, utilization=row.utilization, **more))
    return tuple(rows)
