"""`llmcalc prefill`: the time until the first token, and what a prompt does to those who are decoding."""

from __future__ import annotations

import typer

from llmcalc.commands import common as c
from llmcalc.commands import options as o
from llmcalc.commands import parse
from llmcalc.estimate import prefill as estimator
from llmcalc.plan import Workload
from llmcalc.present import Report, columns, facts

EXAMPLES = """
Examples:

  llmcalc prefill -m meta-llama/Meta-Llama-3-8B -d h100-sxm --prompt 8k --explain

  llmcalc prefill -m Qwen/Qwen3-32B -d '2x h100-sxm' --prompt 32k --cached 30k

  llmcalc prefill -m meta-llama/Meta-Llama-3-8B -d h100-sxm --prompt 8k -b 32 --chunk 2048
"""


class Prompt(o.Group):
    """The prompt that is read, and who is decoding meanwhile."""

    section = "Workload"
    prompt = o.Request.prompt
    cached = o.Request.cached
    batch = o.Work.batch.but(default="0", read=parse.counting(least=0))
    ctx = o.Work.ctx
    image = o.Work.image
    chunk = o.Steps.chunk.but(default="0")


def prefill(which: o.ModelChoice, place: o.Placement, work: Prompt, by: o.Reading, run: o.Hosting, out: o.Output) -> None:
    """Time to the first token of a prompt; with --batch, what chunked prefill does to everybody's TPOT."""
    found = c.chosen(which)
    prompt = work.prompt
    tokens, assumed = c.context(found, work.ctx or prompt, at_most=c.DEFAULT_CTX)
    seen = c.seen(found, work.image)
    read = (prompt or tokens) + (seen.tokens if seen else 0)
    tokens = tokens + seen.tokens if seen else tokens
    known = parse.within(work.cached, read)
    used = run.without("reserve", "memory_utilization", "max_num_batched_tokens", "max_num_seqs", "host", "host_bandwidth")
    plan = c.placed(found, place, used)
    sequences, piece, method = work.batch, work.chunk or None, by.method
    held = Workload(tokens, sequences) if sequences else None
    estimate = estimator.prefill(found, plan, read, known, work=held, chunk=piece, method=method, seen=seen)
    r = estimate.results
    usual = {"napkin": "idle server, the textbook's; engines usually take longer", "roofline": "no engine beats it"}
    said = facts(
        r,
        ttft_s=f"beside {sequences:,} decoding" if held is not None and piece else usual.get(method, _range(r)),
        expected_ttft_s=_range(r) if method != "expected" else False,
        floor_ttft_s=method != "roofline",
        napkin_ttft_s=method != "napkin",
        prefill_time_s=r.prefill_time_s != r.ttft_s,
        attention_s=f"{r.attention_share:.0%} of the arithmetic",
        kv_read_s=known > 0,
        communication_s=plan.ranks > 1,
        pipeline_bubble=plan.pp > 1,
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
            **c.image_inputs(found, work.image),
            "method": method,
            **c.plan_inputs(plan),
        },
        header=(c.model_line(found), c.hardware_line(plan), f"prompt {read:,} tokens" + (f", {known:,} of them cached" if known else "")),
        facts=said,
        columns=columns(estimator.Chunk) if held is not None else (),
        rows=estimate.rows,
        assumptions=(*(assumed if prompt is None or held is not None else ()), *c.variant(plan), *estimate.assumptions),
        warnings=estimate.warnings,
        figures=estimate.figures,
    )
    c.say(report, out)


def _range(r: estimator.Prefill) -> str:
    return c.between(r, "expected_ttft", "s")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("prefill", epilog=EXAMPLES)(o.command(prefill))
