"""One replica under a stream of requests: what the simulation measured, beside the closed form."""

from __future__ import annotations

from llmcalc.answers import Answer, answer, field
from llmcalc.architecture import Model
from llmcalc.errors import LlmcalcError
from llmcalc.estimate import Answered, capacity, simulate
from llmcalc.estimate.service import Service, candidate, run, violated
from llmcalc.estimate.steady import steady as closed_form
from llmcalc.plan import Deployment
from llmcalc.traffic import Traffic


@answer("simulate")
class Served(Answer):
    """What a replica did with the requests."""

    requests: int = field("requests")
    utilization: float = field("load", "percent", "of the highest rate")
    max_rate: float = field("requests/s, at most", note="at saturation")
    mean_batch: float = field("mean batch", note="decoding")
    steady_batch: float | None = field("  closed form")
    tpot_s: float | None = field("time per token", "s", "each token counting alike")
    steady_tpot_s: float | None = field("  closed form", "s")
    tokens_per_s: float = field("output tokens/s", "tokens/s")
    busy: float = field("a step runs", "percent", "of the time")
    preemptions: int = field("preemptions")
    peak_in_flight: int = field("most in flight")
    simulated_s: float = field("simulated", "s")
    ttft_p50_s: float | None = field("ttft p50", "s", shown=False)
    ttft_p95_s: float | None = field("ttft p95", "s", shown=False)
    ttft_p99_s: float | None = field("ttft p99", "s", shown=False)
    tpot_p50_s: float | None = field("tpot p50", "s", shown=False)
    tpot_p95_s: float | None = field("tpot p95", "s", shown=False)
    tpot_p99_s: float | None = field("tpot p99", "s", shown=False)
    e2e_p50_s: float | None = field("e2e p50", "s", shown=False)
    e2e_p95_s: float | None = field("e2e p95", "s", shown=False)
    e2e_p99_s: float | None = field("e2e p99", "s", shown=False)
    violates: str = field("limit that is broken")


@answer("simulate", rows=True)
class Times(Answer):
    """One kind of time: its mean and percentiles over the requests."""

    time: str = field(" ")
    mean_s: float | None = field("mean", "s", rank=1)
    p50_s: float | None = field("p50", "s", rank=1)
    p90_s: float | None = field("p90", "s", rank=2)
    p95_s: float | None = field("p95", "s")
    p99_s: float | None = field("p99", "s")


WORDS = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "whole request"}


def served(model: Model, plan: Deployment, service: Service) -> tuple[Answered[Served, Times], simulate.Outcome]:
    """Simulate one replica that all requests come to; its outcome, too. Errors: does-not-fit, request-too-long."""
    one = candidate(model, plan, service, service.traffic.sample())
    if not one.memory_batch:
        raise LlmcalcError(
            "does-not-fit",
            f"{model.id} and one such request do not fit on {plan.ranks} × {plan.device.id}",
            "choose a larger device, `tp`, or smaller formats",
        )
    most = min(one.memory_batch, service.max_batch)
    outcome = run(one, service, 1, batch=most)
    steady = closed_form(one.rates, one.profile, service.traffic.rate, most, service.chunk)
    times = {"ttft": outcome.ttft, "tpot": outcome.tpot, "e2e": outcome.e2e}
    results = Served(
        requests=outcome.requests,
        utilization=steady.load,
        max_rate=steady.max_rate,
        mean_batch=outcome.mean_batch,
        steady_batch=steady.batch,
        tpot_s=outcome.token_tpot_s,
        steady_tpot_s=steady.tpot_s,
        tokens_per_s=outcome.tokens_per_s,
        busy=outcome.utilization,
        preemptions=outcome.preemptions,
        peak_in_flight=outcome.peak_in_flight,
        simulated_s=outcome.seconds,
        violates=violated(outcome, service) or "none",
        **{f"{name}_p{k}_s": q.at(k / 100) for name, q in times.items() for k in (50, 95, 99)},
    )
    rows = tuple(
        Times(time=WORDS[name], mean_s=q.mean, p50_s=q.at(0.5), p90_s=q.at(0.9), p95_s=q.at(0.95), p99_s=q.at(0.99))
        for name, q in times.items()
    )
    found = Answered(
        results,
        {},
        rows,
        inputs={"rate": service.traffic.rate, "mean_prompt_tokens": one.profile.prompt, "mean_output_tokens": one.profile.output},
        assumptions=(
            *service.traffic.notes,
            f"an engine reaches {service.mfu:.0%} of the compute rate and {service.mbu:.0%} of the bandwidth (`mfu`, `mbu`)",
            f"chunked prefill of {service.chunk:,} tokens per step" if service.chunk else "whole prompts in one step",
            f"at most {most:,} sequences at once; memory holds {one.memory_batch:,} of mean length",
            *(() if service.traffic.trace else (f"after a warm-up, {outcome.requests:,} requests are measured; seed {service.seed}",)),
            "quantiles are exact to 0.13%",
        ),
        warnings=(*capacity.cautions(model, plan, one.profile.longest), *_warnings(results, service.traffic)),
    )
    return found, outcome


def _warnings(r: Served, traffic: Traffic) -> list[str]:
    warnings = []
    if r.steady_batch is None:
        warnings.append(
            f"steady_batch and steady_tpot_s: saturated, {traffic.rate:.3g} requests/s arrive and {r.max_rate:.3g} are served at most; "
            "the queue grows without end, and all times with it"
        )
    if r.peak_in_flight >= simulate.MOST_WAITING:
        warnings.append(f"peak_in_flight: {simulate.MOST_WAITING:,} requests wait at once; those behind them are not counted")
    if r.tpot_s is None:
        warnings.append("tpot: every answer is a single token, which comes with the prompt")
    if traffic.cv != 1:
        warnings.append("the closed form is for random arrivals (`arrival_cv` 1)")
    return warnings
