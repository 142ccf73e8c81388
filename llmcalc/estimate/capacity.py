"""What fits: the ledger of a deployment's memory."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from llmcalc import engines
from llmcalc.architecture import Model
from llmcalc.errors import UsageError
from llmcalc.estimate import Estimate, charged, layout, memory, overheads, start, words
from llmcalc.figures import Figure, total
from llmcalc.formulas import engines as e
from llmcalc.formulas import memory as f
from llmcalc.plan import Deployment, Workload
from llmcalc.units import decimal_size, size, whole


def memory_figure(plan: Deployment) -> Figure:
    """Memory of all devices, as the engine counts it. Errors: no-memory-size."""
    counted = "nominal, decimal" if plan.engine.nominal else "as the driver reports it"
    per_device = Figure("memory_per_device", overheads.device_bytes(plan), "B", f"{plan.device.id}: {counted}")
    return f.replicated_bytes.of(as_name="memory_bytes", held_bytes=per_device, copies=Figure("devices", plan.ranks, "", layout.LAYOUT))


def usable_figures(model: Model, plan: Deployment, ctx: Any, memory: Figure, weights: Figure) -> tuple[Figure, Figure]:
    """(what weights and cache may take, what is kept free by wish) of all devices, under the engine's policy."""
    reserve = Figure("reserve_bytes", plan.reserve_bytes * plan.ranks, "B", "`reserve`, on each device")
    share = Figure("utilization", plan.share, "", f"engine {plan.engine.name}" if plan.utilization is None else "`memory_utilization`")
    if plan.engine.nominal:
        return f.usable_bytes.of(memory_bytes=memory, utilization=share, reserve_bytes=reserve), reserve
    ranks = Figure("devices", plan.ranks, "", layout.LAYOUT)
    seen = f.replicated_bytes.of(as_name="memory_bytes", held_bytes=overheads.visible_bytes(plan), copies=ranks)
    beside = total("overhead_bytes", "B", tuple(overheads.overheads(model, plan, ctx).values()))
    beside = f.replicated_bytes.of(as_name="overhead_bytes", held_bytes=beside, copies=ranks)
    given = {"memory_bytes": seen, "utilization": share, "overhead_bytes": beside, "reserve_bytes": reserve}
    if plan.engine.of_free:
        return e.free_share_bytes.of(given, as_name="usable_bytes", weight_bytes=weights), reserve
    return e.usable_beside_buffers.of(given, as_name="usable_bytes"), reserve


def ledger(model: Model, plan: Deployment, ctx: Any) -> dict[str, Figure]:
    """memory, usable, weights, budget, one sequence, and how many of it fit."""
    memory = memory_figure(plan)
    weights = layout.held_weight_bytes(model, plan)
    usable, reserve = usable_figures(model, plan, ctx, memory, weights)
    budget = f.kv_budget_bytes.of(usable_bytes=usable, weight_bytes=weights)
    sequence = charged.sequence_bytes(model, plan, Figure("ctx_tokens", ctx, "tokens", "`ctx`"))
    found = {"memory_bytes": memory, "reserve_bytes": reserve, "usable_bytes": usable, "weight_bytes": weights, "kv_budget_bytes": budget}
    found["kv_bytes_per_sequence"] = replace(sequence, name="kv_bytes_per_sequence")
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


def smallest_count(model: Model, plan: Deployment, ctx: Any, need: float) -> int | None:
    """Devices of this kind that hold that much as stages of a pipeline, which replicate nothing; None where no number does."""
    weights = layout.held_weight_bytes(model, plan)

    def usable(count: int) -> float:
        stages = replace(plan, tp=1, pp=count, ep=1)
        value: float = usable_figures(model, stages, ctx, memory_figure(stages), weights)[0].value
        return value

    each = usable(3) - usable(2)
    if each <= 0:
        return None
    # Proportional, but for what one device holds otherwise than several, and for SGLang's buffers per rank.
    first = max(1, math.floor((need - usable(2)) / each))
    return next((count for count in range(first, first + 100) if usable(count) >= need), None)


def sequences(plan: Deployment, exact: float) -> int:
    """Whole sequences of an exact quotient, as many in each data-parallel group."""
    return max(0, math.floor(exact / plan.dp)) * plan.dp


def cautions(model: Model, plan: Deployment, ctx: int) -> list[str]:
    """What is estimated though it cannot be run: a context, a layout or an engine that does not go with model and devices."""
    found = []
    if model.max_context and ctx > model.max_context:
        found.append(f"ctx {ctx:,} is beyond the model's own maximum of {model.max_context:,} tokens")
    if plan.ranks > 1:
        reason = layout.obstacle(model, plan)
        if reason is not None:
            found.append(f"tp {plan.tp}, pp {plan.pp}, ep {plan.ep}: {reason}, so engines refuse this layout")
    if plan.engine.vendors and plan.device.vendor not in plan.engine.vendors:
        found.append(f"{plan.engine.name} does not run on {plan.device.vendor}")
    return found


