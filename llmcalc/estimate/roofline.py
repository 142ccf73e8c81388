"""Where a model's prefill and decode steps lie under a device's roof."""

from __future__ import annotations

from typing import Any, Literal

from llmcalc.answers import Answer, answer, field
from llmcalc.architecture import Model
from llmcalc.errors import UsageError
from llmcalc.estimate import Answered, capacity, layout, step, terms
from llmcalc.figures import Figure
from llmcalc.formulas import compute, time
from llmcalc.plan import Deployment, Workload


@answer("roofline")
class Roofline(Answer):
    """The roof of a deployment."""

    ridge_point_flops_per_byte: float = field("ridge point", note="FLOP per byte: to the left memory binds, to the right arithmetic")
    bandwidth_bytes_per_s: float = field("the slope", "B/s", "memory bandwidth", detail=True)
    peak_flops_per_s: float = field("the flat roof", "FLOP/s", "dense", detail=True)
    critical_batch: float | None = field("critical batch", note="tokens per step; beyond it arithmetic binds")


@answer("roofline", rows=True)
class Step(Answer):
    """One step under it."""

    phase: Literal["decode", "prefill"] = field("phase")
    batch: int = field("batch", "tokens")
    tokens: int = field("tokens", "tokens", rank=2)
    intensity_flops_per_byte: float = field("FLOP/B")
    flops_per_s: float = field("reached", "FLOP/s")
    share_of_peak: float = field("of peak", "percent", rank=1, bar=True)
    roof_flops_per_s: float = field("roof", "FLOP/s", rank=4)
    time_s: float = field("time", "s", rank=3)
    bound: terms.Bound = field("bound", rank=5)


def rates(plan: Deployment) -> tuple[Figure, Figure]:
    """(bandwidth, dense FLOP/s) of all ranks. Errors: no-compute-rate."""
    peak = terms.compute_rate(plan.device, plan.weights)
    if peak.value is None:
        raise UsageError("no-compute-rate", f"{plan.device.id} has no known compute rate, so it has no roof", "name another device")
    return terms.of_ranks(terms.bandwidth(plan.device), plan.ranks), terms.of_ranks(peak, plan.ranks)


def roof(plan: Deployment, intensity: Any) -> Any:
    """FLOP/s that the devices can reach at this intensity."""
    bandwidth, peak = rates(plan)
    return time.roof_flops_per_s(intensity, bandwidth.value, peak.value)


def roofline(
    model: Model, plan: Deployment, ctx: int, batches: tuple[int, ...], prompts: tuple[int, ...], method: str = "napkin"
) -> Answered[Roofline, Step]:
    """Decode steps of these batches at `ctx` tokens and prefills of these prompts: intensity, FLOP/s reached, and what binds."""
    bandwidth, peak = rates(plan)
    ridge = time.ridge_point.of(as_name="ridge_point_flops_per_byte", flops_per_s=peak, bandwidth_bytes_per_s=bandwidth)
    grain = "roofline" if method == "roofline" else "napkin"
    rows = []
    for batch in batches:
        work = Workload(ctx, batch)
        timed = step.readings(model, plan, work, method).force
        flops = compute.dense_flops(terms.step_params(model).value, batch)
        intensity = terms.intensity(model, plan, work, timed.terms)
        rows.append(
            _row(
                "decode",
                batch,
                ctx,
                flops,
                intensity,
                timed.mid_s,
                terms.bound(timed.terms, grain),
                plan,
            )
        )
    for prompt in prompts:
        found = terms.prompt_terms(model, plan, prompt)
        dense, experts = layout.read_weight_bytes(model, plan, prompt)
        read = dense.value + (experts.value if experts else 0)
        flops = found["prefill_flops"].value
        intensity = time.intensity(flops, read)
        rows.append(_row("prefill", 1, prompt, flops, intensity, _prompt_s(model, plan, prompt, method), terms.prompt_bound(found), plan))
    critical = terms.critical_batch(model, plan)
    return Answered(
        Roofline(
            ridge_point_flops_per_byte=ridge.value,
            bandwidth_bytes_per_s=bandwidth.value,
            peak_flops_per_s=peak.value,
            critical_batch=critical.value,
        ),
        figures={"ridge_point_flops_per_byte": ridge, "critical_batch": critical},
        rows=tuple(rows),
        assumptions=(
            *terms.assumptions(model, plan),
            "attention counts in a prefill's arithmetic; of a decode step its reading counts, which takes longer",
        ),
        warnings=(*model.notes, *capacity.cautions(model, plan, ctx)),
    )


def _prompt_s(model: Model, plan: Deployment, prompt: int, method: str) -> float:
    return float(step.prompt_busy(model, plan, prompt, 0, method).value)


def _row(
    phase: Literal["decode", "prefill"],
    batch: int,
    tokens: int,
    flops: float,
    intensity: float,
    spent: float,
    bound: terms.Bound,
    plan: Deployment,
) -> Step:
    reached = time.reached_flops_per_s(flops, spent)
    return Step(
        phase=phase,
        batch=batch,
        tokens=tokens,
        intensity_flops_per_byte=intensity,
        flops_per_s=reached,
        share_of_peak=reached / rates(plan)[1].value,
        roof_flops_per_s=roof(plan, intensity),
        time_s=spent,
        bound=bound,
    )
