"""The answer of `decode`: one step, what binds it, and from which batch arithmetic takes over."""

from __future__ import annotations

from llmcalc.architecture import Model
from llmcalc.estimate import Estimate, capacity, layout, step, terms
from llmcalc.figures import Figure
from llmcalc.formulas import memory as f
from llmcalc.formulas import time
from llmcalc.plan import Deployment, Workload

WORDS: dict[terms.Bound, str] = {
    "memory-weights": "reading the weights takes longest: more sequences per step come almost free",
    "memory-kv": "reading the caches takes longest: shorter contexts, fewer KV bytes or a wider memory help, a bigger batch does not",
    "compute": "arithmetic takes longest: the batch is past the critical one, and only faster multiplication helps",
    "communication": "ranks wait for each other longest: fewer ranks or a faster link help",
}


def decode(model: Model, plan: Deployment, work: Workload, method: str = "napkin") -> Estimate:
    """One decode step of `work.batch` sequences that hold `work.ctx` tokens each."""
    timed = step.step(model, plan, work, method)
    parts, length = timed.terms, timed.mid
    value = {key: figure.value for key, figure in parts.items()}
    w = parts["bandwidth"]
    p = parts["flops_per_s"]
    ranks = Figure("devices", plan.ranks, "", layout.LAYOUT)
    rate = time.tokens_per_s.of(batch=Figure("batch", work.batch, "", "`batch`"), step_time_s=length)
    critical = terms.critical_batch(model, plan)
    alone = terms.step_terms(model, plan, Workload(work.ctx, 1), method)["weight_read_s"]
    single = time.tokens_per_s.of(batch=Figure("batch", 1, "", "one sequence"), step_time_s=alone)
    crossover = kv_crossover(model, plan, work, method) if value["kv_read_bytes"] else None
    ceiling = (
        time.ceiling_tokens_per_s.of(bandwidth_bytes_per_s=w, devices=ranks, bytes_per_token=parts["kv_read_bytes"])
        if value["kv_read_bytes"]
        else None
    )
    likely = step.step(model, plan, work, "expected", parts if method == "napkin" else None)
    fitted = capacity.holds(model, plan, work)
    warnings = [*fitted.warnings]
    if p.value is None:
        warnings.append(
            f"compute_s and critical_batch: {p.origin}, so arithmetic is not in the step time and ridge_point_flops_per_byte is unknown"
        )
    if crossover is None:
        warnings.append("kv_crossover_batch and ceiling_tokens_per_s: this model reads no cache")
    if method == "napkin" and (value["attention_compute_s"] or 0) > value["kv_read_s"]:
        warnings.append("computing attention takes longer than reading the caches here; `method=roofline` counts it, the napkin does not")
    results = {
        "step_time_s": length.value,
        "tpot_s": length.value,
        "tokens_per_s_per_user": 1 / length.value,
        "tokens_per_s": rate.value,
        "weight_read_s": value["weight_read_s"],
        "kv_read_s": value["kv_read_s"],
        "compute_s": value["compute_s"],
        "communication_s": value["communication_s"],
        "overhead_s": 0,
        "bound": terms.bound(parts, method),
        "critical_batch": critical.value,
        "kv_crossover_batch": crossover.value if crossover else None,
        "ceiling_tokens_per_s": ceiling.value if ceiling else None,
        "single_stream_ceiling_tokens_per_s": single.value,
        "arithmetic_intensity_flops_per_byte": terms.intensity(model, plan, work, parts),
        "ridge_point_flops_per_byte": None if p.value is None else time.ridge_point(p.value, w.value),
        "fits": fitted.fits,
        "expected_step_time_s": likely.mid_s,
        "expected_step_time_low_s": likely.low_s,
        "expected_step_time_high_s": likely.high_s,
    }
    figures = {"step_time_s": length, "expected_step_time_s": likely.mid, "tokens_per_s": rate, "critical_batch": critical}
    if crossover and ceiling:
        figures |= {"kv_crossover_batch": crossover, "ceiling_tokens_per_s": ceiling}
    return Estimate(
        results=results,
        figures=figures,
        assumptions=(
            *terms.assumptions(model, plan),
            f"method {method}: ideal rates, so an engine takes longer",
            f"expected: {likely.words}",
        ),
        warnings=tuple(warnings),
    )


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