@dataclass(frozen=True, slots=True)
class Held:
    """Whether a workload fits, the most sequences at its context (both None where the memory is not known), and what to say of it."""

    fits: bool | None
    max_batch: int | None
    warnings: tuple[str, ...]


def holds(model: Model, plan: Deployment, work: Workload) -> Held:
    """The verdict of `fit` alone; where the device's memory is not known, none and a warning."""
    try:
        found = ledger(model, plan, work.ctx)
    except UsageError as problem:
        return Held(None, None, (*cautions(model, plan, work.ctx), f"fits: {problem.message}: {problem.hint}"))
    batch = sequences(plan, found["max_batch_exact"].value)
    said = remarks(model, plan, work, found)
    if not plan.engine.nominal:
        said += engine_warnings(model, plan, batch, found["kv_budget_bytes"].value)
    return Held(batch >= work.batch, batch, tuple(said))


def needed_bytes(work: Workload, found: dict[str, Figure]) -> float:
    """Weights, and the caches of the whole batch. [B]"""
    return float(found["weight_bytes"].value + work.batch * found["kv_bytes_per_sequence"].value)


def remarks(model: Model, plan: Deployment, work: Workload, found: dict[str, Figure]) -> list[str]:
    """What is lacking, then what is doubtful, of a workload with that ledger."""
    said = [*model.notes, *cautions(model, plan, work.ctx)]
    if model.towers is None:
        said.append("the towers are not counted: their shape is not read")
    batch = sequences(plan, found["max_batch_exact"].value)
    if batch < work.batch:
        needed = needed_bytes(work, found)
        count = smallest_count(model, plan, work.ctx, needed)
        ways = [f"{count} × {plan.device.id} would hold it"] if count else []
        ways += [f"{batch:,} sequence{'s' if batch > 1 else ''} would fit"] if batch else []
        said.insert(
            0,
            f"does not fit: {size(needed)} are needed ({size(found['weight_bytes'].value)} of weights in {plan.weights.name}), "
            f"{size(max(0, found['usable_bytes'].value))} are there" + "".join(f"; {way}" for way in ways),
        )
    return said


def fit(model: Model, plan: Deployment, work: Workload) -> Estimate:
    """What fits beside the weights: sequences at this context, context at this batch."""
    found = ledger(model, plan, work.ctx)
    value = {key: figure.value for key, figure in found.items()}
    budget = value["kv_budget_bytes"]
    exact = value["max_batch_exact"]
    batch = sequences(plan, exact)
    fits = batch >= work.batch
    longest = longest_context(model, plan, work.batch, budget) if budget > 0 else 0
    needed = needed_bytes(work, found)
    warnings = remarks(model, plan, work, found)
    if longest is None:
        warnings.append("max_ctx_tokens: the cache of this model does not grow without end, so memory sets no limit")
    elif model.max_context and longest > model.max_context:
        warnings.append(f"max_ctx_tokens is what memory holds; the model itself ends at {model.max_context:,} tokens")
    used = whole(work.batch * value["kv_bytes_per_sequence"])
    rows = [
        {"item": f"memory of {plan.ranks} × {plan.device.id}", "bytes": whole(value["memory_bytes"])},
        *engine_rows(model, plan, work.ctx, value),
        {"item": "reserve", "bytes": whole(-value["reserve_bytes"])},
        {"item": f"weights in {plan.weights.name}", "bytes": whole(-value["weight_bytes"])},
        {"item": f"KV of {work.batch:,} × {work.ctx:,} tokens in {plan.kv.name}", "bytes": -used},
        {"item": "left", "bytes": whole(budget - used) if plan.engine.nominal else round(budget - used)},
    ]
    tokens = charged.capacity_tokens(model, plan, work.ctx, budget, exact)
    results = {
        "memory_bytes": whole(value["memory_bytes"]),
        "usable_bytes": whole(value["usable_bytes"]),
        "reserve_bytes": whole(value["reserve_bytes"]),
        "weight_bytes": whole(value["weight_bytes"]),
        "kv_budget_bytes": whole(budget),
        "kv_capacity_tokens": tokens,
        "kv_bytes_per_sequence": whole(value["kv_bytes_per_sequence"]),
        "max_batch": batch,
        "max_batch_exact": exact,
        "max_ctx_tokens": longest,
        "fits": fits,
        "needed_bytes": whole(needed),
    }
    if not plan.engine.nominal:
        results |= {
            "engine_bytes": whole(held_bytes(model, plan, work.ctx, value, needed)),
            "batched_tokens": plan.step_tokens(work.ctx),
            "max_sequences": plan.slots,
            "log": list(words.log_lines(plan, work.ctx, tokens, exact, budget)) if budget > 0 else [],
            "start_command": start.start_command(model, plan, work.ctx, max(batch, 1)),
        }
        warnings += engine_warnings(model, plan, batch, budget)
    results = {key: round(held) if key.endswith("_bytes") and isinstance(held, float) else held for key, held in results.items()}
    return Estimate(
        results=results,
        figures={"max_batch_exact": found["max_batch_exact"]},
        rows=tuple(row for row in rows if row["bytes"] or row["item"] == "left"),
        assumptions=(memory_words(plan),),
        warnings=tuple(warnings),
    )


