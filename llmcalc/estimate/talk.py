"""What the ranks of a replica say to each other in a step, and how long that takes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from llmcalc import links
from llmcalc.architecture import Attention, Model
from llmcalc.errors import UsageError
from llmcalc.estimate import layout, memory
from llmcalc.figures import Figure, smaller, total
from llmcalc.formulas import compute, time
from llmcalc.hardware import Device
from llmcalc.plan import Deployment

# Latency of one collective inside a node, CUDA graphs on: vLLM's custom all-reduce on H100 takes 4.2, 4.6 and 4.7-5.3 us
# at 2, 4 and 8 ranks (aiconfigurator's tables); over PCIe about 10 us (its p2p_latency).
LATENCY_S = {"nvlink": 5e-6, "pcie": 10e-6}
LATENCY_ELSEWHERE_S = 15e-6


def link_rate(device: Device) -> tuple[Figure, Figure]:
    """(bytes/s one way, latency of a collective). Errors: no-link."""
    link = device.link
    rate = link.bytes_per_s if link else None
    if link is None or rate is None:
        raise UsageError(
            "no-link",
            f"{device.id} has no known link, so what its ranks say to each other cannot be timed",
            "use `tp=1`, or a profile with a link",
        )
    kind = link.type.lower()
    latency = next((value for word, value in LATENCY_S.items() if word in kind), LATENCY_ELSEWHERE_S)
    return (
        Figure("link_bytes_per_s", rate, "B/s", f"{device.id}, {link.type}, one way"),
        Figure("latency_s", latency, "s", f"one collective over {link.type}"),
    )


@dataclass(frozen=True, slots=True)
class Nodes:
    """How a replica's ranks lie on nodes."""

    per_node: int
    """Devices that one link joins."""
    count: int
    """Nodes of the replica."""
    tensor: int
    """Nodes that a tensor-parallel group spans."""
    expert: int
    """Nodes that the ranks which share experts span."""
    far_hops: int
    """Boundaries between stages that lie between nodes."""


