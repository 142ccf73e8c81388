"""`llmcalc simulate`: percentiles of one replica under a stream of requests, beside the closed form."""

from __future__ import annotations

import typer

from llmcalc.commands import common as c
from llmcalc.commands import options as o
from llmcalc.commands import parse
from llmcalc.commands import plan as p
from llmcalc.estimate import served
from llmcalc.estimate.service import Service
from llmcalc.present import Report, columns, facts

EXAMPLES = """
Examples:

  llmcalc simulate -m meta-llama/Meta-Llama-3-8B -d h100-sxm --rate 4 --prompt 3000 --output-tokens 400

  llmcalc simulate -m Qwen/Qwen3-32B -d '2x h100-sxm' --trace requests.csv --max-batch 64

  llmcalc simulate -m Qwen/Qwen3-8B -d h100-sxm --engine vllm --concurrency 64 --prompt 1k --output-tokens 1k

  llmcalc simulate -m Qwen/Qwen3-8B -d l40s --rate 3 --prompt 2k --output-tokens 300 --output-cv 1 --arrival-cv 2 --seed 7
"""


class Measured(o.Steps):
    """How the replica steps, and how long it is watched."""

    requests = o.option(
        "10000",
        "--requests",
        "-n",
        metavar="N",
        read=parse.counting(least=10, most=10**7),  # two minutes
        help="Requests to measure; a trace is served whole.",
    )
    concurrency = o.option(
        None,
        "--concurrency",
        "--max-concurrency",
        metavar="N",
        read=parse.counting(most=100_000),
        help="A closed loop instead of a rate: so many requests at a time, each followed by the next.",
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
    coming = p.asked_traffic(found, arriving, users=steps.concurrency)
    plan = c.placed(found, place, running)
    method, mfu, mbu = p.method_of(steps)
    service = Service(
        coming,
        limits.max_ttft,
        limits.max_tpot,
        limits.percentile,
        mfu=mfu,
        mbu=mbu,
        chunk=steps.chunk,
        max_batch=steps.max_batch,
        simulated=steps.requests,
        seed=arriving.seed,
        method=method,
        images=c.seen(found, arriving.image),
    )
    replayed = served.served(found, plan, service)
    estimate, outcome, policy = replayed.answer, replayed.outcome, replayed.found.policy
    r = estimate.results
    broken = r.violates != "none"
    load = f"with {coming.users} requests at a time" if coming.users else f"under {coming.rate:.3g} requests/s"
    open_loop = not coming.users
    report = Report(
        command="simulate",
        title=f"{found.id} on {plan.ranks} × {plan.device.id} {load}" + (f": {r.violates.upper()} OVER ITS LIMIT" if broken else ""),
        model=c.model_header(found),
        hardware=c.hardware_header(plan),
        inputs={
            **estimate.inputs,
            **c.image_inputs(found, arriving.image),
            "chunk_tokens": policy.chunk,
            "max_batch": policy.max_batch,
            "mfu": mfu if method == "napkin" else None,
            "mbu": mbu if method == "napkin" else None,
            "seed": service.seed,
            **c.plan_inputs(plan),
        },
        header=(c.model_line(found), c.hardware_line(plan)),
        facts=facts(
            r,
            simulated_s=f"{outcome.events:,} events for {outcome.steps:,} steps",
            violates=service.max_ttft_s is not None or service.max_tpot_s is not None,
            steady_batch=open_loop,
            steady_tpot_s=open_loop,
            requests_per_s=not open_loop,
            tpot_s=c.between(r, "tpot", "s") or "each token counting alike",
        ),
        columns=columns(served.Times),
        rows=estimate.rows,
        assumptions=estimate.assumptions,
        warnings=estimate.warnings,
        verdict=not broken and (r.steady_batch is not None or not open_loop),
        absent=(
            *((("steady_batch steady_tpot_s", "the closed form is for requests that come at random"),) if coming.users else ()),
            *((("tpot_low_s tpot_high_s", "the textbook has no range"),) if method == "napkin" else ()),
            ("", "every answer is a single token"),
        ),
    )
    c.say(report, out)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("simulate", epilog=EXAMPLES)(o.command(simulate))
