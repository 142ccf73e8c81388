"""`llmcalc quant`: what number formats for weights and cache buy on a device."""

from __future__ import annotations

import typer

from llmcalc import formats
from llmcalc.architecture import Model
from llmcalc.commands import common as c
from llmcalc.commands import options as o
from llmcalc.errors import UsageError
from llmcalc.estimate import memory
from llmcalc.estimate import quant as estimator
from llmcalc.formats import Format
from llmcalc.hardware import Device
from llmcalc.plan import Workload
from llmcalc.present import Column, Fact, Report

EXAMPLES = """
Examples:

  llmcalc quant -m meta-llama/Meta-Llama-3-8B -d h100-sxm -c 8k -b 32

  llmcalc quant -m Qwen/Qwen3-32B -d a100-80-sxm --weights bf16,int8,awq --kv-dtype bf16,fp8

  llmcalc quant -m openai/gpt-oss-20b -d rtx-4090 --weights auto
"""
HIDDEN = (
    ("fits", ""),
    ("kv_bytes_per_sequence", "B"),
    ("step_time_at_max_batch_s", "s"),
    ("usd_per_million_output_tokens_at_max_batch", "usd"),
)
COLUMNS = (
    Column("weights", "weights"),
    Column("kv_dtype", "KV"),
    Column("bits_per_weight", "bits", rank=5),
    Column("weight_bytes", "size", "B", rank=2),
    Column("max_batch", "max B", "tokens"),
    Column("step_time_s", "step", "s"),
    Column("speedup", "faster"),
    Column("tokens_per_s", "tok/s", "tokens/s", rank=1),
    Column("tokens_per_s_at_max_batch", "full tok/s", "tokens/s", rank=6),
    Column("critical_batch", "B*", rank=4),
    *(Column(key, key, unit, shown=False) for key, unit in HIDDEN),
    Column("usd_per_million_output_tokens", "$/1M", "usd", rank=3),
    Column("math", "math", rank=1),
    Column("native", "native", rank=7),
)


class Formats(o.Group):
    """On which devices, and which formats are compared."""

    hardware = o.Placement.hardware
    weights = o.Placement.weights.but(default=None, metavar="A,B", help="Weight formats. [default: as it ships, 16, 8, 4 bits]")
    kv_dtype = o.Placement.kv_dtype.but(default=None, metavar="A,B", help="KV formats. [default: 16 bits, fp8, int8, int4]")
    tp = o.Placement.tp
    pp = o.Placement.pp
    ep = o.Placement.ep


def quant(which: o.ModelChoice, place: Formats, work: o.Work, by: o.Reading, money: o.Money, run: o.Running, out: o.Output) -> None:
    """Weight formats × KV formats: size, batch, step time, cost, and which of the two to quantise first."""
    found = c.chosen(which)
    tokens, assumed = c.context(found, work.ctx, at_most=c.DEFAULT_CTX)
    sequences, method = work.batch, by.method
    plain = memory.compute_format(found)[0].name
    layout = o.Layout(weights=plain, kv_dtype=plain, tp=place.tp, pp=place.pp, ep=place.ep)
    plan = c.laid_out(found, place.hardware, layout, run, money)
    chosen, caches = _weights(found, plan.device, place.weights), _caches(found, place.kv_dtype)
    estimate = estimator.quant(found, plan, Workload(tokens, sequences), chosen, caches, method)
    r = estimate.results
    facts = (
        Fact("quantise_first", "quantise first", r["quantise_first"], note="saves more of this step"),
        Fact("crossover_batch", "cache first from batch", r["crossover_batch"], note=f"at {tokens:,} tokens; weights first below"),
        Fact("fastest", "fastest step", _pair(r["fastest"]), note=f"at batch {sequences:,}, of what fits"),
        Fact("most_tokens_per_s", "most tokens/s", _pair(r["most_tokens_per_s"]), note="with the memory full"),
        *(Fact(key, key, r[key], "s", shown=False) for key in ("saved_by_weights_s", "saved_by_kv_s", "baseline_step_time_s")),
        Fact("fits", "fits", r["fits"], shown=False),
    )
    report = Report(
        command="quant",
        title=f"Number formats for {found.id} on {plan.ranks} × {plan.device.id}",
        model=c.model_header(found),
        hardware=c.hardware_header(plan),
        inputs={
            "ctx_tokens": tokens,
            "batch": sequences,
            "method": method,
            **c.plan_inputs(plan),
            "weights": [fmt.name for fmt in chosen],
            "kv_dtype": [fmt.name for fmt in caches],
        },
        header=(c.model_line(found), f"{plan.ranks} × {plan.device.name} · ctx {tokens:,} tokens · batch {sequences:,} · {method}"),
        remarks=(estimator.words(r), "quality is not modelled: the figures are bytes and time"),
        facts=facts,
        columns=COLUMNS,
        rows=estimate.rows,
        assumptions=(*assumed, *c.variant(plan), *estimate.assumptions),
        warnings=estimate.warnings,
        figures=estimate.figures,
        verdict=r["fits"] is not False,
        rows_first=True,
        absent=(
            ("usd_per_million_output_tokens_at_max_batch", "null where no sequence fits or no price is recorded"),
            ("", "null where no sequence fits or the size of the memory is not known"),
        ),
    )
    c.say(report, out)


def _pair(row: dict[str, str] | None) -> str | None:
    return None if row is None else f"{row['weights']} · {row['kv_dtype']} KV"


def _words(text: str, name: str) -> list[str]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words or len(words) > 64:
        raise UsageError("bad-value", f"{name} {text[:40]!r} is no list of formats", f"write it like --{name} bf16,fp8")
    return list(dict.fromkeys(words))


def _weights(model: Model, device: Device, text: str | None) -> list[Format]:
    if text is None:
        return estimator.default_weights(model, device)
    return [memory.weight_format(model, word)[0] for word in _words(text, "weights")]


def _caches(model: Model, text: str | None) -> list[Format]:
    if text is None:
        return estimator.default_caches(model)
    return [
        memory.kv_format(model, word)[0] if word.lower() == "auto" else formats.find(word, kv=True) for word in _words(text, "kv-dtype")
    ]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("quant", epilog=EXAMPLES)(o.command(quant))
