"""`llmcalc decode`: the time of one decode step, what binds it, and the critical batch."""

from __future__ import annotations

from typing import Annotated

import typer

from llmcalc.commands import common as c
from llmcalc.errors import UsageError
from llmcalc.estimate import decode as estimator
from llmcalc.estimate.expected import shaped
from llmcalc.plan import Workload
from llmcalc.present import Fact, Report

EXAMPLES = """
Examples:

  llmcalc decode -m meta-llama/Meta-Llama-3-8B -d h100-sxm -c 8k -b 32 --explain

  llmcalc decode -m Qwen/Qwen3-8B -d dgx-spark

  llmcalc decode -m Qwen/Qwen3-30B-A3B -d h100-sxm -b 8 --method roofline
"""


def decode(
    model: c.ModelOption,
    hardware: c.HardwareOption,
    ctx: c.CtxOption = None,
    batch: c.BatchOption = "1",
    weights: c.WeightsOption = "auto",
    kv_dtype: c.KvOption = "auto",
    prompt: Annotated[
        str | None, typer.Option("--prompt", metavar="TOKENS", help="Prompt of the others' requests, which interrupt the expected step.")
    ] = None,
    output_tokens: c.OutputTokensOption = None,
    tp: c.TpOption = None,
    pp: c.PpOption = "1",
    ep: c.EpOption = "1",
    method: c.MethodOption = "napkin",
    reserve: c.ReserveOption = "0",
    engine: c.EngineOption = "napkin",
    memory_utilization: c.UtilizationOption = None,
    revision: c.RevisionOption = None,
    offline: c.OfflineOption = False,
    refresh: c.RefreshOption = False,
    explain: c.ExplainOption = False,
    format: c.FormatOption = "table",
    json: c.JsonOption = False,
    output: c.OutputOption = None,
    check: c.CheckOption = False,
) -> None:
    """One decode step: its time, tokens per second, what binds it, and from which batch arithmetic does."""
    found = c.load(model, revision=revision, offline=offline, refresh=refresh)
    tokens, assumed = c.context(found, ctx, at_most=c.DEFAULT_CTX)
    sequences = c.whole_number(batch, "batch")
    plan = c.deployment(
        found, hardware, weights=weights, kv_dtype=kv_dtype, tp=tp, pp=pp, ep=ep, reserve=reserve, engine=engine,
        memory_utilization=memory_utilization,
    )  # fmt: skip
    if (prompt is None) != (output_tokens is None):
        raise UsageError("bad-value", "--prompt and --output-tokens describe a request together", "give both, or neither")
    read = None if prompt is None else c.units.tokens(prompt, "prompt")
    answer = None if output_tokens is None else c.units.tokens(output_tokens, "output-tokens")
    work = Workload(tokens, sequences, read, answer)
    estimate = estimator.decode(found, plan, work, method)
    r = estimate.results
    verdict = r["fits"] is not False
    ideal = "ideal; an engine takes longer" if verdict else "if there were memory for it"
    facts = (
        Fact("step_time_s", "step time", r["step_time_s"], "s", note=ideal),
        Fact(
            "expected_step_time_s",
            "expected in an engine",
            r["expected_step_time_s"],
            "s",
            note=c.between(r, "expected_step_time", "s") + ("" if shaped(plan, work) else "; --prompt and --output-tokens narrow it"),
        ),
        Fact("tpot_s", "TPOT", r["tpot_s"], "s", shown=False),
        Fact("tokens_per_s_per_user", "tokens/s per sequence", r["tokens_per_s_per_user"], "tokens/s"),
        Fact("tokens_per_s", "tokens/s of the batch", r["tokens_per_s"], "tokens/s", sequences > 1),
        Fact("weight_read_s", "  reading weights", r["weight_read_s"], "s"),
        Fact("kv_read_s", "  reading caches", r["kv_read_s"], "s"),
        Fact("compute_s", "  arithmetic", r["compute_s"], "s", note="overlaps with the weights"),
        Fact("communication_s", "  communication", r["communication_s"], "s", plan.ranks > 1),
        Fact("overhead_s", "  overhead", r["overhead_s"], "s", shown=False),
        Fact("bound", "bound", r["bound"], note=estimator.WORDS[r["bound"]]),
        Fact("critical_batch", "critical batch", r["critical_batch"], note="tokens per step; beyond it arithmetic binds"),
        Fact("kv_crossover_batch", "KV crossover batch", r["kv_crossover_batch"], note="caches are as much to read as weights"),
        Fact("ceiling_tokens_per_s", "ceiling, any batch", r["ceiling_tokens_per_s"], "tokens/s", note="if only caches were read"),
        Fact(
            "single_stream_ceiling_tokens_per_s",
            "ceiling, one sequence",
            r["single_stream_ceiling_tokens_per_s"],
            "tokens/s",
            note="if only weights were read",
        ),
        Fact(
            "arithmetic_intensity_flops_per_byte",
            "arithmetic intensity",
            r["arithmetic_intensity_flops_per_byte"],
            note="FLOP per byte read",
        ),
        Fact("ridge_point_flops_per_byte", "ridge point", r["ridge_point_flops_per_byte"], note="FLOP per byte of the device"),
        Fact("fits", "fits", r["fits"]),
        Fact("expected_step_time_low_s", "expected, low end", r["expected_step_time_low_s"], "s", shown=False),
        Fact("expected_step_time_high_s", "expected, high end", r["expected_step_time_high_s"], "s", shown=False),
    )
    report = Report(
        command="decode",
        title=f"Decode step of {found.id} on {plan.ranks} × {plan.device.id}" + ("" if verdict else ": DOES NOT FIT"),
        model=c.model_header(found),
        hardware=c.hardware_header(plan),
        inputs={
            "ctx_tokens": tokens,
            "batch": sequences,
            **({} if read is None else {"prompt_tokens": read, "output_tokens": answer}),
            "method": method,
            **c.plan_inputs(plan),
        },
        header=(c.model_line(found), c.hardware_line(plan), f"ctx {tokens:,} tokens · batch {sequences:,} · {method}"),
        facts=facts,
        assumptions=(*assumed, *c.variant(plan), *estimate.assumptions),
        warnings=estimate.warnings,
        figures=estimate.figures,
        verdict=verdict,
    )
    c.emit(report, format=format, json=json, output=output, explain=explain, check=check)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("decode", epilog=EXAMPLES)(c.estimating(decode))
