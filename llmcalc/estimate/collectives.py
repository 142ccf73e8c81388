"""What the ranks' talk takes as it was measured: collectives by ranks, size and link, inside a node and across nodes.

The textbook's communication stands in `talk`. Ranks are placed as engines place them: tensor-parallel ranks side by side, then the
stages of a pipeline, then data-parallel groups.
"""

from __future__ import annotations

import math
from typing import Any

from llmcalc import links
from llmcalc.architecture import Model
from llmcalc.estimate import layout, memory, talk
from llmcalc.figures import Figure, smaller, total
from llmcalc.formulas import compute, time
from llmcalc.formulas import talk as f
from llmcalc.hardware import Device
from llmcalc.plan import Deployment

DISPATCH_BYTES = 1.03
"""A value on its way to an expert: fp8, and a float32 scale for each 128 of them."""
LOW_LATENCY_TOKENS = 256
"""Tokens of a rank up to which engines take DeepEP's low-latency kernels (vLLM's chunk of a data-parallel rank)."""
LINE = "rank placement: tensor-parallel ranks side by side, then stages, then groups"
nodes, network_of = talk.nodes, talk.network_of


def link_of(device: Device) -> links.Link:
    """The kind of a device's link with its timings; the nearest kin's of a kind without. Errors: no-link."""
    rate, latency = talk.link_rate(device)  # no-link
    assert device.link is not None
    known = links.LINKS["xe-link"] if device.vendor == "Intel" and "PCIe" in device.link.type else links.named(device.link.type)
    if known is not None:
        return known._replace(rate=rate.value)
    start = links.LINKS["nvlink4"].times
    around, gathered, swapped = (each._replace(start_s=latency.value) for each in (start.ring, start.gather, start.swap))
    later = links.Timings(around, gathered, swapped)
    return links.Link(device.link.type, rate.value, later, links.KERNELS, f"a link with {latency.value * 1e6:.0f} us and NVLink 4's shares")


def said(plan: Deployment) -> tuple[str, ...]:
    """What is assumed of links and placement, in words; nothing for one device."""
    if plan.ranks == 1:
        return ()
    where, words = nodes(plan), []
    link = plan.device.link
    if link is not None and links.named(link.type) is None:
        words.append(f"{link.type}: no collective over it was timed; expected times take {link_of(plan.device).kin}")
    if where.count > 1:
        network = network_of(plan.device)
        how = "assumed, as the profile names none" if plan.device.network is None else network.name
        between = f"{network.rate * 8 / 1e9:,.0f} Gbit/s a device, {how}"
        words.append(f"{where.count} nodes of {where.per_node}; between them {between}")
    return tuple(words)


# ---- one collective -----------------------------------------------------------------------------------------------


def _rate(link: links.Link, share: float, ranks: int) -> Figure:
    reached = Figure("link_bytes_per_s", link.rate * share, "B/s", f"{link.name}, {share:.2f} of its rate, measured")
    if not link.times.falls or ranks <= 2:
        return reached
    return f.shared_link_bytes_per_s.of(
        link_bytes_per_s=reached, devices=Figure("devices", ranks, "", LINE), falls=Figure("falls", link.times.falls, "", "measured")
    )


def _library(formula: Any, link: links.Link, one: links.Collective, message: Figure, ranks: int, name: str) -> Figure:
    found: Figure = formula.of(
        as_name=name,
        start_s=Figure("start_s", one.start_s, "s", f"{link.name}, measured"),
        rank_s=Figure("rank_s", one.rank_s, "s", f"{link.name}, measured"),
        devices=Figure("devices", ranks, "", LINE),
        message_bytes=message,
        link_bytes_per_s=_rate(link, one.share, ranks),
    )
    return found


def ring(link: links.Link, message: Figure, ranks: int, name: str = "ring_s") -> Figure:
    """The library's all-reduce of a message. [s]"""
    return _library(f.ring_all_reduce_s, link, link.times.ring, message, ranks, name)


def gather(link: links.Link, message: Figure, ranks: int, name: str = "all_gather_s") -> Figure:
    """The library's all-gather, or its reduce-scatter, of a message that is whole afterwards, or before. [s]"""
    return _library(f.gather_s, link, link.times.gather, message, ranks, name)


