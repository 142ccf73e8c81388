"""The ledger of a deployment's memory: what is there, what it holds beside caches, and how many of those go in."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from llmcalc.architecture import Model
from llmcalc.estimate import charged, layout, offload, overheads
from llmcalc.figures import Figure, total
from llmcalc.formulas import engines as e
from llmcalc.formulas import memory as f
from llmcalc.plan import Deployment, Workload
from llmcalc.units import decimal_size, size

MANY = 2.0**20
"""Sequences, where none of them takes memory of the card."""


def memory_figure(plan: Deployment) -> Figure:
    """Memory of all devices, as the engine counts it. Errors: no-memory-size."""
    counted = "nominal, decimal" if plan.engine.nominal else "as the driver reports it"
    per_device = Figure("memory_per_device", overheads.device_bytes(plan), "B", f"{plan.device.id}: {counted}")
    return f.replicated_bytes.of(as_name="memory_bytes", held_bytes=per_device, copies=Figure("devices", plan.ranks, "", layout.LAYOUT))


def usable_figures(plan: Deployment, memory: Figure, weights: Figure, beside: dict[str, Figure]) -> tuple[Figure, Figure]:
    """(what weights and cache may take, what is kept free by wish) of all devices, under the engine's policy.

    `beside`: what the engine holds on a device beside both.
    """
    reserve = Figure("reserve_bytes", plan.reserve_bytes * plan.ranks, "B", "`reserve`, on each device")
    share = Figure("utilization", plan.share, "", f"engine {plan.engine.name}" if plan.utilization is None else "`memory_utilization`")
    if plan.engine.nominal:
        return f.usable_bytes.of(memory_bytes=memory, utilization=share, reserve_bytes=reserve), reserve
    ranks = Figure("devices", plan.ranks, "", layout.LAYOUT)
    seen = f.replicated_bytes.of(as_name="memory_bytes", held_bytes=overheads.visible_bytes(plan), copies=ranks)
    kept = (plan.engine.figure("kept_free_bytes", plan.engine.free_bytes, "B"),) if plan.engine.free_bytes else ()
    held = total("overhead_bytes", "B", (*beside.values(), *kept))
    held = f.replicated_bytes.of(as_name="overhead_bytes", held_bytes=held, copies=ranks)
    if plan.engine.setup_first:
        setup, copied = (
            f.replicated_bytes.of(as_name=name, held_bytes=total(name, "B", tuple(parts)), copies=ranks)
            for name, parts in (
                ("overhead_bytes", [figure for item, figure in beside.items() if item != overheads.COPIED]),
                ("copied_bytes", [figure for item, figure in beside.items() if item == overheads.COPIED]),
            )
        )
        given = {"memory_bytes": seen, "utilization": share, "overhead_bytes": setup, "copied_bytes": copied, "reserve_bytes": reserve}
        return e.usable_after_setup.of(given, as_name="usable_bytes"), reserve
    given = {"memory_bytes": seen, "utilization": share, "overhead_bytes": held, "reserve_bytes": reserve}
    if plan.engine.of_free:
        return e.free_share_bytes.of(given, as_name="usable_bytes", weight_bytes=weights), reserve
    return e.usable_beside_buffers.of(given, as_name="usable_bytes"), reserve


def ledger(model: Model, plan: Deployment, ctx: Any, beside: dict[str, Figure] | None = None) -> dict[str, Figure]:
    """memory, usable, weights, budget, one sequence, and how many of it fit. `beside`: of overheads.overheads, where it is known."""
    memory = memory_figure(plan)
    weights = layout.held_weight_bytes(model, plan)
    if beside is None:
        beside = {} if plan.engine.nominal else overheads.overheads(model, plan, ctx)
    usable, reserve = usable_figures(plan, memory, weights, beside)
    budget = f.kv_budget_bytes.of(usable_bytes=usable, weight_bytes=weights)
    if plan.pool_bytes is not None:
        budget = Figure("kv_budget_bytes", plan.pool_bytes * plan.ranks, "B", "`available_kv`, on each device")
    sequence = charged.sequence_bytes(model, plan, Figure("ctx_tokens", ctx, "tokens", "`ctx`"))
    found = {"memory_bytes": memory, "reserve_bytes": reserve, "usable_bytes": usable, "weight_bytes": weights, "kv_budget_bytes": budget}
    away = sequence.value * offload.hosted(model, plan).cache_share
    found["kv_bytes_per_sequence"] = replace(offload.resident(sequence, away, "kv_bytes_per_sequence"), name="kv_bytes_per_sequence")
    if away and away == sequence.value:  # every cache lies on the host
        found["max_batch_exact"] = Figure("max_batch_exact", MANY if budget.value >= 0 else 0.0, "sequences", "no cache lies on the card")
        return found
    found["max_batch_exact"] = f.max_batch_exact.of(kv_budget_bytes=budget, kv_bytes_per_sequence=found["kv_bytes_per_sequence"])
    return found


def longest_context(model: Model, plan: Deployment, batch: int, budget: float) -> int | None:
    """The longest context of `batch` sequences in the budget, or None where the cache does not grow. 0: not even one token."""
    most = 2**40
    # A sequence lives in one data-parallel group.
    batch, budget = -(-batch // plan.dp), budget / plan.dp

    def need(ctx: int) -> float:
        value: float = charged.sequence_bytes(model, plan, Figure("ctx_tokens", ctx)).value
        return value * batch

    if need(most) <= budget or need(most) == need(most // 2):
        return None if need(1) <= budget else 0
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if need(middle) <= budget else (low, middle)
    return low


def sequences(plan: Deployment, exact: float) -> int:
    """Whole sequences of an exact quotient, as many in each data-parallel group."""
    return max(0, math.floor(exact / plan.dp)) * plan.dp


def stranger(plan: Deployment) -> str | None:
    """Why the engine has no use for the device, or None."""
    runs = plan.engine.runs_on(plan.device.vendor, plan.device.kind)
    return None if runs else f"{plan.engine.name} does not run on {plan.device.vendor}"


def refusal(model: Model, plan: Deployment) -> str | None:
    """Why engines do not start such a deployment, whatever its memory holds; None where they do."""
    if why := stranger(plan):
        return why
    reason = layout.obstacle(model, plan) if plan.ranks > 1 else None
    return reason and f"tp {plan.tp}, pp {plan.pp}, ep {plan.ep}: {reason}, so engines refuse this layout"


def cautions(model: Model, plan: Deployment, ctx: int) -> list[str]:
    """What is estimated though it cannot be run: a context, a layout or an engine that does not go with model and devices."""
    found = []
    if model.max_context and ctx > model.max_context:
        found.append(f"ctx {ctx:,} is beyond the model's own maximum of {model.max_context:,} tokens")
    if why := refusal(model, plan):
        found.append(why)
    if plan.offload is not None and offload.hosted(model, plan).cache_share == 1:
        found.append("every cache lies in the host's memory, which alone limits the sequences: its size is not counted")
    return found


def running(plan: Deployment, work: Workload) -> int:
    """Sequences whose caches are there at once: the workload's, or the slots of an engine that fills them at start-up."""
    return max(int(work.batch), plan.max_sequences or 1) if plan.engine.slot_caches else int(work.batch)


def memory_words(plan: Deployment) -> str:
    """How memory was counted."""
    if plan.engine.nominal:
        text = f"memory {decimal_size(plan.device.memory_bytes or 0)} per device, nominal and decimal ({plan.engine.name})"
    else:
        text = f"memory {size(plan.device.memory_usable_bytes or 0)} per device, of which {plan.engine.name} uses {plan.share:.0%}"
    return text + (
        f"; {decimal_size(plan.reserve_bytes)} kept free" if plan.reserve_bytes else "; nothing kept free" if plan.share == 1 else ""
    )
