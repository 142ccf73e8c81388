"""How long the host takes for what lies in its memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llmcalc.architecture import Model
from llmcalc.estimate import layout, offload
from llmcalc.estimate.offload import Hosted
from llmcalc.figures import Figure
from llmcalc.formulas import host as f
from llmcalc.formulas import time
from llmcalc.plan import Deployment
from llmcalc.units import rate as speed

USUAL_BYTES_PER_S = 89.6e9
"""Two channels of DDR5-5600, a common desktop of 2024. [B/s]"""
USUAL_FLOPS_PER_S = 2.3e12
"""Sixteen cores with AVX2, fp32. [FLOP/s]"""
BUS_BYTES_PER_S = 32e9
"""PCIe 4.0 x16, where the card's own link is not a bus. [B/s]"""
READ_SHARE, COMPUTE_SHARE, CROSSING_S = 0.62, 0.2, 60e-6
"""Fitted on ik_llama.cpp#258 and #357 and ktransformers' tables (2025-04 to 2026-01): of the nominal rates, and each way there and back."""
PROMPT_SHARE, COPY_SHARE = 0.5, 0.75
CHUNK = 512
"""Prompt tokens between two copies of the same weights: llama.cpp's micro-batch."""


@dataclass(frozen=True, slots=True)
class Host:
    """The rates of a host's memory and cores, and of the bus to the card."""

    bytes_per_s: float
    flops_per_s: float
    bus_bytes_per_s: float
    words: str


def host_of(plan: Deployment) -> Host:
    """The host that a deployment names, or a common desktop."""
    own, link = plan.offload, plan.device.link
    bus = link.bytes_per_s if link and link.bytes_per_s and "PCIe" in link.type else BUS_BYTES_PER_S
    device = own.host if own else None
    given = own.host_bytes_per_s if own else None
    known = device.compute.get("bf16") or device.compute.get("fp32") if device else None
    rate = given or (device.bandwidth_bytes_per_s if device else USUAL_BYTES_PER_S)
    who = device.id if device else "a common desktop, assumed" if given is None else "a host of that bandwidth"
    flops = known or USUAL_FLOPS_PER_S * max(1.0, rate / USUAL_BYTES_PER_S) ** 0.5  # four times the channels go with twice the cores
    return Host(rate, flops, bus, f"host: {who}, {speed(rate)}")


def _touched(model: Model, plan: Deployment, where: Hosted, tokens: Any) -> tuple[Any, Any]:
    """(bytes that a step of so many tokens reads on the host, parameters that a token multiplies with there)."""
    _, experts = layout.read_weight_bytes(model, plan, tokens)
    read = where.dense_bytes + (0.0 if experts is None else experts.value * where.expert_share)
    _, each = layout.read_weight_bytes(model, plan, 1)
    params = (where.dense_bytes + (0.0 if each is None else each.value * where.expert_share)) * 8 / plan.weights.bits
    return read, params


def step_time(model: Model, plan: Deployment, tokens: Any, ctx: Any) -> Figure | None:
    """What of a decode step of so many sequences, each of `ctx` tokens, the host takes. [s] None where nothing lies there."""
    where = offload.hosted(model, plan)
    if not where.weight_bytes:
        return None
    host = host_of(plan)
    read, params = _touched(model, plan, where, tokens)
    if where.cache_share:
        caches = layout.sequence_bytes(model, plan, Figure("ctx_tokens", ctx, "tokens", "`ctx`"), reads=True)
        read = read + caches.value * where.cache_share * tokens
    bus = where.bus_bytes / plan.ranks / (host.bus_bytes_per_s * COPY_SHARE)
    return f.host_part_s.of(
        as_name="host_part_s",
        read_s=Figure("read_s", read / host.bytes_per_s + bus * READ_SHARE, "s", host.words),
        read_share=Figure("read_share", READ_SHARE, "", "measured"),
        compute_s=Figure("compute_s", 2 * params * tokens / host.flops_per_s, "s", "the host's cores"),
        compute_share=Figure("compute_share", COMPUTE_SHARE, "", "measured"),
        crossings=Figure("crossings", where.crossings, "", "layers that the host works on"),
        crossing_s=Figure("crossing_s", CROSSING_S, "s", "measured"),
    )


def prompt_time(model: Model, plan: Deployment, tokens: int) -> Figure | None:
    """What reading a prompt of so many tokens waits for the host's weights. [s] None where nothing lies there."""
    where = offload.hosted(model, plan)
    if not where.weight_bytes:
        return None
    host = host_of(plan)
    chunk = min(tokens, CHUNK)
    read, params = _touched(model, plan, where, chunk)
    each = f.host_chunk_s.of(
        as_name="host_chunk_s",
        copy_s=Figure("copy_s", (read + where.bus_bytes / plan.ranks) / host.bus_bytes_per_s, "s", "over the bus"),
        copy_share=Figure("copy_share", COPY_SHARE, "", "measured"),
        compute_s=Figure("compute_s", 2 * params * chunk / host.flops_per_s, "s", "the host's cores"),
        compute_share=Figure("compute_share", PROMPT_SHARE, "", "measured"),
    )
    return time.repeated_s.of(as_name="host_part_s", times=Figure("chunks", tokens / chunk, "", f"of {CHUNK} tokens"), each_s=each)


def read_share(model: Model, plan: Deployment, tokens: Any) -> Figure | None:
    """The share of a step's weights that it reads on the host; None where nothing lies there."""
    where = offload.hosted(model, plan)
    if not where.weight_bytes:
        return None
    dense, experts = layout.read_weight_bytes(model, plan, tokens)
    everything = dense.value + (0.0 if experts is None else experts.value)
    return Figure(
        "host_share", (_touched(model, plan, where, tokens)[0] + where.bus_bytes) / everything, "", "of the bytes that a step reads"
    )


def nominal_time(model: Model, plan: Deployment, tokens: Any) -> Figure:
    """Reading the host's weights at nominal rates. [s]"""
    where, host = offload.hosted(model, plan), host_of(plan)
    read = _touched(model, plan, where, tokens)[0] / host.bytes_per_s + where.bus_bytes / plan.ranks / host.bus_bytes_per_s
    return Figure("host_read_s", read, "s", host.words)
