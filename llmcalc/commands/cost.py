"""`llmcalc cost`: USD per million tokens, what batching shares of it, and energy per token."""

from __future__ import annotations

from typing import Annotated

import typer

from llmcalc import units
from llmcalc.commands import common as c
from llmcalc.errors import UsageError
from llmcalc.estimate import cost as estimator
from llmcalc.plan import Workload
from llmcalc.present import Fact, Report

EXAMPLES = """
Examples:

  llmcalc cost -m meta-llama/Meta-Llama-3-8B -d h100-sxm -c 8k -b 32 --price 3

  llmcalc cost -m Qwen/Qwen3-32B -d h200-sxm -b 64 --prompt 3000 --output-tokens 400 --utilization 0.6

  llmcalc cost -m Qwen/Qwen3-8B -d rtx-4090 -b 8 --owned --purchase 1599 --kwh 0.30
"""


def cost(
    model: c.ModelOption,
    hardware: c.HardwareOption,
    ctx: c.CtxOption = None,
    batch: c.BatchOption = "1",
    prompt: c.PromptOption = None,
    cached: c.CachedOption = "0",
    output_tokens: c.OutputTokensOption = None,
    price: c.PriceOption = None,
    utilization: Annotated[str, typer.Option("--utilization", metavar="SHARE", help="Share of the time the devices are busy.")] = "1",
    owned: Annotated[bool, typer.Option("--owned", help="Amortised purchase and power instead of rent.")] = False,
    purchase: Annotated[
        str | None, typer.Option("--purchase", metavar="USD", help="Purchase price per device. [default: the profile's MSRP]")
    ] = None,
    years: Annotated[str, typer.Option("--years", metavar="N", help="Years of amortisation.")] = "4",
    kwh: Annotated[str, typer.Option("--kwh", metavar="USD", help="USD per kWh.")] = "0.10",
    pue: Annotated[str, typer.Option("--pue", metavar="FACTOR", help="Overhead of the facility on the devices' power.")] = "1.3",
    weights: c.WeightsOption = "auto",
    kv_dtype: c.KvOption = "auto",
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
    """What a million tokens cost, and how much of that a bigger batch would share."""
    found = c.load(model, revision=revision, offline=offline, refresh=refresh)
    tokens, assumed = c.context(found, ctx, at_most=c.DEFAULT_CTX)
    sequences = c.whole_number(batch, "batch")
    plan = c.deployment(
        found, hardware, weights=weights, kv_dtype=kv_dtype, tp=tp, pp=pp, ep=ep, price=price, reserve=reserve, engine=engine,
        memory_utilization=memory_utilization,
    )  # fmt: skip
    ownership = None
    if owned or purchase is not None:
        if price is not None:
            raise UsageError("bad-value", "--price is rent and --owned is not", "give one of them")
        bought = units.quantity(purchase, "usd") if purchase is not None else plan.device.msrp_usd
        if bought is None:
            raise UsageError("no-price", f"no purchase price is recorded for {plan.device.id}", "give one with --purchase, in USD")
        ownership = estimator.Ownership(bought, c.positive(years, "years"), units.quantity(kwh, "usd"), c.positive(pue, "pue"))
    read = units.tokens(prompt, "prompt") if prompt is not None else None
    known = c.cached_tokens(cached, tokens if read is None else read)
    work = Workload(tokens, sequences, read, units.tokens(output_tokens, "output-tokens") if output_tokens is not None else None, known)
    estimate = estimator.cost(found, plan, work, method=method, utilization=c.fraction(utilization, "utilization"), owned=ownership)
    r = estimate.results
    facts = (
        Fact("usd_per_million_output_tokens", "1M output tokens", r["usd_per_million_output_tokens"], "usd"),
        Fact(
            "expected_usd_per_million_output_tokens",
            "  expected in an engine",
            r["expected_usd_per_million_output_tokens"],
            "usd",
            note=c.between(r, "expected_usd_per_million_output_tokens", "usd"),
        ),
        Fact("fixed_usd_per_million", "  shared by the batch", r["fixed_usd_per_million"], "usd", note="halves when the batch doubles"),
        Fact("marginal_usd_per_million", "  each sequence's own", r["marginal_usd_per_million"], "usd", note="no batch shares it"),
        Fact(
            "usd_per_million_output_floor",
            "  floor of any batch",
            r["usd_per_million_output_floor"],
            "usd",
            r["usd_per_million_output_floor"] != r["marginal_usd_per_million"],
            "if only caches were read",
        ),
        Fact("usd_per_million_input_tokens", "1M input tokens", r["usd_per_million_input_tokens"], "usd"),
        Fact("usd_per_million_blended", "1M tokens, blended", r["usd_per_million_blended"], "usd"),
        Fact("usd_per_hour", f"{plan.ranks} × {plan.device.id} per hour", r["usd_per_hour"], "usd/h"),
        Fact("tokens_per_s", "tokens/s of the batch", r["tokens_per_s"], "tokens/s"),
        Fact("tpot_s", "TPOT", r["tpot_s"], "s"),
        Fact(
            "expected_step_time_s", "  expected in an engine", r["expected_step_time_s"], "s", note=c.between(r, "expected_step_time", "s")
        ),
        *(
            Fact(key, key, r[key], shown=False)
            for key in r
            if key.startswith("expected_") and key.endswith(("_low", "_high", "low_s", "high_s"))
        ),
        Fact("energy_joules_per_token", "joules per token", r["energy_joules_per_token"], note="at rated power"),
        Fact("fits", "fits", r["fits"]),
    )
    verdict = r["fits"] is not False
    report = Report(
        command="cost",
        title=f"Cost of {found.id} on {plan.ranks} × {plan.device.id}" + ("" if verdict else ": DOES NOT FIT"),
        model=c.model_header(found),
        hardware=c.hardware_header(plan),
        inputs={
            "ctx_tokens": tokens,
            "batch": sequences,
            "method": method,
            "utilization": c.fraction(utilization, "utilization"),
            "prompt_tokens": estimate.inputs["prompt_tokens"],
            "cached_tokens": known,
            "output_tokens": estimate.inputs["output_tokens"],
            "usd_per_device_hour": plan.usd_per_device_hour,
            "owned": ownership is not None,
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
    app.command("cost", epilog=EXAMPLES)(c.estimating(cost))
