"""Whether a workload fits, the most and the longest that would, and what else would hold it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from llmcalc import engines
from llmcalc.answers import ABSENT, Absent, Answer, Aside, answer, field
from llmcalc.architecture import Model
from llmcalc.errors import UsageError
from llmcalc.estimate import Answered, adapters, capacity, charged, files, layout, memory, offload, overheads, start, ways, words
from llmcalc.figures import Figure
from llmcalc.formulas import memory as f
from llmcalc.plan import Deployment, Workload
from llmcalc.units import size, whole


@answer("fit", rows=True)
class FitRow(Answer):
    """A line of the ledger, or what an engine with its own defaults would hold on the same devices."""

    item: str = field("memory")
    bytes: int = field("bytes", "B", meaning="of the ledger; of an engine, what it keeps for caches")
    engine: str | None = field("engine", default=None)
    kv_capacity_tokens: int | None = field("tokens of cache", "tokens", rank=2, default=None)
    max_batch: int | None = field("sequences", default=None)
    holds: bool | None = field("holds it", meaning="whether the engine starts and holds the workload", default=None)
    max_ctx_tokens: int | None = field("longest context", "tokens", meaning="of the batch", default=None)
    why: str | None = field("", rank=1, meaning="why an engine refuses the layout", default=None)


@answer("fit")
class Fit(Answer):
    """What the memory holds beside the weights, of all devices together."""

    fits: bool = field("fits", detail=True)
    max_batch: int = field("sequences that fit")
    max_batch_exact: float = field("  before rounding down", detail=True)
    max_ctx_tokens: int | None = field("longest context at the batch", "tokens")
    kv_capacity_tokens: int = field("tokens of cache in all", "tokens", detail=True)
    kv_bytes_per_sequence: float = field("cache of one sequence", "B")
    memory_bytes: float = field(unit="B", shown=False)
    usable_bytes: float = field(unit="B", shown=False)
    reserve_bytes: float = field(unit="B", shown=False)
    weight_bytes: float = field(unit="B", shown=False)
    kv_budget_bytes: float = field(unit="B", shown=False, meaning="for caches")
    needed_bytes: float = field("needed for the batch", "B", meaning="weights and the caches of the batch, or of all slots", detail=True)
    engine_bytes: float | Absent = field("the running engine takes", "B", detail=True, default=ABSENT)
    batched_tokens: int | Absent = field("tokens of a step", "tokens", detail=True, default=ABSENT)
    max_sequences: int | Absent = field("sequences at a time", shown=False, default=ABSENT)
    log: tuple[str, ...] | Absent = field(shown=False, meaning="what the engine prints at start-up", default=ABSENT)
    start_command: str | Absent | None = field(shown=False, meaning="null where nothing starts", default=ABSENT)
    weight_bytes_per_device: float = field("weights per device", "B")
    kv_bytes_per_sequence_per_device: float = field("  cache per device", "B")
    engines_that_hold: tuple[str, ...] = field(shown=False, meaning="with their own defaults on the same devices")
    refused: str | Absent = field(shown=False, meaning="why engines do not start it", default=ABSENT)
    host_bytes: int | Absent = field("in host memory", "B", meaning="weights that lie there", default=ABSENT)
    suggested_gpu_layers: int | Absent | None = field(
        shown=False, meaning="layers on the card with which it fits; null: all", default=ABSENT
    )
    suggested_n_cpu_moe: int | Absent = field(shown=False, meaning="layers whose experts go to the host then", default=ABSENT)
    suggested_host_bytes: int | Absent = field(shown=False, meaning="host memory that it takes then", default=ABSENT)


@dataclass(frozen=True, slots=True)
class Held:
    """Whether a workload fits, the most sequences at its context (both None where the memory is not known), and what to say of it."""

    fits: bool | None
    max_batch: int | None
    warnings: tuple[str, ...]
    each: dict[str, Any]
    """Weights and a sequence's cache on a device, by their keys, where several share them. [B]"""


def holds(model: Model, plan: Deployment, work: Workload) -> Held:
    """The verdict of `fit` alone; where the device's memory is not known, none and a warning."""
    try:
        beside = {} if plan.engine.nominal else overheads.overheads(model, plan, work.ctx)
        found = capacity.ledger(model, plan, work.ctx, beside)
    except UsageError as problem:
        return Held(None, None, (*capacity.cautions(model, plan, work.ctx), f"fits: {problem.message}: {problem.hint}"), {})
    batch = capacity.sequences(plan, found["max_batch_exact"].value)
    said = remarks(model, plan, work, found)
    if not plan.engine.nominal:
        said += engine_warnings(model, plan, batch, found["kv_budget_bytes"].value)
    starves = starved(model, plan, found["kv_budget_bytes"].value)
    fits = batch >= capacity.running(plan, work) and not (capacity.refusal(model, plan) or starves)
    return Held(fits, batch, tuple(said), on_each(plan, found) if plan.ranks > 1 else {})


