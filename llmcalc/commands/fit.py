"""`llmcalc fit`: what a deployment's memory holds beside the weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import typer

from llmcalc.commands import common as c
from llmcalc.commands import options as o
from llmcalc.errors import UsageError, printable
from llmcalc.estimate import capacity
from llmcalc.plan import Deployment, Workload
from llmcalc.present import Column, Fact, Report

EXAMPLES = """
Examples:

  llmcalc fit -m meta-llama/Meta-Llama-3-8B -d h100-sxm -c 8k

  llmcalc fit -m Qwen/Qwen3-32B -d '2x rtx-4090' --weights awq --reserve 2GB

  llmcalc fit -m meta-llama/Llama-3.1-8B -d h100-sxm --engine vllm --max-num-batched-tokens 2048

  llmcalc fit -m deepseek-ai/DeepSeek-V3 -d '8x h200-sxm' --engine vllm --draft-tokens 1

  llmcalc fit -m meta-llama/Llama-3.1-70B-Instruct -d h100-sxm --check
"""


def fit(which: o.ModelChoice, place: o.Placement, work: o.Work, run: o.Running, drafts: o.Drafts, out: o.Output) -> None:
    """Whether a model fits, how many sequences fit, and how long they may be."""
    found = c.chosen(which)
    tokens, assumed = c.held(found, work, at_most=c.DEFAULT_CTX)
    sequences = work.batch
    plan = c.placed(found, place, run)
    draft = drafts.draft
    if drafted := drafts.draft_tokens:
        plan = replace(plan, draft_tokens=drafted, drafter=c.beside(which, draft) if draft else None)
        who = plan.drafter.id if plan.drafter else "the target's own prediction layers"
        assumed += (f"drafted per step: {drafted}, by {who}, whose weights and part of the cache count",)
    elif draft:
        raise UsageError("bad-value", f"--draft {printable(draft, 60)}: no token is drafted", "say how many with --draft-tokens N")
    held = Workload(tokens, sequences)
    estimate = capacity.fit(found, plan, held)
    r = estimate.results
    facts = (
        Fact("fits", "fits", r["fits"]),
        Fact("max_batch", "sequences that fit", r["max_batch"], note=f"of {tokens:,} tokens"),
        Fact("max_batch_exact", "  before rounding down", r["max_batch_exact"], shown=r["max_batch_exact"] > 0),
        Fact("max_ctx_tokens", f"longest context at batch {sequences:,}", r["max_ctx_tokens"], "tokens"),
        Fact("kv_capacity_tokens", "tokens of cache in all", r["kv_capacity_tokens"], "tokens"),
        Fact("kv_bytes_per_sequence", "cache of one sequence", r["kv_bytes_per_sequence"], "B"),
        *(
            Fact(key, key, r[key], "B", shown=False)
            for key in ("memory_bytes", "usable_bytes", "reserve_bytes", "weight_bytes", "kv_budget_bytes")
        ),
        Fact("needed_bytes", f"needed for batch {sequences:,}", r["needed_bytes"], "B", shown=not plan.engine.nominal),
        *engine_facts(r),
    )
    report = Report(
        command="fit",
        title=f"{found.id} on {plan.ranks} × {plan.device.id}: " + ("fits" if r["fits"] else "does not fit"),
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
        facts=facts,
        columns=(Column("item", "memory"), Column("bytes", "bytes", "B"), *(Column(key, key, shown=False) for key in ENGINE_KEYS)),
        rows=(*estimate.rows, *capacity.by_engine(found, plan, held)),
        remarks=remarks(plan, r),
        assumptions=(*assumed, *c.variant(plan), *c.release(run.engine, plan), *estimate.assumptions),
        warnings=estimate.warnings,
        figures=estimate.figures,
        verdict=bool(r["fits"]),
        absent=((" ".join(ENGINE_KEYS), "null in rows of the ledger, which belong to no other engine"),),
    )
    c.say(report, out)


ENGINE_KEYS = ("engine", "kv_capacity_tokens", "max_batch")


def engine_facts(r: dict[str, Any]) -> tuple[Fact, ...]:
    """What only an engine has: what it takes when it runs, its step, its log and the command that starts it."""
    if "engine_bytes" not in r:
        return ()
    return (
        Fact("engine_bytes", "the running engine takes", r["engine_bytes"], "B"),
        Fact("batched_tokens", "tokens of a step", r["batched_tokens"], "tokens"),
        *(Fact(key, key, r[key], shown=False) for key in ("max_sequences", "log", "start_command")),
    )


def remarks(plan: Deployment, r: dict[str, Any]) -> tuple[str, ...]:
    """What the engine would log, and how to start it."""
    if "log" not in r:
        return ()
    return (*(f"{plan.engine.name} logs: {line}" for line in r["log"]), f"start: {r['start_command']}")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("fit", epilog=EXAMPLES)(o.command(fit))
