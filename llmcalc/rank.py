"""What runs on a machine, how fast, and how good it is: the verdict of `fit`, the expected speed of `decode`, and dated ratings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from llmcalc import answers, hardware, quality, sources
from llmcalc.answers import ABSENT, Absent, Answer, answer
from llmcalc.api import deploy, of_source
from llmcalc.architecture import Model
from llmcalc.errors import LlmcalcError
from llmcalc.estimate import capacity, charged, memory, overheads, start, step
from llmcalc.estimate import verdict as verdicts
from llmcalc.estimate.quant import LOCAL
from llmcalc.figures import Figure
from llmcalc.formats import FORMATS
from llmcalc.plan import Deployment, Workload

PROMPT = 2048
"""Of the time to the first token."""
READING_SPEED = 10.0
"""Tokens per second that a quick reader keeps up with."""
FILES = ("q8_0", "q6_k", "q5_k_m", "q4_k_m", "q3_k_m")
"""GGUF types that are published for nearly every model, best first."""
SERVED = {"fp8": ("fp8", "awq"), "int8": ("w8a8", "awq")}
"""What a server is given, by what the device multiplies in."""
NATIVE_BITS = 6
"""A checkpoint that ships in fewer is run as it is."""
FEWEST_BITS = 3
"""In which anything is published that is worth running."""
Group = Literal["rated", "slow", "unrated"]
GROUPS: tuple[Group, ...] = ("rated", "slow", "unrated")
SORTS = ("quality", "speed", "memory")


@dataclass(frozen=True, slots=True)
class Asked:
    """What somebody wants to run."""

    ctx: int = 8192
    strict: bool = False
    """Leave out models whose own longest context is shorter."""
    batch: int = 1
    least_tokens_per_s: float = READING_SPEED
    task: quality.Task = "text"
    engine: str | None = None
    """None: llama.cpp on machines of one user, else vLLM."""
    family: str = ""
    sort: Literal["quality", "speed", "memory"] = "quality"


@answer("rank", rows=True)
class Runs(Answer):
    """One model that runs, in the best format that fits and is fast enough."""

    name: str = answers.field("model", meaning="without its publisher")
    model: str = answers.field("id", shown=False)
    hardware: str = answers.field("device", shown=False)
    count: int = answers.field("count", shown=False)
    weights: str = answers.field("format", rank=1)
    needed_bytes: float = answers.field("needs", "B", rank=3, meaning="weights and the caches of the batch")
    engine_bytes: float | Absent = answers.field("engine takes", "B", shown=False, default=ABSENT)
    usable_bytes: float = answers.field("of", "B", rank=8, meaning="what weights and caches may take")
    max_ctx_tokens: int | None = answers.field("context", "tokens", rank=4, meaning="that fits, to the model's own end")
    tokens_per_s: float = answers.field("tok/s", "tokens/s", meaning="expected, of one sequence")
    tokens_per_s_range: str = answers.field("8 of 10", rank=2, meaning="between which 8 of 10 cases lie, in words")
    tokens_per_s_low: float = answers.field("low", "tokens/s", shown=False, meaning="8 of 10 cases lie between low and high")
    tokens_per_s_high: float = answers.field("high", "tokens/s", shown=False)
    ttft_s: float | None = answers.field("TTFT 2k", "s", rank=6, meaning=f"expected, of a prompt of {PROMPT:,} tokens")
    quality: float | None = answers.field("rating")
    quality_low: float | None = answers.field("low", shown=False, meaning="95% interval")
    quality_high: float | None = answers.field("high", shown=False, meaning="95% interval")
    quality_range: str = answers.field("±", rank=5, meaning="half of the 95% interval, and whether the rating is older than a year")
    quality_date: str | None = answers.field("rated", rank=9)
    quality_source: str | None = answers.field("source", shown=False)
    quality_named: str | None = answers.field("rated as", shown=False)
    quality_old: bool = answers.field("old", shown=False, meaning="rated more than a year ago")
    perplexity_ratio: float | None = answers.field(
        "× perplexity", shown=False, meaning="measured, in this format over 16 bits; not in the rating"
    )
    licence: str | None = answers.field("licence", rank=10)
    params: int = answers.field("parameters", "params", shown=False)
    active_params: int = answers.field("active", "params", shown=False)
    group: Group = answers.field("group", shown=False, meaning="rated and fast enough; slow; without a rating")
    kv_dtype: str = answers.field("KV", shown=False)
    engine: str = answers.field("engine", shown=False)
    start: str = answers.field("start", shown=False, meaning="a line that starts it; empty where no published file is known")
    runs_on_first: bool | Absent = answers.field(
        "on the first", default=ABSENT, shown=False, meaning="whether the first device runs it, too"
    )
    speed_ratio: float | Absent | None = answers.field("× first", rank=1, default=ABSENT, meaning="tokens/s over those on the first device")


@answer("rank")
class Ranking(Answer):
    """What came of it."""

    best: str | None = answers.field("best that fits", shown=False)
    best_weights: str | None = answers.field("in", shown=False)
    best_tokens_per_s: float | None = answers.field("at", "tokens/s", shown=False)
    candidates: int = answers.field("models looked at", shown=False)
    running: int = answers.field("that run", shown=False)
    rated: int = answers.field("rated and fast enough", shown=False)
    gained: int | Absent = answers.field("that the last device runs and the first does not", default=ABSENT, shown=False)
    median_speed_ratio: float | Absent | None = answers.field("median × first", default=ABSENT, shown=False)


@dataclass(frozen=True, slots=True)
class Ranked:
    """Rows by device, best first, and what was left out."""

    rows: tuple[Runs, ...]
    candidates: int
    problems: dict[str, str] = field(default_factory=dict)


def default_engine(device: hardware.Device) -> str:
    """What people run on such a device."""
    return "llama.cpp" if device.device_class in LOCAL else "vllm"


def machine(reference: str) -> tuple[int, hardware.Device]:
    """(number, device) of '2x rtx-3090'. Errors: those of loading a device."""
    count, name = hardware.parse_count(reference)
    return count, hardware.load(name)


def candidates(asked: Asked) -> Iterator[Model]:
    """Bundled models that answer, of the family and for the task that are asked for."""
    for name in quality.answers(sources.bundled_ids()):
        if asked.family.lower() not in name.lower():
            continue
        found = of_source(sources.read_bundled(name))
        if asked.strict and found.max_context and found.max_context < asked.ctx:
            continue
        if asked.task == "vision" and found.towers == ():
            continue
        yield found


def ranked(reference: str, asked: Asked, models: Iterable[Model]) -> Ranked:
    """Every model that runs on a machine, in its best format."""
    count, device = machine(reference)
    engine = asked.engine or default_engine(device)
    ids = sources.bundled_ids()
    rows, problems, number = [], {}, 0
    for model in models:
        number += 1
        try:
            row = best(model, ids, reference, count, engine, asked)
        except LlmcalcError as problem:
            problems[model.id] = problem.message
            continue
        if row is not None:
            rows.append(row)
    rows.sort(key=lambda row: order(row, asked.sort))
    return Ranked(tuple(rows), number, problems)


def order(row: Runs, sort: str) -> tuple[Any, ...]:
    """Rated and fast enough first, then the slow, then those without a rating; in each by what was asked for."""
    if sort == "speed":
        return (-row.tokens_per_s,)
    if sort == "memory":
        return (row.needed_bytes,)
    return GROUPS.index(row.group), -(row.quality or 0), -row.params


def forms(model: Model, ids: list[str], plan: Deployment) -> Iterator[tuple[Model, str]]:
    """(Model, format) pairs that people publish and the engine runs, best first."""
    if model.quantization and memory.weight_format(model, "auto", plan.engine)[0].bits < NATIVE_BITS:
        yield model, "auto"
        return
    if plan.engine.kind == "desktop":
        yield from ((model, name) for name in FILES)
        return
    yield model, "auto"
    copies = [of_source(sources.read_bundled(name)) for name in quality.copies(model.id, ids)]
    usual = SERVED["fp8" if "fp8" in plan.device.compute else "int8"]
    held = [(copy, "auto", memory.weight_format(copy, "auto")[0].bits) for copy in copies if _runs_in(copy, plan.device)]
    held += [(model, name, FORMATS[name].bits) for name in usual]
    shipped = memory.weight_format(model, "auto")[0]
    for copy, name, bits in sorted(held, key=lambda one: (-round(one[2]), one[1] != "auto")):
        if bits < shipped.bits:
            yield copy, name


def _runs_in(copy: Model, device: hardware.Device) -> bool:
    """Whether a device is given this copy: 4-bit floats are for those that multiply in them."""
    return "fp4" in device.compute or not copy.id.lower().endswith(("nvfp4", "fp4"))


def best(model: Model, ids: list[str], reference: str, count: int, engine: str, asked: Asked) -> Runs | None:
    """The best format that fits and is fast enough; where none is, the fastest that fits; None where none fits. Errors: of layouts."""
    plan = deploy(model, reference, weights="bf16", engine=engine)
    ctx = min(asked.ctx, model.max_context or asked.ctx)
    room = capacity.memory_figure(plan).value
    if memory.language_params(model) * FEWEST_BITS / 8 > room:
        return None
    fastest: Runs | None = None
    for form, name in forms(model, ids, plan):
        fmt = memory.weight_format(form, name, plan.engine)[0]
        if memory.language_params(form) * fmt.bits / 8 > 1.05 * room:
            continue
        here = replace(plan, weights=fmt, kv=memory.kv_format(form, "auto")[0])
        work = Workload(ctx, asked.batch)
        beside = {} if here.engine.nominal else overheads.overheads(form, here, ctx)
        ledger = capacity.ledger(form, here, ctx, beside)
        held = capacity.sequences(here, ledger["max_batch_exact"].value) >= capacity.running(here, work)
        if not held or capacity.refusal(form, here) is not None:
            continue
        needed = verdicts.needed_bytes(here, work, ledger)
        value = {key: figure.value for key, figure in ledger.items()}
        engine_bytes = None if here.engine.nominal else verdicts.held_bytes(here, value, needed, beside)
        row = runs(form, model, name, here, work, asked, (needed, engine_bytes, value["usable_bytes"], value["kv_budget_bytes"]), count)
        if row.tokens_per_s >= asked.least_tokens_per_s:
            return row
        if fastest is None or row.tokens_per_s > fastest.tokens_per_s:
            fastest = row
    return fastest


def runs(
    form: Model,
    model: Model,
    name: str,
    plan: Deployment,
    work: Workload,
    asked: Asked,
    held: tuple[float, float | None, float, float],
    count: int,
) -> Runs:
    """One model in one format on a machine that holds it. `held`: bytes needed, taken by the engine (or None), usable, and for caches."""
    needed, engine_bytes, usable, budget = held
    timed = step.step(form, plan, work, "expected")
    first = step.ttft(form, plan, PROMPT)
    rated = quality.rating(model.id, asked.task)
    speed = 1 / float(timed.mid_s)
    group: Group = "unrated" if rated is None else "rated" if speed >= asked.least_tokens_per_s else "slow"
    spread = ""
    if rated is not None:
        spread = "" if rated.low is None or rated.high is None else f"±{(rated.high - rated.low) / 2:.0f}"
        spread += " old" if rated.old() else ""
    return Runs(
        name=form.id.rpartition("/")[2],
        model=form.id,
        hardware=plan.device.id,
        count=count,
        weights=name,
        needed_bytes=round(needed),
        engine_bytes=ABSENT if engine_bytes is None else round(engine_bytes),
        usable_bytes=round(usable),
        max_ctx_tokens=longest(form, plan, capacity.running(plan, work), budget),
        tokens_per_s=speed,
        tokens_per_s_range=f"{1 / float(timed.high_s):.3g}–{1 / float(timed.low_s):.3g}",
        tokens_per_s_low=1 / float(timed.high_s),
        tokens_per_s_high=1 / float(timed.low_s),
        ttft_s=None if first is None else float(first.mid_s),
        quality=rated.score if rated else None,
        quality_low=rated.low if rated else None,
        quality_high=rated.high if rated else None,
        quality_range=spread,
        quality_date=rated.date if rated else None,
        quality_source=rated.source if rated else None,
        quality_named=rated.named if rated else None,
        quality_old=bool(rated and rated.old()),
        perplexity_ratio=quality.perplexity_ratio(model.id, name),
        licence=quality.licence(model.id),
        params=memory.language_params(form),
        active_params=memory.active_params(form),
        group=group,
        kv_dtype=plan.kv.name,
        engine=plan.engine.name,
        start=line(form, name, plan, work.ctx, asked.batch),
    )


def longest(model: Model, plan: Deployment, batch: int, budget: float) -> int | None:
    """The longest context that fits, to the model's own end; None where neither memory nor the model ends it."""
    end = model.max_context
    if end is not None:
        each: float = charged.sequence_bytes(model, plan, Figure("ctx_tokens", end)).value
        if each * -(-batch // plan.dp) <= budget / plan.dp:
            return end
    found = capacity.longest_context(model, plan, batch, budget)
    return found if end is None or found is None else min(found, end)


def line(model: Model, name: str, plan: Deployment, ctx: int, batch: int) -> str:
    """A line that starts the engine with this model in this format; empty where no published file is known."""
    if plan.engine.family in ("llama.cpp", "ollama"):
        repository = quality.gguf(model.id)
        if repository is None:
            return ""
        file = f"{repository}:{name.upper()}" if name != "auto" else repository
        return f"ollama run hf.co/{file}" if plan.engine.family == "ollama" else f"llama-server -hf {file} -ngl 99 -c {ctx * batch}"
    if name not in ("auto", "fp8"):
        return ""
    return start.command(model, plan, ctx, plan.max_sequences)


def upgrades(first: Ranked, other: Ranked) -> tuple[Runs, ...]:
    """What another machine runs, beside the first: what is new before the rest, each with the ratio of speeds."""

    def plain(row: Runs) -> str:
        return row.quality_named or row.model

    before = {plain(row): row for row in first.rows if row.group != "slow"}
    found = []
    for row in other.rows:
        was = before.get(plain(row))
        found.append(replace(row, runs_on_first=was is not None, speed_ratio=None if was is None else row.tokens_per_s / was.tokens_per_s))
    return tuple(sorted(found, key=lambda row: (row.group == "unrated", row.runs_on_first is True)))


def verdict(rows: tuple[Runs, ...], looked_at: int) -> Ranking:
    """The counts and the best of a list of rows."""
    top = next((row for row in rows if row.group == "rated"), None)
    compared = [row for row in rows if row.runs_on_first is not ABSENT]
    ratios = sorted(row.speed_ratio for row in compared if isinstance(row.speed_ratio, float))
    return Ranking(
        best=top.model if top else None,
        best_weights=top.weights if top else None,
        best_tokens_per_s=top.tokens_per_s if top else None,
        candidates=looked_at,
        running=len(rows),
        rated=sum(row.group == "rated" for row in rows),
        gained=sum(row.runs_on_first is False and row.group != "slow" for row in compared) if compared else ABSENT,
        median_speed_ratio=ABSENT if not compared else ratios[math.floor(len(ratios) / 2)] if ratios else None,
    )
