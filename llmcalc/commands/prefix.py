"""`llmcalc prefix`: what a prefix cache, paging and offload save."""

from __future__ import annotations

import typer

from llmcalc import traffic as arrivals
from llmcalc import units
from llmcalc.answers import Words
from llmcalc.commands import common as c
from llmcalc.commands import completion, parse
from llmcalc.commands import options as o
from llmcalc.errors import LlmcalcError, UsageError, printable
from llmcalc.estimate import prefix as estimator
from llmcalc.estimate import reuse
from llmcalc.present import Report, columns, facts

EXAMPLES = """
Examples:

  llmcalc prefix -m meta-llama/Meta-Llama-3-8B -d h100-sxm --sequences 20 --prefix 1000

  llmcalc prefix -m Qwen/Qwen3-8B -d h100-sxm --sequences 50 --prefix 2k --prompt 3k --output-tokens 500 --reserved 32k

  llmcalc prefix -m Qwen/Qwen3-32B -d '2x h100-sxm' --prompt 8k --users 500 --replicas 4 --routing random

  llmcalc prefix -m Qwen/Qwen3-8B -d h100-sxm --trace conversation.jsonl --tier hbm:30GB,host:512GB@50GB/s,ssd:4TB@6GB/s
"""


class Shared(o.Group):
    """What sequences and users have in common, and where it is kept."""

    section = "Workload"
    batch = o.Work.batch.but(flags=("--sequences", "--batch", "-b"), help="Sequences with the common prefix.")
    prefix = o.option(
        None, "--prefix", metavar="TOKENS", read=units.tokens, help="Tokens that all prompts begin with. [default: the prompt]"
    )
    prompt = o.Request.prompt
    output_tokens = o.Request.output_tokens
    block = o.option(
        None, "--block", metavar="TOKENS", read=parse.counting(most=10**6), help="Tokens per cache block. [default: 16; a trace's own]"
    )
    trace = o.option(
        None, "--trace", metavar="FILE", help="Requests with hash_ids, one per block of the prompt, as Mooncake's JSONL has them."
    )
    tier = o.option(
        None,
        "--tier",
        "--tiers",
        metavar="TIERS",
        read=parse.tiers,
        help="What keeps a trace's blocks: hbm:30GB,host:512GB@50GB/s. [default: what the device has left]",
    )
    users = o.option(
        "0",
        "--users",
        metavar="N",
        read=parse.counting(least=0, most=10**7),
        help="Users whose histories (of --prompt tokens) are kept for the next turn.",
    )
    zipf = o.option("0", "--zipf", metavar="EXPONENT", read=parse.variation, help="How unevenly users come back; 0: evenly.")
    replicas = o.option("1", "--replicas", metavar="N", read=parse.counting(most=10**5), help="Replicas that the users are spread over.")
    routing = o.option(
        "affine",
        "--routing",
        autocompletion=completion.of("affine", "random"),
        metavar="NAME",
        help="affine (a user stays on a replica) or random.",
    )
    reserved = o.option(
        None,
        "--reserved",
        metavar="TOKENS",
        read=units.tokens,
        help="Tokens that an engine without paging reserves. [default: prompt + output]",
    )
    host_bandwidth = o.option(
        "50GB/s",
        "--host-bandwidth",
        metavar="RATE",
        read=parse.quantity("bytes/s"),
        help="Link to host memory; PCIe 5 x16 gives about 50GB/s.",
    )
    mfu = o.Steps.mfu.but(default="1", help="Share of the compute rate that prefill reaches.")