def all_to_all(link: links.Link, message: Figure, ranks: int, name: str = "all_to_all_s") -> Figure:
    """The library's all-to-all of what each rank sends. [s]"""
    return _library(f.gather_s, link, link.times.swap, message, ranks, name)


def all_reduce(device: Device, message: Figure, ranks: int, engine: str = "vllm") -> Figure:
    """The sum of every rank's message on every rank: the engine's kernel or a ring inside a node, a ring of nodes across. [s]"""
    link, per = link_of(device), max(1, device.devices_per_node)
    inside = min(ranks, per)
    if ranks <= per:
        around, own = ring(link, message, ranks), link.times.direct_trt if engine == "trt-llm" else link.times.direct
        if own is None or ranks > (device.devices_per_host or per):
            return around
        direct = time.all_reduce_s.of(
            as_name="direct_s",
            latency_s=Figure("latency_s", own.start_s + own.rank_s * (ranks - 2), "s", f"{link.name}, measured"),
            devices=Figure("devices", ranks, "", LINE),
            message_bytes=message,
            link_bytes_per_s=_rate(link, own.share, ranks),
        )
        return Figure("all_reduce_s", smaller(direct.value, around.value), "s", "the faster of two kernels", None, (direct, around))
    part = Figure("message_bytes", message.value / inside, "B", "each device's part of the message", None, (message,))
    across = ring(network_of(device), part, math.ceil(ranks / per), "across_s")
    if inside == 1:
        return across
    return total("all_reduce_s", "s", (gather(link, message, inside, "reduce_scatter_s"), across, gather(link, message, inside)))


def exchange(device: Device, tokens: Figure, hidden: int, top_k: int, ranks: int, back: bool) -> Figure:
    """`tokens` of each of `ranks` to their experts, drawn evenly, or back from them. [s]"""
    link, per = link_of(device), max(1, device.devices_per_node)
    width, name = (layout.ACTIVATION_BYTES, "combine_s") if back else (DISPATCH_BYTES, "dispatch_s")
    value = tokens.value * hidden * width
    kernels = link.times.exchange
    if kernels is None:
        # Without DeepEP an engine gathers every rank's tokens, and scatters the sums (vLLM's allgather_reducescatter), or swaps.
        whole = Figure("message_bytes", tokens.value * hidden * layout.ACTIVATION_BYTES * ranks, "B", "of all ranks", None, (tokens,))
        sent = Figure("message_bytes", value * top_k, "B", "each token to each of its experts", None, (tokens,))
        gathered, swapped = (
            way(link, message, min(ranks, per), name)
            if ranks <= per
            else total(name, "s", (way(link, message, per, name), way(network_of(device), message, math.ceil(ranks / per), "across_s")))
            for way, message in ((gather, whole), (all_to_all, sent))
        )
        return Figure(name, smaller(gathered.value, swapped.value), "s", "the faster of two ways", None, (gathered, swapped))
    hops, network = math.ceil(ranks / per), network_of(device)
    local = min(ranks, per)
    few, many = (kernels.combine, kernels.combine_many) if back else (kernels.dispatch, kernels.dispatch_many)
    reached = time.distinct_experts(ranks, 1, top_k)
    crossed = time.distinct_experts(hops, 1, top_k) * (hops - 1) / hops

    def kernel(formula: Any, made: links.Exchange, near: Any, far: Any) -> Figure:
        found: Figure = formula.of(
            as_name=name,
            start_s=Figure("start_s", made.start_s, "s", "DeepEP, measured"),
            doubling_s=Figure("doubling_s", made.doubling_s * (network is not links.FREE), "s", "DeepEP, measured"),
            doublings=Figure("doublings", math.log2(hops), "", f"{hops} nodes"),
            near_bytes=Figure("near_bytes", near, "B", "inside the node", None, (tokens,)),
            link_bytes_per_s=_rate(link, made.near_share, local),
            far_bytes=Figure("far_bytes", far, "B", "to other nodes", None, (tokens,)),
            network_bytes_per_s=Figure("network_bytes_per_s", network.rate * made.far_share, "B/s", f"{network.name}, measured share"),
        )
        return found

    straight = kernel(f.dispatch_s, few, value * top_k / hops * (local - 1) / local, value * top_k * (hops - 1) / hops)
    forwarded = kernel(f.forwarded_dispatch_s, many, value * reached * (ranks - 1) / ranks, value * crossed)
    fewer = tokens.value <= LOW_LATENCY_TOKENS
    chosen = fewer * straight.value + (1 - fewer) * forwarded.value
    return Figure(
        name, chosen, "s", f"DeepEP, up to {LOW_LATENCY_TOKENS} tokens a rank straight to the experts", None, (straight, forwarded)
    )