def nodes(plan: Deployment) -> Nodes:
    """Where the ranks of a replica lie: as many on each node, so that no group of tensor-parallel ranks lies across without need."""
    per = max(1, plan.device.devices_per_node)
    least = -(-plan.ranks // per)
    each = (plan.ranks // count for count in range(least, plan.ranks + 1) if plan.ranks % count == 0)
    seats = next((seat for seat in each if seat % plan.tp == 0 or plan.tp % seat == 0), per) if least > 1 else per
    far = sum((boundary * plan.holders) % seats == 0 for boundary in range(1, plan.pp))
    return Nodes(seats, -(-plan.ranks // seats), -(-plan.tp // seats), -(-plan.spread // seats), far)


MOST_DRAWN = 8
"""Nodes of a drawing."""


def drawing(plan: Deployment, replicas: int = 1) -> tuple[str, ...]:
    """The nodes, a line each, with the ranks on them in the order of engines: tp innermost, then groups that share a context, stages,
    groups of attention, replicas."""
    where = nodes(plan)
    seats = where.per_node if where.count > 1 else where.per_node // plan.ranks * plan.ranks
    degrees = (("tp", plan.tp), ("cp", plan.cp), ("stage", plan.pp), ("group", plan.dp), ("replica", replicas))
    lines: list[str] = []
    for first in range(0, plan.ranks * replicas, seats):
        parts: dict[str, list[int]] = {}
        for rank in range(first, min(first + seats, plan.ranks * replicas)):
            names, rest = [], rank
            for name, degree in degrees:
                if name != "tp" and degree > 1:
                    names.append(f"{name} {rest % degree + 1}")
                rest //= degree
            parts.setdefault(" ".join(reversed(names)), []).append(rank % plan.tp)
        told = (f"{name} tp {ranks[0]}-{ranks[-1]}".strip() if len(ranks) > 1 else name or "tp 0" for name, ranks in parts.items())
        lines.append(f"node {len(lines) + 1}: {' | '.join(told)}")
    more = len(lines) - MOST_DRAWN
    return tuple(lines) if more <= 0 else (*lines[: MOST_DRAWN - 1], f"{more} nodes alike", lines[-1])


def network_of(device: Device) -> links.Link:
    """The network between nodes; where a profile names none, what its class usually has, which `said` says."""
    if device.network is not None:
        if device.network.bytes_per_s == links.FREE.rate:
            return links.FREE
        known = links.named(device.network.type) or links.LINKS["ndr"]
        return known._replace(rate=device.network.bytes_per_s)
    return links.LINKS["ndr" if device.device_class == "datacenter" else "10gbe"]


def _network(device: Device) -> tuple[Figure, Figure]:
    """(bytes/s of a device to other nodes, latency of a collective between them)."""
    found = network_of(device)
    return (
        Figure("link_bytes_per_s", found.rate, "B/s", f"{device.id}, {found.name} between nodes"),
        Figure("latency_s", found.times.ring.start_s, "s", f"one collective over {found.name}"),
    )


def _summed(plan: Deployment, ways: dict[str, Figure]) -> Figure:
    """An all-reduce of a tensor-parallel group; over several nodes of each device's part of the message, scattered and gathered inside."""
    seats, across = nodes(plan).per_node, nodes(plan).tensor
    if across == 1:
        return time.all_reduce_s.of(ways, devices=Figure("devices", plan.tp, "", layout.LAYOUT))
    inside = Figure("devices", seats, "", layout.LAYOUT)
    rate, latency = _network(plan.device)
    message = ways["message_bytes"]
    part = Figure("message_bytes", message.value / seats, "B", "each device's part of the message", None, (message,))
    far = time.all_reduce_s.of(
        as_name="across_s", latency_s=latency, devices=Figure("devices", across, "", "nodes"), message_bytes=part, link_bytes_per_s=rate
    )
    if seats == 1:
        return far
    near = [time.all_to_all_s.of(ways, as_name=name, devices=inside) for name in ("reduce_scatter_s", "all_gather_s")]
    return total("all_reduce_s", "s", (near[0], far, near[1]))


def communication(model: Model, plan: Deployment, tokens: Any) -> Figure:
    """What the ranks say to each other in one step of `tokens` tokens per group.

    tp: an all-reduce of the hidden state behind each mixer and each MLP. Experts dealt over several groups: instead of the
    latter, two all-to-alls, each rank sending its share of the tokens top_k times. pp: one hand-over per boundary.
    """
    if plan.ranks == 1:
        return Figure("communication_s", 0, "s", "one device talks to nobody")
    rate, latency = link_rate(plan.device)
    where = nodes(plan)
    message = compute.message_bytes.of(
        tokens=Figure("tokens", tokens, "tokens", "of a step, in one group"),
        hidden=Figure("hidden", model.stack.hidden, "", memory.CONFIG),
        bytes_per_value=Figure("bytes_per_value", layout.ACTIVATION_BYTES, "B", "16-bit activations"),
    )
    ways = {"latency_s": latency, "message_bytes": message, "link_bytes_per_s": rate}
    tp = Figure("devices", plan.tp, "", layout.LAYOUT)
    mixtures = [layer.mlp for layer in model.stack.layers if layer.mlp and layer.mlp.experts] if plan.dp > 1 else []
    parts = []
    if plan.tp > 1:
        each = _summed(plan, ways)
        blocks = sum(bool(layer.mixers) + bool(layer.mlp) for layer in model.stack.layers) - len(mixtures)
        parts.append(time.repeated_s.of(as_name="all_reduces_s", times=Figure("all_reduces", blocks, "", memory.CONFIG), each_s=each))
    if mixtures:
        most = Figure("top_k", max(mlp.top_k for mlp in mixtures), "", memory.CONFIG)
        sent = compute.dispatched_bytes.of(message_bytes=message, tensor_parallel=tp, top_k=most)
        ranks = Figure("devices", plan.spread, "", layout.LAYOUT)
        each = time.all_to_all_s.of(ways | {"message_bytes": sent}, devices=ranks)
        if where.expert > 1:  # a token crosses to a node once, whatever experts it has there
            far_rate, far_latency = _network(plan.device)
            crossed = time.distinct_experts(where.expert, 1, most.value)
            once = Figure("message_bytes", message.value / plan.tp * crossed, "B", "each token to each of its nodes", None, (message,))
            hops = Figure("devices", where.expert, "", "nodes")
            each = time.all_to_all_s.of(latency_s=far_latency, devices=hops, message_bytes=once, link_bytes_per_s=far_rate)
        count = Figure("all_to_alls", 2 * len(mixtures), "", memory.CONFIG)
        parts.append(time.repeated_s.of(as_name="all_to_alls_s", times=count, each_s=each))
    for name, number, over in (
        ("hand_overs_s", plan.pp - 1 - where.far_hops, ways),
        ("far_hand_overs_s", where.far_hops, dict(zip(("link_bytes_per_s", "latency_s"), _network(plan.device), strict=True))),
    ):
        if number:
            hop = time.hand_over_s.of(ways | over)
            parts.append(time.repeated_s.of(as_name=name, times=Figure("boundaries", number, "", layout.LAYOUT), each_s=hop))
    return parts[0] if len(parts) == 1 else total("communication_s", "s", tuple(parts))


# ---- contexts that ranks share ------------------------------------------------------------------------------------


def query_bytes(mixer: Attention, plan: Deployment, tokens: Any) -> Any:
    """Queries of one layer and of a rank's heads, or as much of outputs: half of what an entry is multiplied with each. [B]"""
    return tokens * max((entry.flops for entry in mixer.entries), default=0) / 4 * layout.ACTIVATION_BYTES / plan.tp


def passed_bytes(mixer: Attention, plan: Deployment, tokens: Any, context: Any) -> Any:
    """What goes around a ring of groups in one layer: keys and values of the context, or queries and outputs, if these are less. [B]"""
    at = Figure("ctx_tokens", context, "tokens", "of the prompt, on average")
    caches = sum(layout.entry_bytes(mixer, entry, 1, plan, layout.entries_read(entry, at)).value for entry in mixer.entries) / plan.tp
    return smaller(caches, 2 * query_bytes(mixer, plan, tokens))


def _each_layer(model: Model, plan: Deployment, name: str, ranks: int, times: int, bytes_of: Any) -> Figure:
    """A gather of so many ranks in every layer that attends. [s]"""
    reach = plan.holders if name != "dcp_s" else plan.tp
    rate, latency = link_rate(plan.device) if reach <= nodes(plan).per_node else _network(plan.device)
    parts = []
    for mixer, layers in memory.mixers(model):
        if mixer.entries:
            message = Figure("message_bytes", bytes_of(mixer), "B", "of a layer")
            each = time.all_to_all_s.of(
                latency_s=latency, devices=Figure("devices", ranks, "", layout.LAYOUT), message_bytes=message, link_bytes_per_s=rate
            )
            parts.append(time.repeated_s.of(as_name=name, times=Figure("times", times * layers, "", memory.CONFIG), each_s=each))
    return total(name, "s", tuple(parts))


def shared_step(model: Model, plan: Deployment, tokens: Any, said: Figure) -> Figure:
    """A step's communication with what ranks that share caches by their tokens say: queries, then the parts of their outputs."""
    parts = []
    if plan.dcp > 1:
        gathered = partial(query_bytes, plan=plan, tokens=tokens * plan.dcp)
        parts.append(_each_layer(model, plan, "dcp_s", plan.dcp, 2, gathered))
    if plan.cp > 1:
        parts.append(_each_layer(model, plan, "cp_s", plan.cp, 2, partial(query_bytes, plan=plan, tokens=tokens)))
    return total("communication_s", "s", (said, *parts)) if parts else said


def shared_prompt(model: Model, plan: Deployment, tokens: Any, cached: Any, said: Figure) -> Figure:
    """A prompt's communication with what goes around the groups that share it."""
    if plan.cp == 1:
        return said
    ring = partial(passed_bytes, plan=plan, tokens=tokens, context=cached + tokens)
    return total("communication_s", "s", (said, _each_layer(model, plan, "ring_s", plan.cp, 1, ring)))
