"""`llmcalc decode`: the time of one decode step, what binds it, and the critical batch."""

from __future__ import annotations

import typer

from llmcalc.commands import common as c
from llmcalc.commands import options as o
from llmcalc.errors import UsageError
from llmcalc.estimate import decode as estimator
from llmcalc.estimate.step import shaped
from llmcalc.plan import Workload
from llmcalc.present import Fact, Report

EXAMPLES = """
Examples:

  llmcalc decode -m meta-llama/Meta-Llama-3-8B -d h100-sxm -c 8k -b 32 --explain

  llmcalc decode -m Qwen/Qwen3-8B -d dgx-spark

  llmcalc decode -m Qwen/Qwen3-30B-A3B -d h100-sxm -b 8 --method roofline
"""


class Others(o.Group):
    """The requests that are served beside the step."""

    prompt = o.Request.prompt.but(help="Prompt of the others' requests, which interrupt the expected step.")
    output_tokens = o.Request.output_tokens


def decode(which: o.ModelChoice, place: o.Placement, work: o.Work, others: Others, by: o.Reading, run: o.Running, out: o.Output) -> None:
    """One decode step: its time, tokens per second, what binds it, and from which batch arithmetic does."""
    found = c.chosen(which)
    tokens, assumed = c.context(found, work.ctx, at_most=c.DEFAULT_CTX)
    sequences = work.batch
    plan = c.placed(found, place, run)
    method, read, answer = by.method, others.prompt, others.output_tokens
    if (read is None) != (answer is None):
        raise UsageError("bad-value", "--prompt and --output-tokens describe a request together", "give both, or neither")
    held = Workload(tokens, sequences, read, answer)
    estimate = estimator.decode(found, plan, held, method)
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
            note=c.between(r, "expected_step_time", "s") + ("" if shaped(plan, held) else "; --prompt and --output-tokens narrow it"),
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
    c.say(report, out)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("decode", epilog=EXAMPLES)(o.command(decode))
