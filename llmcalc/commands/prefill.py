"""`llmcalc prefill`: the time until the first token, and what a prompt does to those who are decoding."""

from __future__ import annotations

import typer

from llmcalc.commands import common as c
from llmcalc.commands import options as o
from llmcalc.commands import parse
from llmcalc.estimate import prefill as estimator
from llmcalc.plan import Workload
from llmcalc.present import Column, Fact, Report

EXAMPLES = """
Examples:

  llmcalc prefill -m meta-llama/Meta-Llama-3-8B -d h100-sxm --prompt 8k --explain

  llmcalc prefill -m Qwen/Qwen3-32B -d '2x h100-sxm' --prompt 32k --cached 30k

  llmcalc prefill -m meta-llama/Meta-Llama-3-8B -d h100-sxm --prompt 8k -b 32 --chunk 2048
"""
_FREE = "a chunk of this size costs the batch nothing but its attention"


class Reading(o.Group):
    """The prompt that is read, and who is decoding meanwhile."""

    prompt = o.Request.prompt
    cached = o.Request.cached
    batch = o.Work.batch.but(default="0", read=parse.counting(least=0))
    ctx = o.Work.ctx
    chunk = o.Steps.chunk.but(default="0")


def prefill(which: o.ModelChoice, place: o.Placement, work: Reading, out: o.Output) -> None:
    """Time to the first token of a prompt; with --batch, what chunked prefill does to everybody's TPOT."""
    found = c.chosen(which)
    prompt = work.prompt
    tokens, assumed = c.context(found, work.ctx or prompt, at_most=c.DEFAULT_CTX)
    read = prompt or tokens
    known = parse.within(work.cached, read)
    plan = c.placed(found, place)
    sequences, piece = work.batch, work.chunk or None
    held = Workload(tokens, sequences) if sequences else None
    estimate = estimator.prefill(found, plan, read, known, work=held, chunk=piece)
    r = estimate.results
    facts = (
        Fact(
            "ttft_s",
            "TTFT",
            r["ttft_s"],
            "s",
            note=f"beside {sequences:,} decoding" if held is not None and piece else "idle server, ideal rates",
        ),
        Fact("expected_ttft_s", "expected in an engine", r["expected_ttft_s"], "s", note=c.between(r, "expected_ttft", "s")),
        Fact("prefill_time_s", "prefill alone", r["prefill_time_s"], "s", r["prefill_time_s"] != r["ttft_s"]),
        Fact("gemm_s", "  matrices", r["gemm_s"], "s"),
        Fact("attention_s", "  attention", r["attention_s"], "s", note=f"{r['attention_share']:.0%} of the arithmetic"),
        Fact("weight_read_s", "  reading weights", r["weight_read_s"], "s", note="overlaps with the matrices"),
        Fact("kv_read_s", "  reading the prefix", r["kv_read_s"], "s", known > 0, note="overlaps with attention"),
        Fact("communication_s", "  communication", r["communication_s"], "s", plan.ranks > 1),
        Fact("pipeline_bubble", "  pipeline bubble", r["pipeline_bubble"], "percent", plan.pp > 1),
        *((Fact("saved_s", "saved by the prefix cache", r["saved_s"], "s"),) if known else ()),
        Fact("prefill_flops", "arithmetic", r["prefill_flops"], "FLOP"),
        Fact("attention_flops", "  of it attention", r["attention_flops"], "FLOP"),
        Fact("attention_share", "attention share", r["attention_share"], shown=False),
        Fact("prompt_tokens_per_s", "prompt tokens/s", r["prompt_tokens_per_s"], "tokens/s"),
        Fact("bound", "bound", r["bound"]),
        Fact(
            "compute_bound_from_tokens",
            "arithmetic binds from",
            r["compute_bound_from_tokens"],
            "tokens",
            note="shorter prompts wait for the weights",
        ),
        Fact(
            "attention_bound_from_tokens",
            "attention leads from",
            r["attention_bound_from_tokens"],
            "tokens",
            note="longer prompts cost quadratically",
        ),
        *((Fact("free_tokens", "free tokens per step", r["free_tokens"], "tokens", note=_FREE),) if held is not None else ()),
        Fact("expected_ttft_low_s", "expected, low end", r["expected_ttft_low_s"], "s", shown=False),
        Fact("expected_ttft_high_s", "expected, high end", r["expected_ttft_high_s"], "s", shown=False),
    )
    columns = (
        Column("chunk_tokens", "chunk", "tokens"),
        Column("steps", "steps", rank=2),
        Column("step_time_s", "TPOT meanwhile", "s"),
        Column("tpot_factor", "× TPOT", rank=1),
        Column("ttft_s", "TTFT", "s"),
        Column("step_time_without_attention_s", "without attention", "s", rank=3),
    )
    report = Report(
        command="prefill",
        title=f"Prefill of {found.id} on {plan.ranks} × {plan.device.id}",
        model=c.model_header(found),
        hardware=c.hardware_header(plan),
        inputs={
            "prompt_tokens": read,
            "cached_tokens": known,
            "chunk_tokens": piece,
            "batch": sequences,
            "ctx_tokens": tokens,
            **c.plan_inputs(plan),
        },
        header=(c.model_line(found), c.hardware_line(plan), f"prompt {read:,} tokens" + (f", {known:,} of them cached" if known else "")),
        facts=facts,
        columns=columns if held is not None else (),
        rows=estimate.rows,
        assumptions=(*(assumed if prompt is None or held is not None else ()), *c.variant(plan), *estimate.assumptions),
        warnings=estimate.warnings,
        figures=estimate.figures,
    )
    c.say(report, out)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("prefill", epilog=EXAMPLES)(o.command(prefill))
