"""The answer of `decode`: one step, what binds it, and from which batch arithmetic takes over."""

from __future__ import annotations

from typing import Never

from llmcalc.answers import ABSENT, Absent, Answer, Aside, answer, field
from llmcalc.architecture import Model
from llmcalc.estimate import Answered, layout, memory, step, terms, verdict
from llmcalc.estimate.terms import Bound
from llmcalc.figures import Figure
from llmcalc.formulas import memory as f
from llmcalc.formulas import time
from llmcalc.plan import Deployment, Workload
from llmcalc.units import decimal_size

WORDS: dict[Bound, str] = {
    "memory-weights": "reading the weights takes longest: more sequences per step come almost free",
    "memory-kv": "reading the caches takes longest: shorter contexts, fewer KV bytes or a wider memory help, a bigger batch does not",
    "compute": "arithmetic takes longest: the batch is past the critical one, and only faster multiplication helps",
    "communication": "ranks wait for each other longest: fewer ranks or a faster link help",
}


@answer("decode")
class Decode(Answer):
    """One decode step, by the method in force and by the two others."""

    step_time_s: float = field("step time", "s")
    expected_step_time_s: float = field("expected in an engine", "s")
    floor_step_time_s: float | None = field("floor", "s", "no engine beats it: only bytes that are really read, at nominal rates")
    napkin_step_time_s: float = field("textbook", "s", "whole-model, at nominal rates")
    tpot_s: float = field("TPOT", "s", shown=False)
    tokens_per_s_per_user: float = field("tokens/s per sequence", "tokens/s")
    tokens_per_s: float = field("tokens/s of the batch", "tokens/s")
    weight_read_s: float = field("  reading weights", "s")
    kv_read_s: float = field("  reading caches", "s")
    compute_s: float | None = field("  arithmetic", "s", "overlaps with the weights")
    communication_s: float = field("  communication", "s")
    overhead_s: float = field("  overhead", "s", meaning="what the step takes beyond the textbook's", shown=False)
    bound: Bound = field("bound")
    critical_batch: float | None = field("critical batch", note="tokens per step; beyond it arithmetic binds")
    kv_crossover_batch: float | None = field("KV crossover batch", note="caches are as much to read as weights")
    ceiling_tokens_per_s: float | None = field("ceiling, any batch", "tokens/s", "if only caches were read", detail=True)
    single_stream_ceiling_tokens_per_s: float = field("ceiling, one sequence", "tokens/s", "if only weights were read", detail=True)
    arithmetic_intensity_flops_per_byte: float = field("arithmetic intensity", note="FLOP per byte read", detail=True)
    ridge_point_flops_per_byte: float | None = field("ridge point", note="FLOP per byte of the device", detail=True)
    fits: bool | None = field("fits")
    expected_step_time_low_s: float = field("expected, low end", "s", shown=False)
    expected_step_time_high_s: float = field("expected, high end", "s", shown=False)
    weight_bytes_per_device: float | Absent = field(
        "weights per device", "B", detail=True, meaning="where several share them", default=ABSENT
    )
    kv_bytes_per_sequence_per_device: float | Absent = field(
        "  cache per device", "B", detail=True, meaning="of a sequence, as the engine counts it", default=ABSENT
    )


TELLING = 0.03
"""How far above the floor the textbook's time is worth a word, as a share of the floor."""


