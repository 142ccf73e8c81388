"""`llmcalc simulate`: percentiles of one replica under a stream of requests, beside the closed form."""

from __future__ import annotations

import typer

from llmcalc.commands import common as c
from llmcalc.commands import options as o
from llmcalc.commands import parse
from llmcalc.commands import plan as p
from llmcalc.errors import LlmcalcError
from llmcalc.estimate import capacity, planning
from llmcalc.estimate import simulate as simulator
from llmcalc.estimate.steady import steady as closed_form
from llmcalc.present import Column, Fact, Report

EXAMPLES = """
Examples:

  llmcalc simulate -m meta-llama/Meta-Llama-3-8B -d h100-sxm --rate 4 --prompt 3000 --output-tokens 400

  llmcalc simulate -m Qwen/Qwen3-32B -d '2x h100-sxm' --trace requests.csv --max-batch 64

  llmcalc simulate -m Qwen/Qwen3-8B -d l40s --rate 3 --prompt 2k --output-tokens 300 --output-cv 1 --arrival-cv 2 --seed 7
"""


class Measured(o.Steps):
    """How the replica steps, and how long it is watched."""

    requests = o.option(
        "10000",
        "--requests",
        "-n",
        metavar="N",
        read=parse.counting(least=10),
        help="Requests to measure; a trace is served whole.",
    )


def simulate(
    which: o.ModelChoice,
    place: o.Placement,
    arriving: p.Coming,
    limits: o.Limits,
    steps: Measured,
    running: o.Running,
    out: o.Output,
) -> None:
    """One replica under a stream of requests: p50, p95 and p99 of TTFT, TPOT and the whole request."""
    found = c.chosen(which)
    coming = p.asked_traffic(arriving)
    plan = c.placed(found, place, running)
    service = planning.Service(
        coming,
        limits.max_ttft,
        limits.max_tpot,
        limits.percentile,
        mfu=steps.mfu,
        mbu=steps.mbu,
        chunk=steps.chunk,
        max_batch=steps.max_batch,
        simulated=steps.requests,
        seed=arriving.seed,
    )
    one = planning.replica(found, plan, service, coming.sample())
    if not one.memory_batch:
        raise LlmcalcError(
            "does-not-fit",
            f"{found.id} and one such request do not fit on {plan.ranks} × {plan.device.id}",
            "choose a larger device, --tp, or smaller formats",
        )
    outcome = planning.run(one, service, 1, batch=min(one.memory_batch, service.max_batch))
    steady = closed_form(one.rates, one.profile, coming.rate, min(one.memory_batch, service.max_batch), service.chunk)
    broken = planning.violated(outcome, service)
    times = {"ttft": outcome.ttft, "tpot": outcome.tpot, "e2e": outcome.e2e}
    words = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "whole request"}
    rows = tuple(
        {"time": words[name], "mean_s": q.mean, **{f"p{k}_s": q.at(k / 100) for k in (50, 90, 95, 99)}} for name, q in times.items()
    )
    warnings = capacity.cautions(found, plan, one.profile.longest)
    if steady.batch is None:
        warnings.append(
            f"steady_batch and steady_tpot_s: saturated, {coming.rate:.3g} requests/s arrive and {steady.max_rate:.3g} are served at most; "
            "the queue grows without end, and all times with it"
        )
    if outcome.peak_in_flight >= simulator.MOST_WAITING:
        warnings.append(f"peak_in_flight: {simulator.MOST_WAITING:,} requests wait at once; those behind them are not counted")
    if outcome.token_tpot_s is None:
        warnings.append("tpot: every answer is a single token, which comes with the prompt")
    if coming.cv != 1:
        warnings.append("the closed form is for random arrivals (--arrival-cv 1)")
    facts = (
        Fact("requests", "requests", outcome.requests),
        Fact("utilization", "load", steady.load, "percent", note="of the highest rate"),
        Fact("max_rate", "requests/s, at most", steady.max_rate, note="at saturation"),
        Fact("mean_batch", "mean batch", outcome.mean_batch, note="decoding"),
        Fact("steady_batch", "  closed form", steady.batch),
        Fact("tpot_s", "time per token", outcome.token_tpot_s, "s", note="each token counting alike"),
        Fact("steady_tpot_s", "  closed form", steady.tpot_s, "s"),
        Fact("tokens_per_s", "output tokens/s", outcome.tokens_per_s, "tokens/s"),
        Fact("busy", "a step runs", outcome.utilization, "percent", note="of the time"),
        Fact("preemptions", "preemptions", outcome.preemptions),
        Fact("peak_in_flight", "most in flight", outcome.peak_in_flight),
        Fact("simulated_s", "simulated", outcome.seconds, "s", note=f"{outcome.events:,} events for {outcome.steps:,} steps"),
        *(Fact(f"{name}_p{k}_s", f"{name} p{k}", q.at(k / 100), "s", shown=False) for name, q in times.items() for k in (50, 95, 99)),
        Fact("violates", "limit that is broken", broken or "none", shown=service.max_ttft_s is not None or service.max_tpot_s is not None),
    )
    report = Report(
        command="simulate",
        title=f"{found.id} on {plan.ranks} × {plan.device.id} under {coming.rate:.3g} requests/s"
        + (f": {broken.upper()} OVER ITS LIMIT" if broken else ""),
        model=c.model_header(found),
        hardware=c.hardware_header(plan),
        inputs={
            "rate": coming.rate,
            "mean_prompt_tokens": one.profile.prompt,
            "mean_output_tokens": one.profile.output,
            "chunk_tokens": service.chunk,
            "mfu": service.mfu,
            "mbu": service.mbu,
            "seed": service.seed,
            **c.plan_inputs(plan),
        },
        header=(c.model_line(found), c.hardware_line(plan)),
        facts=facts,
        columns=(
            Column("time", ""),
            Column("mean_s", "mean", "s", rank=1),
            *(Column(f"p{k}_s", f"p{k}", "s", rank=2 * (k == 90) + (k == 50)) for k in (50, 90, 95, 99)),
        ),
        rows=rows,
        assumptions=(
            *coming.notes,
            f"an engine reaches {service.mfu:.0%} of the compute rate and {service.mbu:.0%} of the bandwidth (--mfu, --mbu)",
            f"chunked prefill of {service.chunk:,} tokens per step" if service.chunk else "whole prompts in one step",
            f"at most {min(one.memory_batch, service.max_batch):,} sequences at once; memory holds {one.memory_batch:,} of mean length",
            *(() if coming.trace else (f"after a warm-up, {outcome.requests:,} requests are measured; seed {service.seed}",)),
            "quantiles are exact to 0.13%",
        ),
        warnings=tuple(warnings),
        verdict=broken is None and steady.batch is not None,
        absent=(("", "every answer is a single token"),),
    )
    c.say(report, out)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("simulate", epilog=EXAMPLES)(o.command(simulate))