def hand_over(device: Device, message: Figure, far: bool) -> Figure:
    """One stage's output to the next. [s]"""
    link = network_of(device) if far else link_of(device)
    return time.hand_over_s.of(
        as_name="hand_over_s",
        latency_s=Figure("latency_s", link.times.ring.start_s, "s", f"{link.name}, measured"),
        message_bytes=message,
        link_bytes_per_s=_rate(link, link.times.ring.share, 2),
    )


# ---- a step -------------------------------------------------------------------------------------------------------


def communication(model: Model, plan: Deployment, tokens: Any) -> Figure:
    """What the ranks' talk in one step of `tokens` tokens per group takes. [s] Errors: no-link."""
    if plan.ranks == 1:
        return Figure("communication_s", 0, "s", "one device talks to nobody")
    where = nodes(plan)
    message = compute.message_bytes.of(
        tokens=Figure("tokens", tokens, "tokens", "of a step, in one group"),
        hidden=Figure("hidden", model.stack.hidden, "", memory.CONFIG),
        bytes_per_value=Figure("bytes_per_value", layout.ACTIVATION_BYTES, "B", "16-bit activations"),
    )
    mixtures = [layer.mlp for layer in model.stack.layers if layer.mlp and layer.mlp.experts] if plan.dp > 1 else []
    parts = []

    def repeated(name: str, times: int, each: Figure) -> None:
        parts.append(time.repeated_s.of(as_name=name, times=Figure("times", times, "", memory.CONFIG), each_s=each))

    if plan.tp > 1:
        blocks = sum(bool(layer.mixers) + bool(layer.mlp) for layer in model.stack.layers) - len(mixtures)
        repeated("all_reduces_s", blocks, all_reduce(plan.device, message, plan.tp, plan.engine.family))
    if mixtures:
        top_k = max(mlp.top_k for mlp in mixtures)
        own = Figure("tokens", tokens / plan.tp, "tokens", "that each rank sends")
        for back, name in ((False, "dispatches_s"), (True, "combines_s")):
            repeated(name, len(mixtures), exchange(plan.device, own, model.stack.hidden, top_k, plan.spread, back))
    if plan.pp - 1 - where.far_hops:
        repeated("hand_overs_s", plan.pp - 1 - where.far_hops, hand_over(plan.device, message, far=False))
    if where.far_hops:
        repeated("far_hand_overs_s", where.far_hops, hand_over(plan.device, message, far=True))
    return parts[0] if len(parts) == 1 else total("communication_s", "s", tuple(parts))


def _shared(model: Model, plan: Deployment, ranks: int, reach: int, bytes_of: Any) -> Any:
    """One collective of so many ranks, which lie within `reach`, in every layer that attends, with the bytes of each. [s]"""
    link = link_of(plan.device) if reach <= max(1, plan.device.devices_per_node) else network_of(plan.device)
    return sum(
        layers * gather(link, Figure("message_bytes", bytes_of(mixer), "B", "of a layer"), ranks).value
        for mixer, layers in memory.mixers(model)
        if mixer.entries
    )


def shared_step(model: Model, plan: Deployment, tokens: Any) -> Any:
    """What ranks that share caches by their tokens say in a step: queries to all of them, then the parts of their outputs. [s]"""
    found: Any = 0.0
    if plan.dcp > 1:
        found = found + 2 * _shared(model, plan, plan.dcp, plan.tp, lambda mixer: plan.dcp * talk.query_bytes(mixer, plan, tokens))
    if plan.cp > 1:
        found = found + 2 * _shared(model, plan, plan.cp, plan.holders, lambda mixer: talk.query_bytes(mixer, plan, tokens))
    return found


def shared_prompt(model: Model, plan: Deployment, tokens: Any, context: Any) -> Any:
    """What groups that share a prompt pass around while they read `tokens` of it behind a mean context. [s]"""
    if plan.cp == 1:
        return 0.0
    return _shared(model, plan, plan.cp, plan.holders, lambda mixer: talk.passed_bytes(mixer, plan, tokens, context))
