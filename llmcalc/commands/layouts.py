"""`llmcalc layouts`: tensor, pipeline, expert and data parallelism over a number of devices, side by side."""

from __future__ import annotations

import typer

from llmcalc import hardware as devices
from llmcalc.commands import common as c
from llmcalc.commands import options as o
from llmcalc.errors import UsageError
from llmcalc.estimate import parallel as estimator
from llmcalc.plan import Workload
from llmcalc.present import Report, columns, facts

EXAMPLES = """
Examples:

  llmcalc layouts -m meta-llama/Llama-3.1-70B-Instruct -d '8x h100-sxm' -c 8k -b 64

  llmcalc layouts -m deepseek-ai/DeepSeek-V3 -d '16x h200-sxm' -b 256 --weights fp8
"""


class Counted(o.Group):
    """How many of which device; how they are laid out is the answer."""

    hardware = o.Placement.hardware
    weights = o.Placement.weights
    kv_dtype = o.Placement.kv_dtype


class Checked(o.File):
    """Where the answer goes; its verdict."""

    section = "Output"
    check = o.Output.check


def layouts(which: o.ModelChoice, place: Counted, work: o.Work, by: o.Reading, run: o.Running, out: Checked) -> None:
    """All ways to lay a model over N devices: which are valid, what they waste, how fast they are."""
    found = c.chosen(which)
    tokens, assumed = c.held(found, work, at_most=c.DEFAULT_CTX)
    count, name = devices.parse_count(place.hardware)
    if count > 1024:
        raise UsageError("bad-value", f"{count} devices are more than llmcalc lays out", "give at most 1024")
    plan = c.laid_out(found, name, o.Layout(weights=place.weights, kv_dtype=place.kv_dtype), run)
    sequences = work.batch
    estimate = estimator.compare(found, plan, count, Workload(tokens, sequences), by.method)
    r = estimate.results
    heads = f"{r.kv_heads} KV heads: beyond, ranks hold copies" if r.kv_heads > 1 else "one latent or KV head: every rank holds it"
    report = Report(
        command="layouts",
        title=f"{found.id} over {count} × {plan.device.id}",
        model=c.model_header(found),
        hardware={"id": plan.device.id, "count": count, "name": plan.device.name},
        inputs={
            "ctx_tokens": tokens,
            **c.image_inputs(found, work.image),
            "batch": sequences,
            "method": by.method,
            "weights": plan.weights.name,
            "kv_dtype": plan.kv.name,
            "engine": plan.engine.name,
        },
        header=(c.model_line(found), f"{count} × {plan.device.name}", f"ctx {tokens:,} tokens · batch {sequences:,}"),
        facts=facts(r, valid_tp=heads, experts=r.experts > 0),
        columns=columns(estimator.Layout),
        rows=estimate.rows,
        assumptions=(*assumed, *estimate.assumptions),
        warnings=estimate.warnings,
        remarks=r.placement,
        verdict=r.fastest is not None,
        rows_first=True,
        absent=(("", "null where `why` says what forbids the layout"),),
    )
    c.say(report, out)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("layouts", epilog=EXAMPLES)(o.command(layouts))