def on_each(plan: Deployment, found: dict[str, Figure]) -> dict[str, Any]:
    """What of a ledger lies on one device, by the keys of answers."""
    return {
        "weight_bytes_per_device": _bytes(found["weight_bytes"].value / plan.ranks),
        "kv_bytes_per_sequence_per_device": _bytes(found["kv_bytes_per_sequence"].value * plan.dp / plan.ranks),
    }


def needed_bytes(plan: Deployment, work: Workload, found: dict[str, Figure]) -> float:
    """Weights, and the caches of the whole batch, or of all slots. [B]"""
    return float(found["weight_bytes"].value + capacity.running(plan, work) * found["kv_bytes_per_sequence"].value)


def remarks(model: Model, plan: Deployment, work: Workload, found: dict[str, Figure]) -> list[str]:
    """What is lacking, then what is doubtful, of a workload with that ledger."""
    said = [*model.notes, *capacity.cautions(model, plan, work.ctx)]
    if model.towers is None:
        said.append("the towers are not counted: their shape is not read")
    if old := words.of_old_files(model, plan, Figure("ctx_tokens", work.ctx, "tokens", "`ctx`")):
        said.append(old)
    if capacity.sequences(plan, found["max_batch_exact"].value) < capacity.running(plan, work):
        needed = needed_bytes(plan, work, found)
        said.insert(
            0,
            f"does not fit: {size(needed)} are needed ({size(found['weight_bytes'].value)} of weights in {plan.weights.name}), "
            f"{size(max(0, found['usable_bytes'].value))} are there" + "".join(f"; {way}" for way in ways.out(model, plan, work, found)),
        )
    elif capacity.refusal(model, plan) and (other := ways.smallest(model, plan, work)):
        said.append(f"{other.ranks} × {other.device.id}{ways.words(other)} would hold it")
    return said


def fit(model: Model, plan: Deployment, work: Workload) -> Answered[Fit, FitRow]:
    """What fits beside the weights: sequences at this context, context at this batch; and what other engines would hold."""
    beside = {} if plan.engine.nominal else overheads.overheads(model, plan, work.ctx)
    found = capacity.ledger(model, plan, work.ctx, beside)
    value = {key: figure.value for key, figure in found.items()}
    budget, exact = value["kv_budget_bytes"], value["max_batch_exact"]
    batch, slots = capacity.sequences(plan, exact), capacity.running(plan, work)
    refused, starves = capacity.refusal(model, plan), starved(model, plan, budget)
    longest = capacity.longest_context(model, plan, slots, budget) if budget > 0 else 0
    needed = needed_bytes(plan, work, found)
    warnings = remarks(model, plan, work, found)
    if longest is None:
        warnings.append("max_ctx_tokens: the cache of this model does not grow without end, so memory sets no limit")
    if copied := ways.copies(model, plan, work.ctx):
        warnings.append(copied)
    logged = charged.capacity_tokens(model, plan, work.ctx, budget, exact)
    tokens = held_tokens(plan, work, exact, logged)
    others = by_engine(model, plan, work)
    results = Fit(
        fits=batch >= slots and not (refused or starves),
        max_batch=batch,
        max_batch_exact=exact,
        max_ctx_tokens=longest,
        kv_capacity_tokens=tokens,
        kv_bytes_per_sequence=_bytes(value["kv_bytes_per_sequence"]),
        memory_bytes=_bytes(value["memory_bytes"]),
        usable_bytes=_bytes(value["usable_bytes"]),
        reserve_bytes=_bytes(value["reserve_bytes"]),
        weight_bytes=_bytes(value["weight_bytes"]),
        kv_budget_bytes=_bytes(budget),
        needed_bytes=_bytes(needed),
        **on_each(plan, found),
        engines_that_hold=tuple(row.engine for row in others if row.engine and row.holds),
        refused=refused or ABSENT,
    )
    results = replace(results, **_on_host(model, plan, work, results.fits))
    if not plan.engine.nominal:
        obstacle = starves or start.obstacle(model, plan, work.ctx, results.fits or (plan.engine.pool and batch > 0))
        warnings += [f"start_command: {obstacle}"] if obstacle and not starves else []
        results = replace(
            results,
            engine_bytes=_bytes(held_bytes(plan, value, needed, beside)),
            batched_tokens=plan.step_tokens(work.ctx),
            max_sequences=plan.slots,
            log=words.log_lines(plan, work.ctx, logged, exact, budget) if budget > 0 else (),
            start_command=None if obstacle else start.command(model, plan, work.ctx, at_once(model, plan, slots, budget)),
        )
        warnings += engine_warnings(model, plan, batch, budget)
    return Answered(
        results=results,
        figures={"max_batch_exact": found["max_batch_exact"]},
        rows=(*rows(model, plan, work, value, beside), *others),
        assumptions=(
            Aside(files.words(model, plan.weights)),
            *((adapters.words(model, plan.adapters),) if plan.adapters else ()),
            Aside(capacity.memory_words(plan)),
        ),
        warnings=tuple(warnings),
    )


