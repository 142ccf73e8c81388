"""What would hold a workload that does not fit: another format, a shorter context, fewer sequences, more devices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from llmcalc.architecture import Model
from llmcalc.errors import UsageError
from llmcalc.estimate import capacity, layout, offload
from llmcalc.figures import Figure
from llmcalc.formats import find
from llmcalc.plan import Deployment, Offload, Workload
from llmcalc.units import size

LEAST_CTX = 256
"""Tokens below which a context is of no use."""
MOST_DEVICES = 256


def holds(model: Model, plan: Deployment, work: Workload) -> bool:
    """Whether engines start such a deployment and it holds the workload."""
    if capacity.refusal(model, plan) is not None:
        return False
    try:
        found = capacity.ledger(model, plan, work.ctx)
    except UsageError:
        return False
    return capacity.sequences(plan, found["max_batch_exact"].value) >= capacity.running(plan, work)


def layouts(plan: Deployment, devices: int) -> Iterator[Deployment]:
    """A model over so many devices: as the engine lays it by itself, within nodes; then with fewer ranks and more stages."""
    node = max(1, plan.device.devices_per_node)
    cut = plan.engine.layout(devices)[0] > 1
    for tp in range(min(devices, node) if cut else 1, 0, -1):
        if devices % tp == 0:
            yield replace(plan, tp=tp, pp=devices // tp, ep=1, cp=1, dcp=1, redundant_experts=0, imbalance=None)


def smallest(model: Model, plan: Deployment, work: Workload) -> Deployment | None:
    """The fewest devices of this kind that hold it, in a layout that engines take; None where no number does."""
    node = max(1, plan.device.devices_per_node)
    counts = [count for count in range(1, MOST_DEVICES + 1) if count <= node or count % min(node, 8) == 0]
    if plan.offload is None:  # nothing lies on hosts, so that the weights alone take so many
        one = replace(plan, tp=1, pp=1, ep=1, cp=1, dcp=1)
        alone = layout.held_weight_bytes(model, one).value / capacity.memory_figure(one).value
        counts = [count for count in counts if count >= 0.95 * alone]
    for count in counts:
        if count > len(model.stack.layers) * node:
            break
        option = next((option for option in layouts(plan, count) if capacity.refusal(model, option) is None), None)
        if option is not None and holds(model, option, work):
            return option
    return None


def over_host(model: Model, plan: Deployment, work: Workload) -> Offload | None:
    """The way over card and host that keeps most on the card and fits; experts go first, as a step reads few of them.

    None: none fits, or the engine knows none.
    """
    layers, base = len(model.stack.layers), plan.offload or Offload()
    if plan.engine.family == "vllm":
        most = int(offload.whole_bytes(model, plan) / plan.ranks / 2**30)
        options = [replace(base, host_bytes=size * 2**30) for size in range(1, most + 1)]
    elif plan.engine.kind == "desktop":
        options = [replace(base, host_expert_layers=count) for count in range(1, layers + 1)] if offload.mixtures(model) else []
        experts = layers if options else 0
        options += [replace(base, gpu_layers=kept, host_expert_layers=experts) for kept in range(layers - 1, -1, -1)]
    else:
        return None
    low, high = -1, len(options)  # each leaves less on the card than the one before
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(model, replace(plan, offload=options[middle]), work) else (middle, high)
    return options[high] if high < len(options) else None


def over_host_words(model: Model, plan: Deployment, own: Offload) -> str:
    """What such a way leaves where."""
    held = size(offload.hosted(model, replace(plan, offload=own)).weight_bytes)
    layers = len(model.stack.layers)
    if own.host_bytes:
        return f"{held} of weights in host memory would do (`cpu_offload_gb` {own.host_bytes / 2**30:g})"
    if own.gpu_layers is None:
        away = own.host_expert_layers
        return f"with the experts of {away} of {layers} layers in host memory it fits (`n_cpu_moe` {away}, {held})"
    return f"{own.gpu_layers} of {layers} layers fit on the card (`gpu_layers` {own.gpu_layers}), {held} in host memory"


def words(plan: Deployment) -> str:
    """A layout, where it is over several devices: ' (tp 2, pp 3)'."""
    parts = [f"{name} {value}" for name, value in (("tp", plan.tp), ("pp", plan.pp)) if value > 1]
    return f" ({', '.join(parts)})" if parts else ""


def out(model: Model, plan: Deployment, work: Workload, found: dict[str, Figure]) -> list[str]:
    """The ways out, the cheaper ones first."""
    said = []
    if (own := over_host(model, plan, work)) is not None:
        said.append(over_host_words(model, plan, own))
    desktop = plan.engine.kind == "desktop" or (plan.engine.kind is None and plan.device.device_class != "datacenter")
    smaller = "q8_0" if desktop else "fp8"
    if plan.kv.bits >= 16 and holds(model, replace(plan, kv=find(smaller, kv=True)), work):
        said.append(f"a cache in {smaller} would fit")
    batch, budget = capacity.running(plan, work), found["kv_budget_bytes"].value
    longest = capacity.longest_context(model, plan, batch, budget) if budget > 0 else 0
    if longest and LEAST_CTX <= longest < work.ctx:
        said.append(f"{longest:,} tokens of context would fit")
    quantised = "q4_k_m" if desktop else "awq"
    if plan.weights.bits > 6 and holds(model, replace(plan, weights=find(quantised)), work):
        said.append(f"a 4-bit checkpoint would fit ({quantised})")
    if most := capacity.sequences(plan, found["max_batch_exact"].value):
        said.append(f"{most:,} sequence{'s' * (most > 1)} would fit")
    if more := smallest(model, plan, work):
        said.append(f"{more.ranks} × {more.device.id}{words(more)} would hold it")
    return said


def copies(model: Model, plan: Deployment, ctx: int) -> str | None:
    """What cutting heads does to caches that cannot be cut, and what attention in groups would hold instead; None where nothing."""
    if plan.tp == 1 or plan.holders * plan.dcp > plan.tp or plan.engine.whole_layers:
        return None
    once = layout.sequence_bytes(model, replace(plan, tp=1, ep=1, cp=1, dcp=1), Figure("ctx_tokens", ctx)).value
    held = layout.sequence_bytes(model, plan, Figure("ctx_tokens", ctx)).value
    if not once or held / once < 1.5:
        return None
    said = f"tp {plan.tp} holds each cache {held / once:.3g} times"
    many = layout.experts(model)
    if not many or many % plan.ranks or plan.pp > 1:
        return said
    grouped = replace(plan, tp=1, ep=plan.tp)
    found = capacity.ledger(model, grouped, ctx)
    most = capacity.sequences(grouped, found["max_batch_exact"].value)
    return f"{said}; attention in {grouped.dp} groups (tp 1, ep {grouped.ep}) would hold {most:,} sequence{'s' * (most != 1)}"
