"""`llmcalc levers`: a service answers slowly; what helps, by how much, and what to check afterwards."""

from __future__ import annotations

import typer

from llmcalc import units
from llmcalc.commands import common as c
from llmcalc.commands import completion, parse
from llmcalc.commands import options as o
from llmcalc.errors import UsageError
from llmcalc.estimate import levers as estimator
from llmcalc.present import Report, columns, facts

EXAMPLES = """
Examples:

  llmcalc levers -m meta-llama/Meta-Llama-3-8B -d h100-sxm --prompt 4k --output-tokens 300 -b 32

  llmcalc levers -m Qwen/Qwen3-8B -d l40s --prompt 3000 --output-tokens 400 --rate 3 --goal ttft
"""
WORDS = {
    "ttft": "most of the time goes before the first token: queue, prompt, prefix cache",
    "tpot": "most of the time goes into writing: bytes read per token, batch, speculation",
}


class Going(o.Group):
    """What the service does, and what it should do better."""

    section = "Workload"
    prompt = o.Request.prompt
    output_tokens = o.option("256", "--output-tokens", metavar="TOKENS", read=units.tokens, help="Tokens written per request.")
    cached = o.Request.cached
    batch = o.Work.batch.but(default=None, help="Concurrent sequences. [default: 1]")
    rate = o.Arrivals.rate.but(help="Requests per replica instead of a batch: 3 (per second), 100/min.")
    goal = o.option(
        "e2e",
        "--goal",
        autocompletion=completion.of(*estimator.GOALS),
        metavar="NAME",
        help="e2e (the whole answer), ttft, tpot or throughput.",
    )


def levers(which: o.ModelChoice, place: o.Placement, going: Going, by: o.Deciding, run: o.Running, out: o.File) -> None:
    """A service answers slowly: what each lever would change, best first."""
    goal, rate = going.goal, going.rate
    if goal not in estimator.GOALS:
        raise UsageError("bad-value", f"goal {goal[:40]!r} is not one that llmcalc knows", f"use one of {', '.join(estimator.GOALS)}")
    if going.batch is not None and rate is not None:
        raise UsageError("bad-value", "--batch and --rate are two ways to say how much is going on", "give one of them")
    found = c.chosen(which)
    tokens, assumed = c.context(found, going.prompt, at_most=c.DEFAULT_CTX // 4)
    plan = c.placed(found, place, run)
    known = parse.within(going.cached, tokens)
    state = estimator.State(found, plan, tokens, going.output_tokens, known, going.batch or 1, rate, method=by.method)
    estimate = estimator.diagnose(state, goal)
    r = estimate.results
    report = Report(
        command="levers",
        title=f"{found.id} on {plan.ranks} × {plan.device.id}: what would make it faster",
        model=c.model_header(found),
        hardware=c.hardware_header(plan),
        inputs={
            "prompt_tokens": tokens,
            "output_tokens": state.output,
            "cached_tokens": state.cached,
            "batch": state.batch,
            "rate": state.rate,
            "goal": goal,
            "method": by.method,
            **c.plan_inputs(plan),
        },
        header=(
            c.model_line(found),
            c.hardware_line(plan),
            f"prompt {tokens:,} tokens · answer {state.output:,} · "
            + (f"{units.number(state.rate)} requests/s" if state.rate else f"batch {state.batch:,}")
            + f" · {by.method}",
        ),
        facts=facts(
            r,
            queue_s=rate is not None,
            decode_s=f"{state.output:,} tokens",
            phase=WORDS.get(r.phase or "", ""),
            napkin_tpot_s=by.method != "napkin",
            tpot_s=c.between(r, "expected_tpot", "s") if by.method == "expected" else "",
        ),
        columns=columns(estimator.Effect, gain=f"× {goal}"),
        rows=estimate.rows,
        assumptions=(*(text.replace("ctx ", "prompt ") for text in assumed), *estimate.assumptions),
        warnings=estimate.warnings,
        rows_first=True,
        absent=(
            ("best_lever", "none of these helps"),
            ("", "null where more arrives than is served"),
        ),
    )
    c.say(report, out)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("levers", epilog=EXAMPLES)(o.command(levers))
