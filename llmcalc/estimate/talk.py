"""What the ranks of a replica say to each other in a step, and how long that takes."""

from __future__ import annotations

from functools import partial
from typing import Any

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


def communication(model: Model, plan: Deployment, tokens: Any) -> Figure:
    """What the ranks say to each other in one step of `tokens` tokens per group.

    tp: an all-reduce of the hidden state behind each mixer and each MLP. Experts dealt over several groups: instead of the
    latter, two all-to-alls, each rank sending its share of the tokens top_k times. pp: one hand-over per boundary.
    """
    if plan.ranks == 1:
        return Figure("communication_s", 0, "s", "one device talks to nobody")
    rate, latency = link_rate(plan.device)
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
        each = time.all_reduce_s.of(ways, devices=tp)
        blocks = sum(bool(layer.mixers) + bool(layer.mlp) for layer in model.stack.layers) - len(mixtures)
        parts.append(time.repeated_s.of(as_name="all_reduces_s", times=Figure("all_reduces", blocks, "", memory.CONFIG), each_s=each))
    if mixtures:
        most = Figure("top_k", max(mlp.top_k for mlp in mixtures), "", memory.CONFIG)
        sent = compute.dispatched_bytes.of(message_bytes=message, tensor_parallel=tp, top_k=most)
        ranks = Figure("devices", plan.spread, "", layout.LAYOUT)
        each = time.all_to_all_s.of(ways | {"message_bytes": sent}, devices=ranks)
        count = Figure("all_to_alls", 2 * len(mixtures), "", memory.CONFIG)
        parts.append(time.repeated_s.of(as_name="all_to_alls_s", times=count, each_s=each))
    if plan.pp > 1:
        hop = time.hand_over_s.of(ways)
        parts.append(time.repeated_s.of(as_name="hand_overs_s", times=Figure("boundaries", plan.pp - 1, "", layout.LAYOUT), each_s=hop))
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
    rate, latency = link_rate(plan.device)
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