def _on_host(model: Model, plan: Deployment, work: Workload, fits: bool) -> dict[str, Any]:
    """What lies in the host's memory, and what would make it fit."""
    found: dict[str, Any] = {}
    if plan.offload is not None:
        found["host_bytes"] = _bytes(offload.hosted(model, plan).weight_bytes)
    if not fits and (own := ways.over_host(model, plan, work)) is not None:
        held = offload.hosted(model, replace(plan, offload=own)).weight_bytes
        found |= {
            "suggested_gpu_layers": own.gpu_layers,
            "suggested_n_cpu_moe": own.host_expert_layers,
            "suggested_host_bytes": _bytes(held),
        }
    return found


def held_tokens(plan: Deployment, work: Workload, exact: float, logged: int) -> int:
    """Tokens of cache in sequences of that length; vLLM's log divided blocks by groups before 0.21, whatever a sequence has in each."""
    return max(logged, int(exact * work.ctx)) if plan.engine.log_groups and exact * work.ctx > 1.1 * logged else logged


def at_once(model: Model, plan: Deployment, slots: int, budget: float) -> int | None:
    """Sequences that an engine is told to run at a time; None: its default, unless the pool may have states for fewer."""
    if plan.engine.slot_caches:
        return slots
    states = charged.sure_states(model, plan, budget)
    return plan.max_sequences or (states if states is not None and states < plan.slots else None)


def starved(model: Model, plan: Deployment, budget: float) -> str | None:
    """Why vLLM stops at start-up with the sequences asked for, which may each need a state. [config/compilation.py: has_mamba_layers]"""
    if plan.max_sequences is None or plan.eager or plan.engine.family != "vllm":
        return None
    sure = charged.sure_states(model, plan, budget)
    return f"too few states for {plan.max_sequences:,} sequences" if sure is not None and sure < plan.max_sequences else None


def _bytes(value: float) -> Any:
    """Whole bytes."""
    exact = whole(value)
    return round(exact) if isinstance(exact, float) else exact


def rows(model: Model, plan: Deployment, work: Workload, value: dict[str, Any], beside: dict[str, Figure]) -> list[FitRow]:
    """The ledger, from the memory to what is left."""
    budget, slots = value["kv_budget_bytes"], capacity.running(plan, work)
    reserved = adapters.held_bytes(model, plan)
    tuned = reserved.value if reserved else 0
    used = whole(slots * value["kv_bytes_per_sequence"])
    found = {
        f"memory of {plan.ranks} × {plan.device.id}": whole(value["memory_bytes"]),
        **engine_rows(plan, value, beside),
        "reserve": whole(-value["reserve_bytes"]),
        f"weights in {plan.weights.name}": whole(tuned - value["weight_bytes"]),
        "adapters": whole(-tuned),
        f"KV of {slots:,} × {work.ctx:,} tokens in {plan.kv.name}": -used,
        "left": whole(budget - used) if plan.engine.nominal else round(budget - used),
    }
    return [FitRow(item=item, bytes=held) for item, held in found.items() if held or item == "left"]


def held_bytes(plan: Deployment, value: dict[str, Any], needed: float, beside: dict[str, Figure]) -> float:
    """What the running engine takes of all devices: one with a pool takes its share, whatever the model needs of it."""
    if plan.engine.pool:
        whole_share: float = value["memory_bytes"] * plan.share - value["reserve_bytes"]
        return whole_share
    held: float = sum(figure.value for figure in beside.values())
    return needed + held * plan.ranks