def held_bytes(model: Model, plan: Deployment, ctx: int, value: dict[str, Any], needed: float) -> float:
    """What the running engine takes of all devices: one with a pool takes its share, whatever the model needs of it."""
    if plan.engine.pool:
        whole_share: float = value["memory_bytes"] * plan.share - value["reserve_bytes"]
        return whole_share
    beside: float = sum(figure.value for figure in overheads.overheads(model, plan, ctx).values())
    return needed + beside * plan.ranks


def engine_rows(model: Model, plan: Deployment, ctx: int, value: dict[str, Any]) -> list[dict[str, Any]]:
    """The ledger between the memory and the weights."""
    if plan.engine.nominal:
        return [{"item": "kept free by the engine", "bytes": whole(value["usable_bytes"] + value["reserve_bytes"] - value["memory_bytes"])}]
    beside = {f"{item}, {plan.engine.name}": figure.value * plan.ranks for item, figure in overheads.overheads(model, plan, ctx).items()}
    driver = value["memory_bytes"] - overheads.visible_bytes(plan).value * plan.ranks
    free = value["memory_bytes"] - value["usable_bytes"] - value["reserve_bytes"] - driver - sum(beside.values())
    items = {"kept by the driver": driver, f"kept free, {plan.engine.name} takes {plan.share:.3g} of it": free} | beside
    return [{"item": item, "bytes": -round(bytes_)} for item, bytes_ in items.items() if abs(bytes_) >= 1]


def engine_warnings(model: Model, plan: Deployment, batch: int, budget: float) -> list[str]:
    """What the figures of an engine leave out."""
    found = []
    if batch > plan.slots > 1:
        found.append(f"memory holds {batch:,} sequences, {plan.engine.name} runs at most {plan.slots:,} at a time (`max_num_seqs`)")
    states = charged.state_blocks(model, plan, budget)
    if states is not None and states < plan.slots:
        less = f"start it with `max_num_seqs={states}` or less"
        found.append(f"the pool holds {states:,} states, {plan.engine.name} wants {plan.slots:,}: {less}")
    if model.towers and plan.engine.pool and not overheads.encoder(model, plan, Figure("tokens", 1)):
        found.append(f"{plan.engine.family} also profiles the vision or audio encoder: what that takes is not counted")
    if plan.engine.family == "vllm" and len({mixer.kind for mixer, _ in memory.mixers(model)}) > 1:
        found.append("a sequence has a fixed part and one per token here: tokens of cache hold for sequences of this length alone")
    return found


def by_engine(model: Model, plan: Deployment, work: Workload) -> list[dict[str, Any]]:
    """What each engine with its own defaults would keep for the cache on the same devices."""
    found = []
    for name in engines.names():
        engine = engines.find(name)
        if engine.vendors and plan.device.vendor not in engine.vendors:
            continue
        other = replace(plan, engine=engine, utilization=None, reserve_bytes=0) if name != plan.engine.name else plan
        try:
            held = ledger(model, other, work.ctx)
        except UsageError:
            continue
        budget, exact = held["kv_budget_bytes"].value, max(0, held["max_batch_exact"].value)
        batch = sequences(other, exact)
        found.append(
            {
                "item": f"under {name}: {batch:,} sequence{'s' * (batch != 1)}",
                "bytes": round(max(0, budget)),
                "engine": name,
                "kv_capacity_tokens": charged.capacity_tokens(model, other, work.ctx, budget, exact),
                "max_batch": batch,
            }
        )
    return found


def kv_held(model: Model, plan: Deployment, work: Workload) -> dict[str, Any]:
    """A sequence's cache as the engine counts it, the share of the devices that all sequences take, and how many would fit."""
    found = ledger(model, plan, work.ctx)
    each = found["kv_bytes_per_sequence"].value
    return {
        "engine_kv_bytes_per_sequence": whole(each),
        "hardware_share": f.share(each * work.batch, found["memory_bytes"].value),
        "max_batch": sequences(plan, found["max_batch_exact"].value),
    }


def memory_words(plan: Deployment) -> str:
    """How memory was counted."""
    if plan.engine.nominal:
        text = f"memory {decimal_size(plan.device.memory_bytes or 0)} per device, nominal and decimal ({plan.engine.name})"
    else:
        text = f"memory {size(plan.device.memory_usable_bytes or 0)} per device, of which {plan.engine.name} uses {plan.share:.0%}"
    return text + (
        f"; {decimal_size(plan.reserve_bytes)} kept free" if plan.reserve_bytes else "; nothing kept free" if plan.share == 1 else ""
    )
