"""`llmcalc fit`: what a deployment's memory holds beside the weights."""

from __future__ import annotations

from dataclasses import replace

import typer

from llmcalc.answers import ABSENT, Words
from llmcalc.architecture import Model
from llmcalc.commands import common as c
from llmcalc.commands import options as o
from llmcalc.errors import UsageError, printable
from llmcalc.estimate import capacity, verdict
from llmcalc.plan import Deployment, Workload
from llmcalc.present import Picture, Report, columns, facts

EXAMPLES = """
Examples:

  llmcalc fit -m meta-llama/Meta-Llama-3-8B -d h100-sxm -c 8k

  llmcalc fit -m Qwen/Qwen3-32B -d '2x rtx-4090' --weights awq --reserve 2GB

  llmcalc fit -m meta-llama/Llama-3.1-8B -d h100-sxm --engine vllm --max-num-batched-tokens 2048

  llmcalc fit -m deepseek-ai/DeepSeek-V3 -d '8x h200-sxm' --engine vllm --draft-tokens 1

  llmcalc fit -m meta-llama/Llama-3.1-70B-Instruct -d h100-sxm --check
"""


def fit(which: o.ModelChoice, place: o.Stored, work: o.Work, run: o.Pooled, drafts: o.Drafts, out: o.Output) -> None:
    """Whether a model fits, how many sequences fit, and how long they may be."""
    c.say(reported(c.chosen(which), which, place, work, run, drafts), out)


def reported(found: Model, which: o.Whence, place: o.Stored, work: o.Work, run: o.Pooled, drafts: o.Drafts) -> Report:
    """The answer."""
    tokens, assumed = c.held(found, work, at_most=c.DEFAULT_CTX)
    sequences = work.batch
    plan = c.placed(found, place, run.without("host", "host_bandwidth"))  # they change times alone
    draft = drafts.draft
    if drafted := drafts.draft_tokens:
        plan = replace(plan, draft_tokens=drafted, drafter=c.beside(which, draft) if draft else None)
        who = plan.drafter.id if plan.drafter else "the target's own prediction layers"
        assumed += (f"drafted per step: {drafted}, by {who}, whose weights and part of the cache count",)
    elif draft:
        raise UsageError("bad-value", f"--draft {printable(draft, 60)}: no token is drafted", "say how many with --draft-tokens N")
    held = Workload(tokens, sequences)
    estimate = verdict.fit(found, plan, held)
    r, slots = estimate.results, capacity.running(plan, held)
    others = sum(row.engine not in (None, plan.engine.name) for row in estimate.rows)
    yes, headline = verdict_of(plan, r, others, slots)
    ends = found.max_context
    beyond = f"in memory; the model itself ends at {ends:,}" if ends and (r.max_ctx_tokens or 0) > ends else ""
    return Report(
        command="fit",
        title=f"{found.id} on {plan.ranks} × {plan.device.id}: {headline}",
        model=c.model_header(found),
        hardware=c.hardware_header(plan),
        inputs={
            "ctx_tokens": tokens,
            **c.image_inputs(found, work.image),
            "batch": sequences,
            **c.plan_inputs(plan),
            "draft_tokens": drafted,
            "draft": draft,
        },
        header=(c.model_line(found), c.hardware_line(plan), f"ctx {tokens:,} tokens · batch {sequences:,}"),
        facts=facts(
            r,
            max_batch=f"of {tokens:,} tokens",
            max_batch_exact=r.max_batch_exact > 0,
            max_ctx_tokens=Words(f"longest context at batch {slots:,}", note=beyond),
            needed_bytes=Words(f"needed for batch {slots:,}", shown=not plan.engine.nominal),
            weight_bytes_per_device=plan.ranks > 1,
            kv_bytes_per_sequence_per_device=plan.ranks > 1,
        ),
        columns=columns(verdict.FitRow, kv_capacity_tokens=False),
        second=SECOND,
        picture=Picture("bytes", "memory", "B", (("item", ""),), stacked=True),
        rows=estimate.rows,
        remarks=remarks(plan, r),
        assumptions=(*assumed, *c.variant(plan), *c.release(run.engine, plan), *estimate.assumptions),
        warnings=estimate.warnings,
        figures=estimate.figures,
        verdict=yes,
        absent=(
            (" ".join(SECOND), "null in rows of the ledger, which belong to no other engine"),
            ("why", "null where engines take the layout"),
        ),
    )


SECOND = ("engine", "holds", "max_batch", "max_ctx_tokens", "kv_capacity_tokens", "why")


def verdict_of(plan: Deployment, r: verdict.Fit, others: int, slots: int) -> tuple[bool, str]:
    """Whether the answer is yes, and the words of the headline. What the textbook's memory holds, an engine has to hold, too."""
    if r.refused is not ABSENT:
        runs = plan.engine.runs_on(plan.device.vendor, plan.device.kind)
        return False, f"engines refuse tp {plan.tp}, pp {plan.pp}, ep {plan.ep}" if runs else r.refused
    if not r.fits:
        return False, "does not fit" if r.max_batch < slots else f"{plan.engine.name} does not start so"
    if plan.engine.nominal and others and not any(name != plan.engine.name for name in r.engines_that_hold):
        return False, "fits by arithmetic; in none of the engines that run there"
    return True, "fits"


def remarks(plan: Deployment, r: verdict.Fit) -> tuple[str, ...]:
    """What the engine would log, and how to start it."""
    if r.log is ABSENT:
        return ()
    started = (f"start: {r.start_command}",) if r.start_command else ()
    return (*(f"{plan.engine.name} logs: {line}" for line in r.log), *started)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("fit", epilog=EXAMPLES)(o.command(fit))
