"""What number formats buy: weights × cache on one deployment. Bytes and time only; what a format does to quality is not modelled."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from llmcalc import formats
from llmcalc.answers import Answer, Aside, answer, field
from llmcalc.architecture import Model
from llmcalc.checkpoint import Checkpoint
from llmcalc.engines import Engine
from llmcalc.errors import UsageError
from llmcalc.estimate import Answered, capacity, cost, layout, memory, step, terms
from llmcalc.figures import Figure
from llmcalc.formats import Format
from llmcalc.formulas import memory as f
from llmcalc.formulas import money, time
from llmcalc.hardware import Device
from llmcalc.plan import Deployment, Workload
from llmcalc.units import seconds, whole

KV_NAMES = ("bf16", "fp8", "int8", "int4")
LOCAL = ("consumer", "workstation", "apple", "cpu", "unified", "embedded")


@answer("quant", rows=True)
class Pair(Answer):
    """One pair of formats, at the batch asked for and at the largest one."""

    weights: str = field("weights")
    kv_dtype: str = field("KV")
    bits_per_weight: float = field("bits", rank=5)
    weight_bytes: int = field("size", "B", rank=2)
    max_batch: int | None = field("max B", "tokens")
    step_time_s: float = field("step", "s")
    speedup: float = field("faster", meaning="than 16-bit weights and cache at the same batch")
    tokens_per_s: float = field("tok/s", "tokens/s", rank=1)
    tokens_per_s_at_max_batch: float | None = field("full tok/s", "tokens/s", rank=6)
    critical_batch: float | None = field("B*", rank=4)
    fits: bool | None = field(shown=False)
    kv_bytes_per_sequence: float = field(unit="B", shown=False)
    weight_bytes_per_device: float = field("size each", "B", rank=3, meaning="on each device")
    kv_bytes_per_sequence_per_device: float = field("cache each", "B", rank=5, meaning="of a sequence, on each device")
    step_time_at_max_batch_s: float | None = field(unit="s", shown=False)
    usd_per_million_output_tokens_at_max_batch: float | None = field(unit="usd", shown=False)
    usd_per_million_output_tokens: float | None = field("$/1M", "usd", rank=3)
    napkin_tpot_s: float = field("textbook", "s", shown=False)
    expected_tpot_s: float = field("expected", "s", shown=False)
    expected_tpot_low_s: float = field("expected, low", "s", shown=False)
    expected_tpot_high_s: float = field("slow end", "s", rank=6)
    math: str | None = field("math", rank=1, meaning="the format that is multiplied in")
    native: bool | None = field("native", rank=7, meaning="whether the device computes in this format")

    @property
    def name(self) -> str:
        """'fp8 · bf16 KV'."""
        return f"{self.weights} · {self.kv_dtype} KV"


@answer("quant")
class Quant(Answer):
    """Which formats to choose, and of weights and cache which first."""

    quantise_first: Literal["weights", "kv", "either"] = field("quantise first", note="saves more of this step")
    crossover_batch: float | None = field("cache first from batch")
    fastest: str = field("fastest step")
    most_tokens_per_s: str | None = field("most tokens/s", note="with the memory full")
    saved_by_weights_s: float = field(unit="s", shown=False)
    saved_by_kv_s: float = field(unit="s", shown=False)
    baseline_step_time_s: float = field(unit="s", shown=False)
    fits: bool | None = field("fits", shown=False)

    @property
    def words(self) -> str:
        """The verdict in words."""
        step = seconds(self.baseline_step_time_s)
        return f"8-bit weights save {seconds(self.saved_by_weights_s)} of {step}, an 8-bit cache {seconds(self.saved_by_kv_s)}"


def default_weights(model: Model, device: Device, engine: Engine | None = None) -> list[Format]:
    """As it ships, 16, 8 and 4 bits, and what the device is usually given beyond that."""
    shipped, plain = memory.weight_format(model, "auto")[0], memory.compute_format(model)[0]
    names = [
        "fp8",
        "int8",
        "int4",
        *(["nvfp4", "mxfp4"] if "fp4" in device.compute else []),
        *(["q4_k_m"] if device.device_class in LOCAL else []),
    ]
    found: dict[str, Format] = {shipped.name: shipped} if model.quantization else {}
    for fmt in (plain, *(memory.weight_format(model, name, engine)[0] for name in names)):
        found.setdefault(fmt.name, fmt)  # the checkpoint's own format stands for its name
    return list(found.values())


def default_caches(model: Model) -> list[Format]:
    """The 16 bits of the model, 8 and 4."""
    return [memory.compute_format(model)[0], *(formats.find(name, kv=True) for name in KV_NAMES[1:])]


def quant(
    model: Model,
    plan: Deployment,
    work: Workload,
    weights: list[Format],
    caches: list[Format],
    method: str = "napkin",
) -> Answered[Quant, Pair]:
    """One row for each of `weights` × `caches` on `plan`, whose own formats do not matter."""
    plain = memory.compute_format(model)[0]
    base = replace(plan, weights=plain, kv=plain)
    before_told = step.readings(model, base, work, method)
    before = before_told.force.mid
    warnings: list[str] = [*model.notes, *capacity.cautions(model, plan, work.ctx)]
    try:
        hour, price_text = cost.hourly(plan, None)
    except UsageError as problem:
        hour, price_text = None, problem.message
        warnings.append(f"usd_per_million_output_tokens: {problem.message}; {problem.hint}")
    if plan.device.memory_bytes is None:
        warnings.append(f"max_batch and fits: {plan.device.id} comes with any amount of memory, so name it with one")
    rows = [_row(model, replace(plan, weights=w, kv=k), work, method, hour, before) for w in weights for k in caches]
    first, crossover, saved = _first(model, base, work, method, before)
    if crossover is None:
        warnings.append("crossover_batch: a smaller cache format saves this model nothing")
    fitting = [row for row in rows if row.fits]
    if plan.device.memory_bytes is not None and not fitting:
        warnings.insert(0, f"none of these formats fits {work.batch:,} × {work.ctx:,} tokens on {plan.ranks} × {plan.device.id}")
    fastest = max(fitting or rows, key=lambda row: row.tokens_per_s)
    most = max(rows, key=lambda row: row.tokens_per_s_at_max_batch or 0)
    results = Quant(
        quantise_first=first,
        crossover_batch=crossover.value if crossover else None,
        fastest=fastest.name,
        most_tokens_per_s=most.name if most.tokens_per_s_at_max_batch else None,
        saved_by_weights_s=saved[0],
        saved_by_kv_s=saved[1],
        baseline_step_time_s=before.value,
        fits=bool(fitting) if plan.device.memory_bytes is not None else None,
    )
    if results.most_tokens_per_s is None:
        warnings.append("most_tokens_per_s: no sequence fits, or the memory is not known")
    said = [
        *(
            f"{w.name} is {'what its files are made of' if w.recipe else 'the checkpoint as it ships'}: {w.note}"
            for w in weights
            if isinstance(w, Checkpoint)
        ),
        "a named format holds every parameter; real checkpoints keep embeddings, head and norms at 16 bits",
        f"{plain.name} weights and cache at the same batch as what a row is faster than",
        *((price_text,) if hour is not None else ()),
        Aside(f"method {method}: {step.METHODS[method]}")
        + ("" if method == "expected" else "; dequantisation is free in it, and kernels for it often are not"),
        *((Aside(f"expected: {before_told.expected.words}"),) if method == "expected" else ()),
    ]
    if plan.engine.nominal:
        said.append(Aside(capacity.memory_words(plan)))
    figures = {} if crossover is None else {"crossover_batch": crossover}
    return Answered(results, figures, rows=tuple(rows), assumptions=tuple(said), warnings=tuple(warnings))


def _row(model: Model, plan: Deployment, work: Workload, method: str, hour: Figure | None, before: Figure) -> Pair:
    """One pair of formats, at the batch asked for and at the largest one."""
    key, native = terms.compute_key(plan.device, plan.weights)
    told = step.readings(model, plan, work, method)
    length = told.force.mid
    rate = time.tokens_per_s(work.batch, length.value)
    held, cache = layout.held_weight_bytes(model, plan).value, layout.sequence_bytes(model, plan, Figure("ctx_tokens", work.ctx)).value
    most: int | None = None
    if plan.device.memory_bytes is not None:
        most = capacity.sequences(plan, capacity.ledger(model, plan, work.ctx)["max_batch_exact"].value)
    full = Workload(work.ctx, most)
    long = step.step(model, plan, full, method).mid_s if most else None
    best = time.tokens_per_s(most, long) if most else None

    def priced(tokens_per_s: float | None) -> float | None:
        if hour is None or not tokens_per_s:
            return None
        return float(money.usd_per_million_tokens(hour.value, tokens_per_s, 1))

    return Pair(
        weights=plan.weights.name,
        kv_dtype=plan.kv.name,
        bits_per_weight=whole(plan.weights.bits),
        weight_bytes=round(held),
        max_batch=most,
        step_time_s=length.value,
        speedup=before.value / length.value,
        tokens_per_s=rate,
        tokens_per_s_at_max_batch=best,
        critical_batch=terms.critical_batch(model, plan).value,
        fits=None if most is None else most >= work.batch,
        weight_bytes_per_device=whole(held / plan.ranks),
        kv_bytes_per_sequence_per_device=whole(cache * plan.dp / plan.ranks),
        kv_bytes_per_sequence=whole(cache),
        step_time_at_max_batch_s=long,
        usd_per_million_output_tokens_at_max_batch=priced(best),
        usd_per_million_output_tokens=priced(rate),
        **told.beside,
        math=key,
        native=native if key else None,
    )


def eight_bits(device: Device) -> Format:
    """The 8-bit format that a device multiplies in, or fp8 for storage alone."""
    return formats.FORMATS["int8" if "int8" in device.compute and "fp8" not in device.compute else "fp8"]


def _first(
    model: Model, base: Deployment, work: Workload, method: str, before: Figure
) -> tuple[Literal["weights", "kv", "either"], Figure | None, tuple[float, float]]:
    """Which of weights and cache, both from 16 to 8 bits, saves more of a step; the batch at which that turns; the seconds each saves."""
    eight = eight_bits(base.device)
    slim = replace(base, weights=eight)
    short = replace(base, kv=formats.find("fp8", kv=True))

    def saved(plan: Deployment) -> float:
        return float(before.value - step.step(model, plan, work, method).mid_s)

    def weight_bytes_saved(batch: float) -> Figure:
        wide, narrow = (terms.step_terms(model, plan, Workload(work.ctx, batch))["weight_read_bytes"] for plan in (base, slim))
        return f.saved_bytes.of(as_name="weight_bytes_saved", before_bytes=wide, after_bytes=narrow)

    wide, narrow = (terms.step_terms(model, plan, work)["kv_read_bytes"] for plan in (base, short))
    cache = f.saved_bytes.of(as_name="kv_bytes_saved", before_bytes=wide, after_bytes=narrow)
    crossover: Figure | None = None
    if cache.value > 0:
        batch = 1e9  # every expert is read; from there down, as a mixture reads fewer at a smaller batch
        for _ in range(200):
            crossover = time.quantise_first_batch.of(
                as_name="crossover_batch", weight_bytes_saved=weight_bytes_saved(batch), kv_bytes_saved=cache
            )
            if abs(crossover.value - batch) <= 1e-9 * batch:
                break
            batch = crossover.value
    by_weights, by_cache = saved(slim), saved(short)
    return "weights" if by_weights > by_cache else "kv" if by_cache > by_weights else "either", crossover, (by_weights, by_cache)