def engine_rows(plan: Deployment, value: dict[str, Any], beside: dict[str, Figure]) -> dict[str, Any]:
    """The ledger between the memory and the weights."""
    if plan.engine.nominal:
        return {"kept free by the engine": whole(value["usable_bytes"] + value["reserve_bytes"] - value["memory_bytes"])}
    held = {f"{item}, {plan.engine.name}": figure.value * plan.ranks for item, figure in beside.items()}
    driver = value["memory_bytes"] - overheads.visible_bytes(plan).value * plan.ranks
    free = value["memory_bytes"] - value["usable_bytes"] - value["reserve_bytes"] - driver - sum(held.values())
    share = "" if plan.share == 1 else f" takes {plan.share:.3g} of it"
    items = {"kept by the driver": driver, f"kept free, {plan.engine.name}{share}": free} | held
    return {item: -round(bytes_) for item, bytes_ in items.items() if abs(bytes_) >= 1}


def engine_warnings(model: Model, plan: Deployment, batch: int, budget: float) -> list[str]:
    """What the figures of an engine leave out."""
    found = []
    if batch > plan.slots > 1:
        found.append(f"memory holds {batch:,} sequences, {plan.engine.name} runs at most {plan.slots:,} at a time (`max_num_seqs`)")
    states, sure = charged.state_blocks(model, plan, budget), charged.sure_states(model, plan, budget)
    if states is not None and sure is not None and sure < plan.slots and plan.engine.family == "vllm":  # SGLang takes fewer by itself
        about = "" if states < plan.slots else " by an estimate that may be a sixth too large"
        less = f"start it with `max_num_seqs={sure}` or less"
        found.append(f"the pool holds {states:,} states{about}, {plan.engine.name} wants {plan.slots:,}: {less}")
    profiles = plan.engine.pool and plan.engine.share_rule is None and plan.encoder
    if model.towers and profiles and not overheads.encoder(model, plan, Figure("tokens", 1)):
        found.append(f"{plan.engine.family} also profiles the vision or audio encoder: what that takes is not counted")
    if plan.engine.family == "vllm" and len({mixer.kind for mixer, _ in memory.mixers(model)}) > 1:
        found.append("a sequence has a fixed part and one per token here: tokens of cache hold for sequences of this length alone")
    return found


def under(plan: Deployment, engine: engines.Engine) -> Deployment:
    """The deployment under another engine, with that one's defaults, and its own layout where nobody asked for one."""
    own = (plan.tp, plan.pp) == plan.engine.layout(plan.ranks) and plan.ep == plan.cp == plan.dcp == 1
    tp, pp = engine.layout(plan.ranks) if own else (plan.tp, plan.pp)
    return replace(plan, engine=engine, utilization=None, reserve_bytes=0, tp=tp, pp=pp)


def by_engine(model: Model, plan: Deployment, work: Workload) -> list[FitRow]:
    """What each engine with its own defaults would hold on the same devices, and whether it is the workload."""
    found = []
    for name in engines.names():
        engine = engines.find(name)
        others = (engine.aside or not plan.weights.name.startswith(engine.files)) and name != plan.engine.name
        if others or not engine.runs_on(plan.device.vendor, plan.device.kind):
            continue
        other = under(plan, engine) if name != plan.engine.name else plan
        try:
            held = capacity.ledger(model, other, work.ctx)
        except UsageError:
            continue
        budget, exact = held["kv_budget_bytes"].value, max(0, held["max_batch_exact"].value)
        refused = layout.obstacle(model, other) if other.ranks > 1 else None
        batch, slots = 0 if refused and not engine.nominal else capacity.sequences(other, exact), capacity.running(other, work)
        refused = refused or starved(model, other, budget)
        longest = capacity.longest_context(model, other, slots, budget) if batch and budget > 0 else 0
        found.append(
            FitRow(
                item=f"under {name}: {batch:,} sequence{'s' * (batch != 1)}",
                bytes=round(max(0, budget)),
                engine=name,
                kv_capacity_tokens=charged.capacity_tokens(model, other, work.ctx, budget, exact),
                max_batch=batch,
                holds=batch >= slots and not refused,
                max_ctx_tokens=longest,
                why=refused or "",
            )
        )
    return found


def kv_held(model: Model, plan: Deployment, work: Workload) -> dict[str, Any]:
    """A sequence's cache as the engine counts it, the share of the devices that all sequences take, and how many would fit."""
    found = capacity.ledger(model, plan, work.ctx)
    each = found["kv_bytes_per_sequence"].value
    return {
        "engine_kv_bytes_per_sequence": whole(each),
        "engine_kv_bytes_total": whole(each * work.batch),
        **({"kv_bytes_per_sequence_per_device": whole(each * plan.dp / plan.ranks)} if plan.ranks > 1 else {}),
        "hardware_share": f.share(each * work.batch, found["memory_bytes"].value),
        "max_batch": capacity.sequences(plan, found["max_batch_exact"].value),
    }
