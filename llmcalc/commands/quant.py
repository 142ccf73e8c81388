"""`llmcalc quant`: what number formats for weights and cache buy on a device."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from llmcalc import formats
from llmcalc.architecture import Model
from llmcalc.commands import common as c
from llmcalc.commands import options as o
from llmcalc.errors import UsageError
from llmcalc.estimate import memory
from llmcalc.estimate import quant as estimator
from llmcalc.formats import Format
from llmcalc.plan import Deployment, Workload
from llmcalc.present import Report, columns, facts

EXAMPLES = """
Examples:

  llmcalc quant -m meta-llama/Meta-Llama-3-8B -d h100-sxm -c 8k -b 32

  llmcalc quant -m Qwen/Qwen3-32B -d a100-80-sxm --weights bf16,int8,awq --kv-dtype bf16,fp8

  llmcalc quant -m openai/gpt-oss-20b -d rtx-4090 --weights auto
"""


class Formats(o.Group):
    """On which devices, and which formats are compared."""

    hardware = o.Placement.hardware
    weights = o.Placement.weights.but(default=None, metavar="A,B", help="Weight formats. [default: as it ships, 16, 8, 4 bits]")
    kv_dtype = o.Placement.kv_dtype.but(default=None, metavar="A,B", help="KV formats. [default: 16 bits, fp8, int8, int4]")
    tp = o.Placement.tp
    pp = o.Placement.pp
    ep = o.Placement.ep


def quant(which: o.ModelChoice, place: Formats, work: o.Work, by: o.Deciding, money: o.Money, run: o.Running, out: o.Output) -> None:
    """Weight formats × KV formats: size, batch, step time, cost, and which of the two to quantise first."""
    found = c.chosen(which)
    tokens, assumed = c.held(found, work, at_most=c.DEFAULT_CTX)
    sequences, method = work.batch, by.method
    plain = memory.compute_format(found)[0].name
    layout = o.Layout(weights=plain, kv_dtype=plain, tp=place.tp, pp=place.pp, ep=place.ep)
    plan = c.laid_out(found, place.hardware, layout, run, money)
    chosen, caches = _weights(found, plan, place.weights), _caches(found, place.kv_dtype)
    estimate = estimator.quant(found, plan, Workload(tokens, sequences), chosen, caches, method)
    r = estimate.results
    report = Report(
        command="quant",
        title=f"Number formats for {found.id} on {plan.ranks} × {plan.device.id}",
        model=c.model_header(found),
        hardware=c.hardware_header(plan),
        inputs={
            "ctx_tokens": tokens,
            **c.image_inputs(found, work.image),
            "batch": sequences,
            "method": method,
            **c.plan_inputs(plan),
            "weights": [fmt.name for fmt in chosen],
            "kv_dtype": [fmt.name for fmt in caches],
        },
        header=(c.model_line(found), f"{plan.ranks} × {plan.device.name} · ctx {tokens:,} tokens · batch {sequences:,} · {method}"),
        remarks=(r.words, "quality is not modelled: the figures are bytes and time"),
        facts=facts(r, crossover_batch=f"at {tokens:,} tokens; weights first below", fastest=f"at batch {sequences:,}, of what fits"),
        columns=columns(
            estimator.Pair,
            napkin_tpot_s=method == "expected",
            expected_tpot_s=method != "expected",
            expected_tpot_high_s=method == "expected",
            weight_bytes_per_device=plan.ranks > 1,
            kv_bytes_per_sequence_per_device=plan.ranks > 1,
        ),
        rows=estimate.rows,
        assumptions=(*assumed, *c.variant(plan), *estimate.assumptions),
        warnings=estimate.warnings,
        figures=estimate.figures,
        verdict=r.fits is not False,
        rows_first=True,
        brief=_unlike(estimate.rows) if place.weights is None and place.kv_dtype is None else (),
        scan=True,
        absent=(
            ("usd_per_million_output_tokens_at_max_batch", "null where no sequence fits or no price is recorded"),
            ("", "null where no sequence fits or the size of the memory is not known"),
        ),
    )
    c.say(report, out)


def _unlike(rows: Sequence[estimator.Pair]) -> tuple[int, ...]:
    """The pairs without those that are as large and as fast as one before."""
    first: dict[tuple[float, ...], int] = {}
    for index, row in enumerate(rows):
        first.setdefault((row.weight_bytes, row.kv_bytes_per_sequence, row.step_time_s), index)
    return tuple(first.values()) if len(first) < len(rows) else ()


def _words(text: str, name: str) -> list[str]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words or len(words) > 64:
        raise UsageError("bad-value", f"{name} {text[:40]!r} is no list of formats", f"write it like --{name} bf16,fp8")
    return list(dict.fromkeys(words))


def _weights(model: Model, plan: Deployment, text: str | None) -> list[Format]:
    if text is None:
        return estimator.default_weights(model, plan.device, plan.engine)
    return [memory.weight_format(model, word, plan.engine)[0] for word in _words(text, "weights")]


def _caches(model: Model, text: str | None) -> list[Format]:
    if text is None:
        return estimator.default_caches(model)
    return [
        memory.kv_format(model, word)[0] if word.lower() == "auto" else formats.find(word, kv=True) for word in _words(text, "kv-dtype")
    ]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("quant", epilog=EXAMPLES)(o.command(quant))
