"""What number formats buy: weights × cache on one deployment. Bytes and time only; what a format does to quality is not modelled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from llmcalc import formats
from llmcalc.architecture import Model
from llmcalc.checkpoint import Checkpoint
from llmcalc.errors import UsageError
from llmcalc.estimate import Estimate, capacity, cost, layout, memory, step, terms
from llmcalc.figures import Figure
from llmcalc.formats import Format
from llmcalc.formulas import memory as f
from llmcalc.formulas import money, time
from llmcalc.hardware import Device
from llmcalc.plan import Deployment, Workload
from llmcalc.units import seconds, whole

KV_NAMES = ("bf16", "fp8", "int8", "int4")
LOCAL = ("consumer", "workstation", "apple", "cpu", "unified", "embedded")


def default_weights(model: Model, device: Device) -> list[Format]:
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
    for fmt in (plain, *(formats.FORMATS[name] for name in names)):
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
) -> Estimate:
    """One row for each of `weights` × `caches` on `plan`, whose own formats do not matter."""
    plain = memory.compute_format(model)[0]
    base = replace(plan, weights=plain, kv=plain)
    before = step.step(model, base, work, method).mid
    warnings: list[str] = [*model.notes, *capacity.cautions(model, plan, work.ctx)]
    try:
        hour, price_text = cost.hourly(plan, None)
    except UsageError as problem:
        hour, price_text = None, problem.message
        warnings.append(f"usd_per_million_output_tokens: {problem.message}; {problem.hint}")
    if plan.device.memory_bytes is None:
        warnings.append(f"max_batch and fits: {plan.device.id} comes with any amount of memory, so name it with one")
    rows = [_row(model, replace(plan, weights=w, kv=k), work, method, hour, before) for w in weights for k in caches]
    first, figures = _first(model, base, work, method, before)
    if first["crossover_batch"] is None:
        warnings.append("crossover_batch: a smaller cache format saves this model nothing")
    fitting = [row for row in rows if row["fits"]]
    if plan.device.memory_bytes is not None and not fitting:
        warnings.insert(0, f"none of these formats fits {work.batch:,} × {work.ctx:,} tokens on {plan.ranks} × {plan.device.id}")
    fastest = max(fitting or rows, key=lambda row: row["tokens_per_s"])
    most = max(rows, key=lambda row: row["tokens_per_s_at_max_batch"] or 0)
    results = {
        **first,
        "baseline_step_time_s": before.value,
        "fastest": {"weights": fastest["weights"], "kv_dtype": fastest["kv_dtype"]},
        "most_tokens_per_s": {"weights": most["weights"], "kv_dtype": most["kv_dtype"]} if most["tokens_per_s_at_max_batch"] else None,
        "fits": bool(fitting) if plan.device.memory_bytes is not None else None,
    }
    if results["most_tokens_per_s"] is None:
        warnings.append("most_tokens_per_s: no sequence fits, or the memory is not known")
    said = [
        *(f"{w.name} is the checkpoint as it ships: {w.note}" for w in weights if isinstance(w, Checkpoint)),
        "a named format holds every parameter; real checkpoints keep embeddings, head and norms at 16 bits",
        f"{plain.name} weights and cache at the same batch as what a row is faster than",
        *((price_text,) if hour is not None else ()),
        f"method {method}: ideal rates; dequantisation is free in it, and kernels for it often are not",
    ]
    if plan.engine.nominal:
        said.append(capacity.memory_words(plan))
    return Estimate(results, figures, rows=tuple(rows), assumptions=tuple(said), warnings=tuple(warnings))


def _row(model: Model, plan: Deployment, work: Workload, method: str, hour: Figure | None, before: Figure) -> dict[str, Any]:
    """One pair of formats, at the batch asked for and at the largest one."""
    key, native = terms.compute_key(plan.device, plan.weights)
    length = step.step(model, plan, work, method).mid
    rate = time.tokens_per_s(work.batch, length.value)
    held = layout.held_weight_bytes(model, plan).value
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

    return {
        "weights": plan.weights.name,
        "kv_dtype": plan.kv.name,
        "bits_per_weight": whole(plan.weights.bits),
        "weight_bytes": round(held),
        "kv_bytes_per_sequence": whole(layout.sequence_bytes(model, plan, Figure("ctx_tokens", work.ctx)).value),
        "max_batch": most,
        "fits": None if most is None else most >= work.batch,
        "step_time_s": length.value,
        "tokens_per_s": rate,
        "step_time_at_max_batch_s": long,
        "tokens_per_s_at_max_batch": best,
        "critical_batch": terms.critical_batch(model, plan).value,
        "usd_per_million_output_tokens": priced(rate),
        "usd_per_million_output_tokens_at_max_batch": priced(best),
        "native": native if key else None,
        "math": key,
        "speedup": before.value / length.value,
    }


def eight_bits(device: Device) -> Format:
    """The 8-bit format that a device multiplies in, or fp8 for storage alone."""
    return formats.FORMATS["int8" if "int8" in device.compute and "fp8" not in device.compute else "fp8"]


def _first(model: Model, base: Deployment, work: Workload, method: str, before: Figure) -> tuple[dict[str, Any], dict[str, Figure]]:
    """Which of weights and cache, both from 16 to 8 bits, saves more of a step, and the batch at which that turns."""
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
    first = "weights" if by_weights > by_cache else "kv" if by_cache > by_weights else "either"
    return {
        "quantise_first": first,
        "crossover_batch": crossover.value if crossover else None,
        "saved_by_weights_s": by_weights,
        "saved_by_kv_s": by_cache,
    }, {"crossover_batch": crossover} if crossover else {}


def words(results: dict[str, Any]) -> str:
    """The verdict in words."""
    weights, cache, step = (seconds(results[key]) for key in ("saved_by_weights_s", "saved_by_kv_s", "baseline_step_time_s"))
    return f"8-bit weights save {weights} of {step}, an 8-bit cache {cache}"
