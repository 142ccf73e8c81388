"""`llmcalc prefix`: what a prefix cache, paging and offload save."""

from __future__ import annotations

from typing import Annotated

import typer

from llmcalc import units
from llmcalc.answers import Words
from llmcalc.commands import common as c
from llmcalc.commands.parse import variation
from llmcalc.errors import UsageError
from llmcalc.estimate import prefix as estimator
from llmcalc.present import Report, facts

EXAMPLES = """
Examples:

  llmcalc prefix -m meta-llama/Meta-Llama-3-8B -d h100-sxm --sequences 20 --prefix 1000

  llmcalc prefix -m Qwen/Qwen3-8B -d h100-sxm --sequences 50 --prefix 2k --prompt 3k --output-tokens 500 --reserved 32k

  llmcalc prefix -m Qwen/Qwen3-32B -d '2x h100-sxm' --prompt 8k --users 500 --replicas 4 --routing random
"""


def prefix(
    model: c.ModelOption,
    hardware: c.HardwareOption,
    batch: Annotated[str, typer.Option("--sequences", "--batch", "-b", metavar="N", help="Sequences with the common prefix.")] = "1",
    prefix_tokens: Annotated[
        str | None, typer.Option("--prefix", metavar="TOKENS", help="Tokens that all prompts begin with. [default: the prompt]")
    ] = None,
    prompt: c.PromptOption = None,
    output_tokens: c.OutputTokensOption = None,
    block: Annotated[str, typer.Option("--block", metavar="TOKENS", help="Tokens per cache block.")] = "16",
    users: Annotated[
        str, typer.Option("--users", metavar="N", help="Users whose histories (of --prompt tokens) are kept for the next turn.")
    ] = "0",
    zipf: Annotated[str, typer.Option("--zipf", metavar="EXPONENT", help="How unevenly users come back; 0: evenly.")] = "0",
    replicas: Annotated[str, typer.Option("--replicas", metavar="N", help="Replicas that the users are spread over.")] = "1",
    routing: Annotated[str, typer.Option("--routing", metavar="NAME", help="affine (a user stays on a replica) or random.")] = "affine",
    reserved: Annotated[
        str | None,
        typer.Option("--reserved", metavar="TOKENS", help="Tokens that an engine without paging reserves. [default: prompt + output]"),
    ] = None,
    host_bandwidth: Annotated[
        str, typer.Option("--host-bandwidth", metavar="RATE", help="Link to host memory; PCIe 5 x16 gives about 50GB/s.")
    ] = "50GB/s",
    mfu: Annotated[str, typer.Option("--mfu", metavar="SHARE", help="Share of the compute rate that prefill reaches.")] = "1",
    weights: c.WeightsOption = "auto",
    kv_dtype: c.KvOption = "auto",
    tp: c.TpOption = None,
    pp: c.PpOption = "1",
    ep: c.EpOption = "1",
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
) -> None:
    """Prefix cache, paging against reservation, and offload against computing again."""
    if prefix_tokens is None and prompt is None:
        raise UsageError("bad-value", "neither a prefix nor a prompt is given", "give --prefix 1000, --prompt 8k, or both")
    found = c.load(model, revision=revision, offline=offline, refresh=refresh)
    common = units.tokens(prefix_tokens, "prefix") if prefix_tokens is not None else units.tokens(prompt or "", "prompt")
    read = units.tokens(prompt, "prompt") if prompt is not None else common
    if common > read:
        raise UsageError("bad-value", f"prefix {common:,} is longer than the prompt of {read:,}", "a prefix is a part of the prompt")
    if routing not in ("affine", "random"):
        raise UsageError("bad-value", f"routing {routing[:40]!r} is neither affine nor random", "write it like --routing random")
    plan = c.deployment(
        found,
        hardware,
        weights=weights,
        kv_dtype=kv_dtype,
        tp=tp,
        pp=pp,
        ep=ep,
        reserve=reserve,
        engine=engine,
        memory_utilization=memory_utilization,
    )
    what = estimator.Sharing(
        c.whole_number(batch, "sequences"),
        common,
        read,
        units.tokens(output_tokens, "output-tokens") if output_tokens is not None else 0,
        c.whole_number(block, "block", most=10**6),
        c.whole_number(users, "users", least=0, most=10**7),
        variation(zipf, "zipf"),
        c.whole_number(replicas, "replicas", most=10**5),
        routing == "affine",
        units.tokens(reserved, "reserved") if reserved is not None else None,
        units.quantity(host_bandwidth, "bytes/s"),
        c.fraction(mfu, "mfu"),
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
    c.emit(report, format=format, json=json, output=output, explain=explain)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("prefix", epilog=EXAMPLES)(c.estimating(prefix))
