"""`llmcalc compare`: one model on many devices, or many models on one, side by side."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from llmcalc import engines, units
from llmcalc.commands import common as c
from llmcalc.commands import space as s
from llmcalc.errors import LlmcalcError, UsageError, printable
from llmcalc.present import Column, Fact, Report

EXAMPLES = """
Examples:

  llmcalc compare -m Qwen/Qwen3-8B -d h100-sxm,h200-sxm,a100-80-sxm,'2x rtx-4090' --batch max

  llmcalc compare -m meta-llama/Llama-3.1-70B-Instruct -d vendor=amd --tp all --max-tpot 50ms --sort cost

  llmcalc compare -m Qwen/Qwen3-8B,google/gemma-3-12b-it -d h100-sxm --batch 16

  llmcalc compare -m all -d all --max-tpot 50ms -f csv
"""

COLUMNS = (
    Column("model", "model"),
    Column("hardware", "device"),
    Column("count", "count", rank=2),
    Column("fits", "fits", shown=False),
    Column("max_batch", "max batch", "tokens", rank=6),
    Column("batch", "batch", "tokens", rank=1),
    Column("tpot_s", "TPOT", "s"),
    Column("tokens_per_s_per_user", "tok/s/user", "tokens/s", rank=7),
    Column("tokens_per_s", "tok/s", "tokens/s", rank=4, bar=True),
    Column("ttft_s", "TTFT", "s", rank=9),
    Column("usd_per_million_output_tokens", "$/1M out", "usd"),
    Column("tokens_per_s_per_usd_hour", "tok/s per $/h", "tokens/s", rank=8, bar=True),
    Column("bound", "bound", shown=False),
    Column("usd_per_hour", "$/h", "usd/h", rank=5),
    Column("price_date", "priced", rank=5),
    Column("why", "limited by", rank=3),
    Column("lacks_bytes", "lacks", "B", shown=False),
    Column("ctx_tokens", "ctx", shown=False),
    Column("weights", "weights", shown=False),
    Column("kv_dtype", "KV", shown=False),
)
SORTS = {
    "cost": ("usd_per_million_output_tokens", 1),
    "tpot": ("tpot_s", 1),
    "ttft": ("ttft_s", 1),
    "speed": ("tokens_per_s_per_user", -1),
    "throughput": ("tokens_per_s", -1),
    "value": ("tokens_per_s_per_usd_hour", -1),
    "batch": ("max_batch", -1),
    "price": ("usd_per_hour", 1),
    "name": ("hardware", 1),
}


def compare(
    model: Annotated[str, typer.Option("--model", "-m", metavar="MODELS", help="Models between commas, or all (the bundled ones).")],
    hardware: s.DevicesOption,
    ctx: c.CtxOption = None,
    batch: Annotated[
        str | None, typer.Option("--batch", "-b", metavar="N", help="Sequences, or max: as many as fit. [default: 1; with --max-tpot, the most within it]")
    ] = None,
    weights: c.WeightsOption = "auto",
    kv_dtype: c.KvOption = "auto",
    tp: Annotated[
        str | None, typer.Option("--tp", metavar="N,...", help="Tensor parallel ranks; of several (or all), the fewest that hold the model. [default: 1, or N of 'Nx device']")
    ] = None,
    max_tpot: s.MaxTpotOption = None,
    sort: Annotated[str | None, typer.Option("--sort", metavar="KEY", help=f"{', '.join(SORTS)}, or a column's key. [default: cost]")] = None,
    prompt: c.PromptOption = None,
    price: c.PriceOption = None,
    method: c.MethodOption = "napkin",
    reserve: c.ReserveOption = "0",
    engine: c.EngineOption = "napkin",
    memory_utilization: c.UtilizationOption = None,
    revision: c.RevisionOption = None,
    offline: c.OfflineOption = False,
    refresh: c.RefreshOption = False,
    format: c.FormatOption = "table",
    json: c.JsonOption = False,
    output: c.OutputOption = None,
    check: c.CheckOption = False,
) -> None:
    """Devices side by side: speed, cost, what limits each, and what those lack that do not fit."""
    from llmcalc import search, sources

    names = sources.bundled_ids() if model.strip().lower() == "all" else s.words(model)
    if not names:
        raise UsageError("bad-value", "no model is named", "give one with --model")
    limit = s.limit(max_tpot, "max-tpot")
    fixed = None if batch is None and limit is not None else None if (batch or "").lower() == "max" else c.whole_number(batch or "1", "batch")
    most = (batch or "").lower() == "max"
    key, sign = _order(sort)
    devices = s.devices(hardware)
    rows: list[dict[str, Any]] = []
    warnings: list[str] = []
    assumed: dict[str, None] = {}
    one_model = None
    progress = s.Progress()
    for number, name in enumerate(names):
        try:
            found = c.load(name, revision=revision, offline=offline, refresh=refresh)
            tokens, said = c.context(found, ctx, at_most=c.DEFAULT_CTX)
            chosen = s.candidates(found, devices, tp, price)
            if len(names) == 1:
                s.check_ranks(found, chosen)
                one_model = found
                warnings += found.notes
            space = search.Space(
                found,
                chosen,
                s.weight_formats(found, weights),
                s.kv_formats(found, kv_dtype),
                tokens,
                units.tokens(prompt, "prompt") if prompt is not None else tokens,
                method,
                engines.find(engine),
                units.quantity(reserve, "bytes"),
                None if memory_utilization is None else c.fraction(memory_utilization, "memory-utilization"),
            )
            if len(space.weights) != 1 or len(space.kvs) != 1:
                raise UsageError("bad-value", "compare takes one weight format and one KV format", "`llmcalc pareto` searches several")
            compared = search.compare(space, fixed, None if most and limit is None else limit)
        except LlmcalcError as problem:
            if len(names) == 1 or isinstance(problem, UsageError) and model.strip().lower() != "all":
                raise
            warnings.append(f"{name}: {problem.message}")
            continue
        assumed |= dict.fromkeys(said)
        beside = {"model": found.id, "ctx_tokens": tokens, "weights": space.weights[0].name, "kv_dtype": space.kvs[0].name}
        rows += [{**beside, **row} for row in compared]
        progress(number + 1, len(names), len(rows))
    progress.close()
    rows.sort(key=lambda row: _rank(row, key, sign))
    unpriced = sorted({row["hardware"] for row in rows if row["usd_per_hour"] is None})
    if unpriced:
        warnings.append(f"{len(unpriced)} devices have no recorded price: {', '.join(unpriced[:4])}{', …' if len(unpriced) > 4 else ''}; --price gives one")
    if rows and not any(row["fits"] for row in rows):
        warnings.append("nothing fits: the last column says what is lacking")
    elif limit is not None and not any(row["fits"] and (row["tpot_s"] or limit) <= limit for row in rows):
        fastest = min((row for row in rows if row["fits"]), key=lambda row: row["tpot_s"])
        warnings.append(
            f"nothing has a TPOT of {units.seconds(limit)} or less: {fastest['hardware']} comes closest with {units.seconds(fastest['tpot_s'])}, "
            f"{units.seconds(fastest['tpot_s'] - limit)} over"
        )
    how = f"batch {fixed:,}" if fixed is not None else "the most that fit" if limit is None or most else f"the most with TPOT ≤ {units.seconds(limit)}"
    report = Report(
        command="compare",
        title=f"{one_model.id if one_model else f'{len(names)} models'} on {len(devices)} device{'s' * (len(devices) != 1)}",
        model=c.model_header(one_model) if one_model else None,
        inputs={
            "models": [one_model.id] if one_model else names,
            "hardware": [device.id for _, device in devices],
            "ctx_tokens": rows[0]["ctx_tokens"] if one_model and rows else ctx,
            "batch": fixed,
            "weights": rows[0]["weights"] if one_model and rows else weights,
            "kv_dtype": rows[0]["kv_dtype"] if one_model and rows else kv_dtype,
            "max_tpot_s": limit,
            "method": method,
            "engine": engine,
            "sort": key,
        },
        header=(
            *((c.model_line(one_model),) if one_model else ()),
            " · ".join(
                [*([f"ctx {rows[0]['ctx_tokens']:,} tokens", f"weights {rows[0]['weights']}", f"KV {rows[0]['kv_dtype']}"] if one_model and rows else []), how, method]
            ),
        ),
        facts=(
            Fact("rows", "rows", len(rows), shown=False),
            Fact("fitting", "fitting", sum(bool(row["fits"]) for row in rows), shown=False),
        ),
        columns=COLUMNS if len(names) > 1 else COLUMNS[1:],
        rows=tuple(rows),
        assumptions=(
            *assumed,
            *(("batch 1: not given (--batch N, --batch max, or --max-tpot)",) if batch is None and limit is None else ()),
            f"price {units.usd(units.quantity(price, 'usd/h'))} per device-hour, as given" if price is not None else "prices: the median of each profile's, on demand before rental, spot and ownership; `hardware show` lists them",
            f"method {method}: ideal rates, so an engine takes longer and costs more; always busy",
        ),
        warnings=tuple(warnings),
        verdict=bool(rows) and any(row["fits"] and (limit is None or (row["tpot_s"] is not None and row["tpot_s"] <= limit)) for row in rows),
        rows_first=True,
    )
    c.emit(report, format=format, json=json, output=output, explain=False, check=check)


def _order(sort: str | None) -> tuple[str, int]:
    """(key, 1 for ascending) of a sort word. Errors: bad-value."""
    word = sort or "cost"
    if word in SORTS:
        return SORTS[word]
    by_key = dict(SORTS.values())
    known = {column.key for column in COLUMNS}
    if word not in known:
        raise UsageError("bad-value", f"{printable(word, 40)!r} is not a column to sort by", f"use one of {', '.join(SORTS)}, or a column's key")
    return word, by_key.get(word, 1)


def _rank(row: dict[str, Any], key: str, sign: int) -> tuple[Any, ...]:
    """What fits first, then what has a value, then by it; ties by throughput and name."""
    value = row.get(key)
    ordered: Any = 0 if value is None else value if isinstance(value, str) else sign * value
    return (row["fits"] is not True, value is None, str(ordered) if isinstance(ordered, str) else ordered, -(row["tokens_per_s"] or 0), row["hardware"], row["count"])


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("compare", epilog=EXAMPLES)(compare)