def prefix(which: o.ModelChoice, place: o.Placement, shared: Shared, by: o.Reading, run: o.Running, out: o.Output) -> None:
    """Prefix cache, paging against reservation, and offload against computing again."""
    if shared.trace is not None:
        return traced(shared.trace, which, place, shared, by, run, out)
    if shared.tier is not None:
        raise UsageError("bad-value", "--tier keeps the blocks of a trace, and none is given", "give --trace FILE with hash_ids")
    if shared.prefix is None and shared.prompt is None:
        raise UsageError("bad-value", "neither a prefix nor a prompt is given", "give --prefix 1000, --prompt 8k, or both")
    found = c.chosen(which)
    common = shared.prefix or shared.prompt or 0
    read, routing = shared.prompt or common, shared.routing
    if common > read:
        raise UsageError("bad-value", f"prefix {common:,} is longer than the prompt of {read:,}", "a prefix is a part of the prompt")
    if routing not in ("affine", "random"):
        raise UsageError("bad-value", f"routing {routing[:40]!r} is neither affine nor random", "write it like --routing random")
    plan = c.placed(found, place, run)
    what = estimator.Sharing(
        shared.batch,
        common,
        read,
        shared.output_tokens or 0,
        shared.block or 16,
        shared.users,
        shared.zipf,
        shared.replicas,
        routing == "affine",
        shared.reserved,
        shared.host_bandwidth,
        1.0 if by.method == "expected" else shared.mfu or 1.0,
        by.method,
    )
    if not what.host_bytes_per_s:
        raise UsageError("bad-value", "host-bandwidth is 0", "write it like --host-bandwidth 50GB/s")
    estimate = estimator.sharing(found, plan, what)
    r = estimate.results
    report = Report(
        command="prefix",
        title=f"Sharing, paging and moving the caches of {found.id} on {plan.ranks} × {plan.device.id}",
        model=c.model_header(found),
        hardware=c.hardware_header(plan),
        inputs={
            "sequences": what.sequences,
            "prefix_tokens": common,
            "prompt_tokens": read,
            "output_tokens": what.output,
            "block_tokens": what.block,
            "users": what.users,
            "replicas": what.replicas,
            "routing": routing,
            "method": what.method,
            **c.plan_inputs(plan),
        },
        header=(
            c.model_line(found),
            c.hardware_line(plan),
            f"{c.counted(what.sequences, 'sequence')} of {read:,} tokens, {common:,} of them common",
        ),
        facts=facts(
            r,
            prefilled_tokens=f"{r.shared_tokens:,} shared in whole blocks",
            working_set_bytes=Words(f"histories of {what.users:,} users"),
            hit_rate=f"{routing} routing over {what.replicas:,}",
            paged_batch=f"{r.paged_waste:.1%} of the slots stay empty",
            reserved_batch=Words(note=f"{r.reserved_waste:.1%} of the slots stay empty", shown=r.reserved_tokens > r.mean_tokens),
        ),
        assumptions=estimate.assumptions,
        warnings=estimate.warnings,
        figures=estimate.figures,
    )
    c.say(report, out)


def traced(path: str, which: o.ModelChoice, place: o.Placement, shared: Shared, by: o.Reading, run: o.Running, out: o.Output) -> None:
    """What the prompts of a trace have in common, and where it is kept."""
    given = shared.tier
    found = c.chosen(which)
    plan = c.placed(found, place, run)
    block = shared.block or arrivals.totals(path).block_tokens
    if not block:
        none = "no one size of blocks fits all prompts" if block is None else "says nothing of the blocks of its prompts"
        hint = "give --block TOKENS" if block is None else 'add "hash_ids": [...] to every request, one id per block'
        raise LlmcalcError("bad-trace", f"{printable(path)}: {none}", hint)
    tiers = tuple(reuse.Tier(*each) for each in given or ()) or (reuse.own_tier(found, plan),)
    estimate = reuse.reused(found, plan, path, block, tiers, by.method)
    r = estimate.results
    report = Report(
        command="prefix",
        title=f"Reuse in a trace by {found.id} on {plan.ranks} × {plan.device.id}",
        model=c.model_header(found),
        hardware=c.hardware_header(plan),
        inputs={"block_tokens": block, "method": by.method, **c.plan_inputs(plan)},
        header=(c.model_line(found), c.hardware_line(plan), f"{r.requests:,} requests in blocks of {block} tokens · {by.method}"),
        facts=facts(r, block_tokens=False),
        columns=columns(reuse.Kept),
        rows=estimate.rows,
        assumptions=estimate.assumptions,
        warnings=estimate.warnings,
        figures=estimate.figures,
    )
    c.say(report, out)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("prefix", epilog=EXAMPLES)(o.command(prefix))
