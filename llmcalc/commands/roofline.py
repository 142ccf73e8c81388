"""`llmcalc roofline`: a device's roof, and where a model's prefill and decode steps lie under it."""

from __future__ import annotations

from typing import Any

import typer

from llmcalc import units
from llmcalc.answers import Aside
from llmcalc.commands import common as c
from llmcalc.commands import options as o
from llmcalc.commands import parse
from llmcalc.commands.space import listed
from llmcalc.estimate import roofline as estimator
from llmcalc.estimate import verdict
from llmcalc.estimate.step import METHODS
from llmcalc.plan import Workload
from llmcalc.present import Axis, Chart, Mark, Report, Series, columns, facts

EXAMPLES = """
Examples:

  llmcalc roofline -m meta-llama/Meta-Llama-3-8B -d h100-sxm -c 8k

  llmcalc roofline -m Qwen/Qwen3-30B-A3B -d '2x rtx-4090' -b 1,16,64 --prompt 512,4k

  llmcalc roofline -m Qwen/Qwen3-8B -d dgx-spark -o roofline.png
"""

PROMPTS = (32, 128, 512, 2048)


class Drawn(o.Group):
    """Which points are drawn."""

    section = "Workload"
    ctx = o.Work.ctx
    batch = o.option(None, "--batch", "-b", metavar="N,...", help="Batches to draw. [default: 1, 2, 4, ... to the most that fit]")
    prompt = o.option(None, "--prompt", metavar="TOKENS,...", help="Prompts to draw. [default: 32 ... 2048 and the context]")


def roofline(which: o.ModelChoice, place: o.Placement, drawn: Drawn, by: o.Reading, out: o.Output) -> None:
    """The roofline of a device with a model's prefill and decode points."""
    found = c.chosen(which)
    tokens, assumed = c.context(found, drawn.ctx, at_most=c.DEFAULT_CTX)
    plan, method = c.placed(found, place), by.method
    batch, prompt = drawn.batch, drawn.prompt
    if batch is None:
        most = verdict.holds(found, plan, Workload(tokens, 1)).max_batch or 1
        batches = tuple(sorted({2**power for power in range(int(most).bit_length())} | {int(most)}))
    else:
        batches = tuple(sorted({parse.whole_number(word, "batch") for word in listed(batch, "batch")}))
    if prompt is None:
        prompts = tuple(sorted({*(each for each in PROMPTS if each < tokens), tokens}))
    else:
        prompts = tuple(sorted({units.tokens(word, "prompt") for word in listed(prompt, "prompt")}))
    estimate = estimator.roofline(found, plan, tokens, batches, prompts, method)
    r = estimate.results
    ridge = r.ridge_point_flops_per_byte
    report = Report(
        command="roofline",
        title=f"Roofline of {plan.ranks} × {plan.device.id} with {found.id}",
        model=c.model_header(found),
        hardware=c.hardware_header(plan),
        inputs={"ctx_tokens": tokens, "batch": list(batches), "prompt_tokens": list(prompts), "method": method, **c.plan_inputs(plan)},
        header=(c.model_line(found), c.hardware_line(plan), f"ctx {tokens:,} tokens · {method}"),
        facts=facts(r),
        columns=columns(estimator.Step),
        rows=estimate.rows,
        assumptions=(*assumed, *c.variant(plan), *estimate.assumptions, Aside(f"method {method}: {METHODS[method]}")),
        warnings=estimate.warnings,
        figures=estimate.figures,
        rows_first=True,
        scan=True,
        chart=_chart(found.id, plan, estimate.rows, ridge),
    )
    c.say(report, out)


def _chart(model: str, plan: Any, rows: tuple[estimator.Step, ...], ridge: float) -> Chart:
    """The roof as a line through its ends and its ridge, the steps as points."""
    across = [row.intensity_flops_per_byte for row in rows]
    corners = sorted({min([*across, ridge / 10]), ridge, max([*across, ridge * 10])})
    line = tuple({"intensity_flops_per_byte": place, "flops_per_s": estimator.roof(plan, place), "phase": "roof"} for place in corners)
    steps = [Series(phase, tuple(row for row in rows if row.phase == phase)) for phase in ("decode", "prefill")]
    return Chart(
        title=f"{model} under the roof of {plan.ranks} × {plan.device.id}",
        x=Axis("intensity_flops_per_byte", "FLOP per byte read"),
        y=Axis("flops_per_s", "arithmetic reached", "FLOP/s"),
        series=(Series("roof", line, line=True), *(one for one in steps if one.points)),
        marks=(Mark(f"ridge point, {units.number(ridge)} FLOP/B", ridge, estimator.roof(plan, ridge)),),
    )


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("roofline", epilog=EXAMPLES)(o.command(roofline))