def decode(model: Model, plan: Deployment, work: Workload, method: str = "napkin") -> Answered[Decode, Never]:
    """One decode step of `work.batch` sequences that hold `work.ctx` tokens each."""
    timed, napkin, likely = step.readings(model, plan, work, method)
    parts, length = timed.terms, timed.mid
    value = {key: figure.value for key, figure in parts.items()}
    floor = timed if method == "roofline" else step.floor(model, plan, work)
    w, p = parts["bandwidth"], parts["flops_per_s"]
    ranks = Figure("devices", plan.ranks, "", layout.LAYOUT)
    rate = time.tokens_per_s.of(batch=Figure("batch", work.batch, "", "`batch`"), step_time_s=length)
    critical = terms.critical_batch(model, plan)
    grain = "roofline" if method == "roofline" else "napkin"
    alone = terms.step_terms(model, plan, Workload(work.ctx, 1), grain)["weight_read_s"]
    single = time.tokens_per_s.of(batch=Figure("batch", 1, "", "one sequence"), step_time_s=alone)
    crossover = kv_crossover(model, plan, work, grain) if value["kv_read_bytes"] else None
    ceiling = (
        time.ceiling_tokens_per_s.of(bandwidth_bytes_per_s=w, devices=ranks, bytes_per_token=parts["kv_read_bytes"])
        if value["kv_read_bytes"]
        else None
    )
    warnings = [*(fitted := verdict.holds(model, plan, work)).warnings]
    if p.value is None:
        warnings.append(
            f"compute_s and critical_batch: {p.origin}, so arithmetic is not in the step time and ridge_point_flops_per_byte is unknown"
        )
    if floor is None:
        warnings.append(f"floor_step_time_s: {plan.device.id} has no known compute rate")
    if crossover is None:
        warnings.append("kv_crossover_batch and ceiling_tokens_per_s: this model reads no cache")
    if method == "napkin" and (value["attention_compute_s"] or 0) > value["kv_read_s"]:
        warnings.append("computing attention takes longer than reading the caches here; `method=roofline` counts it, the napkin does not")
    results = Decode(
        step_time_s=length.value,
        expected_step_time_s=likely.mid_s,
        floor_step_time_s=None if floor is None else floor.mid_s,
        napkin_step_time_s=napkin.mid_s,
        tpot_s=length.value,
        tokens_per_s_per_user=1 / length.value,
        tokens_per_s=rate.value,
        weight_read_s=value["weight_read_s"],
        kv_read_s=value["kv_read_s"],
        compute_s=value["compute_s"],
        communication_s=value["communication_s"],
        overhead_s=length.value - napkin.mid_s if method == "expected" else 0,
        bound=terms.bound(parts, grain),
        critical_batch=critical.value,
        kv_crossover_batch=crossover.value if crossover else None,
        ceiling_tokens_per_s=ceiling.value if ceiling else None,
        single_stream_ceiling_tokens_per_s=single.value,
        arithmetic_intensity_flops_per_byte=terms.intensity(model, plan, work, parts),
        ridge_point_flops_per_byte=None if p.value is None else time.ridge_point(p.value, w.value),
        fits=fitted.fits,
        expected_step_time_low_s=likely.low_s,
        expected_step_time_high_s=likely.high_s,
        **fitted.each,
    )
    figures = {"step_time_s": length, "expected_step_time_s": likely.mid, "tokens_per_s": rate, "critical_batch": critical}
    if crossover and ceiling:
        figures |= {"kv_crossover_batch": crossover, "ceiling_tokens_per_s": ceiling}
    said = [*terms.assumptions(model, plan), Aside(f"method {method}: {step.METHODS[method]}"), *above_floor(model, plan, napkin, floor)]
    return Answered(results, figures, assumptions=(*said, Aside(f"expected: {likely.words}")), warnings=tuple(warnings))


def above_floor(model: Model, plan: Deployment, napkin: step.Timed, floor: step.Timed | None) -> tuple[str, ...]:
    """Why the textbook's time lies above the floor, where that is worth a word."""
    if floor is None or napkin.mid_s <= floor.mid_s * (1 + TELLING):
        return ()
    said = f"the textbook's time is {napkin.mid_s / floor.mid_s - 1:.0%} above the floor"
    more = napkin.terms["weight_read_bytes"].value - floor.terms["weight_read_bytes"].value
    table = 0 if model.stack.tied else memory.weight_bytes(model, plan.weights, "table_bytes", model.stack.embedding.__contains__).value
    if table and more > 0 and table > more / 2:
        return (f"{said}: it reads the whole table of input embeddings ({decimal_size(table)}), where a step looks up a row per sequence",)
    return (f"{said}: it knows one rate and one format for the whole model",)


def kv_crossover(model: Model, plan: Deployment, work: Workload, method: str) -> Figure:
    """Sequences whose caches take as long to read as the weights, which in a mixture are more for a larger batch.

    The weights read grow ever more slowly with the batch, so repeating "weights over cache" closes in on the one solution.
    """
    batch = work.batch
    for _ in range(200):
        parts = terms.step_terms(model, plan, Workload(work.ctx, batch), method)
        weights = parts["weight_read_bytes"]
        if plan.pp > 1:
            weights = f.replicated_bytes.of(held_bytes=weights, copies=Figure("micro_batches", plan.pp, "", layout.LAYOUT))
        found = time.kv_crossover_batch.of(weight_read_bytes=weights, kv_read_bytes=parts["kv_read_bytes"])
        if abs(found.value - batch) <= 1e-9 * batch or not layout.experts(model):
            break
        batch = found.value
    return found
