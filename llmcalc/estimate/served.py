"""One replica under a stream of requests: what the simulation measured, beside the closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llmcalc.answers import Answer, Aside, answer, field
from llmcalc.architecture import Model
from llmcalc.errors import LlmcalcError
from llmcalc.estimate import Answered, capacity, serving, simulate, step
from llmcalc.estimate.quantiles import Quantiles
from llmcalc.estimate.service import Candidate, Service, candidate, keeping, run, violated
from llmcalc.estimate.steady import Steady
from llmcalc.estimate.steady import steady as closed_form
from llmcalc.plan import Deployment, Workload
from llmcalc.traffic import Traffic


@answer("simulate")
class Served(Answer):
    """What a replica did with the requests."""

    requests: int = field("requests")
    utilization: float = field("load", "percent", "of the highest rate")
    max_rate: float = field("requests/s, at most", note="at saturation")
    requests_per_s: float = field("  served")
    mean_batch: float = field("mean batch", note="decoding")
    steady_batch: float | None = field("  closed form", detail=True)
    tpot_s: float | None = field("time per token", "s", "each token counting alike")
    tpot_low_s: float | None = field("low", "s", shown=False, meaning="80% of measured servers lie between low and high")
    tpot_high_s: float | None = field("high", "s", shown=False)
    steady_tpot_s: float | None = field("  closed form", "s", detail=True)
    tokens_per_s: float = field("output tokens/s", "tokens/s")
    busy: float = field("a step runs", "percent", "of the time")
    preemptions: int = field("preemptions")
    peak_in_flight: int = field("most in flight")
    simulated_s: float = field("simulated", "s", detail=True)
    ttft_p50_s: float | None = field("ttft p50", "s", shown=False)
    ttft_p95_s: float | None = field("ttft p95", "s", shown=False)
    ttft_p99_s: float | None = field("ttft p99", "s", shown=False)
    tpot_p50_s: float | None = field("tpot p50", "s", shown=False)
    tpot_p95_s: float | None = field("tpot p95", "s", shown=False)
    tpot_p99_s: float | None = field("tpot p99", "s", shown=False)
    itl_p50_s: float | None = field("itl p50", "s", shown=False)
    itl_p95_s: float | None = field("itl p95", "s", shown=False)
    itl_p99_s: float | None = field("itl p99", "s", shown=False)
    e2e_p50_s: float | None = field("e2e p50", "s", shown=False)
    e2e_p95_s: float | None = field("e2e p95", "s", shown=False)
    e2e_p99_s: float | None = field("e2e p99", "s", shown=False)
    violates: str = field("limit that is broken")


@answer("simulate", rows=True)
class Times(Answer):
    """One kind of time: its mean and percentiles over the requests, or over the tokens."""

    time: str = field(" ")
    mean_s: float | None = field("mean", "s", rank=1)
    p50_s: float | None = field("p50", "s", rank=1)
    p90_s: float | None = field("p90", "s", rank=2)
    p95_s: float | None = field("p95", "s")
    p99_s: float | None = field("p99", "s")


WORDS = {"ttft": "TTFT", "tpot": "TPOT", "itl": "between tokens", "e2e": "whole request"}


@dataclass(frozen=True, slots=True)
class Replayed:
    """A simulated replica: the answer, its outcome, and the layout under its traffic."""

    answer: Answered[Served, Times]
    outcome: simulate.Outcome
    found: Candidate


def served(model: Model, plan: Deployment, service: Service) -> Replayed:
    """Simulate one replica that all requests come to. Errors: does-not-fit, request-too-long."""
    service = keeping(model, plan, service)
    traffic = service.traffic
    one = candidate(model, plan, service, traffic.sample())
    if not one.memory_batch:
        raise LlmcalcError(
            "does-not-fit",
            f"{model.id} and one such request do not fit on {plan.ranks} × {plan.device.id}",
            "choose a larger device, `tp`, or smaller formats",
        )
    most = min(one.memory_batch, one.policy.max_batch)
    outcome = run(one, service, 1, batch=most if service.method == "napkin" else one.policy.max_batch)
    if traffic.users:
        steady = Steady(None, None, 0.0, serving.highest(one.rates, one.profile, most, one.policy.chunk)[0].value)
    else:
        steady = closed_form(one.rates, one.profile, traffic.rate, most, one.policy.chunk)
    expected = _expected(model, plan, one, outcome) if service.method == "expected" else None
    results = _results(one, outcome, steady, service, expected)
    times = _times(outcome)
    rows = tuple(
        Times(time=WORDS[name], mean_s=q.mean, p50_s=q.at(0.5), p90_s=q.at(0.9), p95_s=q.at(0.95), p99_s=q.at(0.99))
        for name, q in times.items()
    )
    answer = Answered(
        results,
        {},
        rows,
        inputs={
            "rate": None if traffic.users else traffic.rate,
            "concurrency": traffic.users,
            "mean_prompt_tokens": one.profile.prompt,
            "mean_output_tokens": one.profile.output,
            "method": service.method,
        },
        assumptions=(
            *traffic.notes,
            *service.words(plan),
            *(Aside(expected.words) for expected in (expected,) if expected),
            f"at most {one.policy.max_batch:,} sequences at once; memory holds {one.memory_batch:,} of mean length",
            *(() if traffic.trace else (f"after a warm-up, {outcome.requests:,} requests are measured; seed {service.seed}",)),
            Aside("quantiles are exact to 0.13%"),
        ),
        warnings=(*capacity.cautions(model, plan, one.profile.longest), *_warnings(results, traffic)),
    )
    return Replayed(answer, outcome, one)


def _times(outcome: simulate.Outcome) -> dict[str, Quantiles]:
    return {"ttft": outcome.ttft, "tpot": outcome.tpot, "itl": outcome.itl, "e2e": outcome.e2e}


def _expected(model: Model, plan: Deployment, one: Candidate, outcome: simulate.Outcome) -> step.Timed:
    """The expected step at the mean batch, for its range."""
    prompt, output = max(1, round(one.profile.prompt)), max(1, round(one.profile.output))
    return step.step(model, plan, Workload(one.profile.context, max(1.0, outcome.mean_batch), prompt, output), "expected")


def _results(one: Candidate, outcome: simulate.Outcome, steady: Steady, service: Service, expected: step.Timed | None) -> Served:
    tpot, users = outcome.token_tpot_s, service.traffic.users
    reached = outcome.tokens_per_s / one.profile.output
    ranged = tpot is not None and expected is not None
    quantiles: Any = {f"{name}_p{k}_s": q.at(k / 100) for name, q in _times(outcome).items() for k in (50, 95, 99)}
    return Served(
        requests=outcome.requests,
        utilization=reached / steady.max_rate if users else steady.load,
        max_rate=steady.max_rate,
        requests_per_s=reached,
        mean_batch=outcome.mean_batch,
        steady_batch=steady.batch,
        tpot_s=tpot,
        tpot_low_s=float(tpot * expected.low_s / expected.mid_s) if ranged and tpot and expected else None,
        tpot_high_s=float(tpot * expected.high_s / expected.mid_s) if ranged and tpot and expected else None,
        steady_tpot_s=steady.tpot_s,
        tokens_per_s=outcome.tokens_per_s,
        busy=outcome.utilization,
        preemptions=outcome.preemptions,
        peak_in_flight=outcome.peak_in_flight,
        simulated_s=outcome.seconds,
        violates=violated(outcome, service) or "none",
        **quantiles,
    )


def _warnings(r: Served, traffic: Traffic) -> list[str]:
    warnings = []
    if r.steady_batch is None and not traffic.users:
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
