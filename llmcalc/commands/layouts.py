"""`llmcalc layouts`: tensor, pipeline, expert and data parallelism over a number of devices, side by side."""

from __future__ import annotations

import typer

from llmcalc import hardware as devices
from llmcalc.commands import common as c
from llmcalc.errors import UsageError
from llmcalc.estimate import parallel as estimator
from llmcalc.plan import Workload
from llmcalc.present import Report, columns, facts

EXAMPLES = """
Examples:

  llmcalc layouts -m meta-llama/Llama-3.1-70B-Instruct -d '8x h100-sxm' -c 8k -b 64

  llmcalc layouts -m deepseek-ai/DeepSeek-V3 -d '16x h200-sxm' -b 256 --weights fp8
"""


def layouts(
    model: c.ModelOption,
    hardware: c.HardwareOption,
    ctx: c.CtxOption = None,
    batch: c.BatchOption = "1",
    weights: c.WeightsOption = "auto",
    kv_dtype: c.KvOption = "auto",
    reserve: c.ReserveOption = "0",
    engine: c.EngineOption = "napkin",
    memory_utilization: c.UtilizationOption = None,
    revision: c.RevisionOption = None,
    offline: c.OfflineOption = False,
    refresh: c.RefreshOption = False,
    format: c.FormatOption = "table",
    json: c.JsonOption = False,
    output: c.OutputOption = None,
    check: c.CheckOption = False,
) -> None:
    """All ways to lay a model over N devices: which are valid, what they waste, how fast they are."""
    found = c.load(model, revision=revision, offline=offline, refresh=refresh)
    tokens, assumed = c.context(found, ctx, at_most=c.DEFAULT_CTX)
    count, name = devices.parse_count(hardware)
    if count > 1024:
        raise UsageError("bad-value", f"{count} devices are more than llmcalc lays out", "give at most 1024")
    plan = c.deployment(
        found, name, weights=weights, kv_dtype=kv_dtype, reserve=reserve, engine=engine, memory_utilization=memory_utilization
    )
    sequences = c.whole_number(batch, "batch")
    estimate = estimator.compare(found, plan, count, Workload(tokens, sequences))
    r = estimate.results
    heads = f"{r.kv_heads} KV heads: beyond, ranks hold copies" if r.kv_heads > 1 else "one latent or KV head: every rank holds it"
    report = Report(
        command="layouts",
        title=f"{found.id} over {count} × {plan.device.id}",
        model=c.model_header(found),
        hardware={"id": plan.device.id, "count": count, "name": plan.device.name},
        inputs={
            "ctx_tokens": tokens,
            "batch": sequences,
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
        verdict=r.fastest is not None,
        rows_first=True,
        absent=(("", "null where `why` says what forbids the layout"),),
    )
    c.emit(report, format=format, json=json, output=output, explain=False, check=check)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("layouts", epilog=EXAMPLES)(c.estimating(layouts))
