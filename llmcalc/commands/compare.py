"""`llmcalc compare`: one model on many devices, or many models on one, side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import typer

from llmcalc import quality, units
from llmcalc.architecture import Model
from llmcalc.commands import common as c
from llmcalc.commands import completion, parse
from llmcalc.commands import options as o
from llmcalc.commands import space as s
from llmcalc.commands.purse import Purse, purse
from llmcalc.errors import LlmcalcError, UsageError, printable
from llmcalc.estimate import summaries
from llmcalc.figures import Figure
from llmcalc.present import Column, Fact, Picture, Report

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
    *s.READINGS,
    Column("holds_at_high", "holds at the slow end", shown=False),
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
MOST_ROWS = 200
"""That a terminal shows: of 80,000, laying them out took longer than finding them."""
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


class Models(o.ModelChoice):
    """The models side by side."""

    model = o.ModelChoice.model.but(metavar="MODELS", help="Models between commas, or all (the bundled ones).")


class Racks(s.Racks):
    """The devices side by side, each with one format of weights and one of the cache."""

    weights = o.Layout.weights
    kv_dtype = o.Layout.kv_dtype
    tp = s.Racks.tp.but(default=None, help="Tensor parallel ranks; of several (or all), the fewest that hold the model. [default: 1]")


class Compared(o.Group):
    """At which context and batch, within which limit, in which order."""

    section = "Workload"
    ctx = o.Work.ctx
    batch = o.option(
        None, "--batch", "-b", metavar="N", help="Sequences, or max: all that fit. [default: 1; with --max-tpot, all within it]"
    )
    max_tpot = o.Limits.max_tpot.but(default=None, help="Longest time per output token, such as 50ms.")
    sort = o.option(
        None,
        "--sort",
        autocompletion=completion.of(*SORTS),
        metavar="KEY",
        help=f"{', '.join(SORTS)}, or a column's key. [default: cost; of all models, rating]",
    )
    least = o.option(None, "--min-params", metavar="PARAMS", read=parse.params, help="Of all models, those with at least so many: 20B.")
    kind = o.option(
        None,
        "--kind",
        autocompletion=completion.of(*summaries.KINDS),
        metavar="KIND",
        read=parse.choice(*summaries.KINDS),
        help="Of all models: moe, dense or hybrid.",
    )
    prompt = o.Request.prompt


def compare(which: Models, place: Racks, work: Compared, money: o.Money, by: o.Deciding, run: o.Running, out: o.Output) -> None:
    """Devices side by side: speed, cost, what limits each, and what those lack that do not fit."""
    from llmcalc import search

    place.check("compare")
    model, weights, kv_dtype = which.model, place.weights, place.kv_dtype
    batch, limit, method = work.batch, work.max_tpot, by.method
    everything = model.strip().lower() == "all"
    names = [*_bundled(work)] if everything else s.words(model)
    if not names:
        nothing = "no bundled model is so large and of that kind" if everything else "no model is named"
        raise UsageError("bad-value", nothing, "give one with --model")
    if "," in weights + kv_dtype:
        raise UsageError("bad-value", "compare takes one weight format and one KV format", "`llmcalc pareto` searches several")
    largest = batch is None if limit is not None else (batch or "1").lower() == "max"
    fixed = None if largest or (batch or "").lower() == "max" else parse.whole_number(batch or "1", "batch")
    rates = everything and work.sort in (None, "rating")
    key, sign = _order("cost" if rates else work.sort or "cost")
    devices = s.devices(place.hardware)
    rows: list[dict[str, Any]] = []
    warnings: list[str] = []
    assumed: dict[str, None] = {}
    loaded: list[Model] = []
    lacking: dict[str, None] = {}
    progress = s.Progress()
    owned = purse(money, (device for _, device in devices))
    for number, name in enumerate(names):
        try:
            found = c.load(name, revision=which.revision, offline=which.offline, refresh=which.refresh)
            tokens, said = c.context(found, work.ctx, at_most=c.DEFAULT_CTX)
            chosen = s.candidates(found, devices, place.tp, owned)
            if len(names) == 1:
                s.check_ranks(found, chosen)
            space = s.space(found, chosen, tokens, place, work.prompt, method, run)
            compared = search.compare(space, fixed, limit)
        except LlmcalcError as problem:
            if not everything:
                raise
            warnings.append(f"{name}: {problem.message}")
            continue
        loaded.append(found)
        warnings += s.beyond(found, tokens)
        assumed |= dict.fromkeys(said)
        beside = {"model": found.id, "ctx_tokens": tokens, "weights": space.weights[0].name, "kv_dtype": space.kvs[0].name}
        rows += [{**beside, **row} for row in compared]
        lacking |= dict.fromkeys(search.unmeasured(space, chosen))
        progress(number + 1, len(names), len(rows))
    progress.close()
    rows.sort(key=lambda row: (_unrated(row) if rates else 0, *_rank(row, key, sign)))
    only = loaded[0] if len(names) == 1 else None
    figures: dict[str, Figure] = {}
    if out.explain and only and rows and rows[0]["fits"]:
        best = next(one for one in chosen if one.device.id == rows[0]["hardware"] and rows[0]["count"] in one.counts)
        plan = search.deployment(space, best.device, space.weights[0], space.kvs[0], rows[0]["count"])
        worked = search.point(space, plan, best.usd_per_hour, rows[0]["batch"])
        figures = {key: worked[key] for key in ("tpot_s", "usd_per_million_output_tokens") if key in worked}
    shared = (
        {key: rows[0][key] for key in ("ctx_tokens", "weights", "kv_dtype")}
        if only
        else {"ctx_tokens": None, "weights": weights, "kv_dtype": kv_dtype}
    )
    if fixed is not None:
        how = f"batch {fixed:,}"
    else:
        how = "the most that fit" if limit is None else f"the most with TPOT ≤ {units.seconds(limit)}"
    formats = [f"ctx {shared['ctx_tokens']:,} tokens", f"weights {shared['weights']}", f"KV {shared['kv_dtype']}"] if only else []
    report = Report(
        command="compare",
        title=f"{only.id if only else f'{len(names)} models'} on {c.counted(len(devices), 'device')}",
        model=c.model_header(only) if only else None,
        inputs={
            "models": [found.id for found in loaded],
            "hardware": [device.id for _, device in devices],
            **shared,
            "batch": fixed,
            "max_tpot_s": limit,
            "method": method,
            "engine": run.engine,
            "sort": "rating" if rates else key,
        },
        header=(*((c.model_line(only),) if only else ()), " · ".join([*formats, how, method])),
        facts=(
            Fact("compared", "compared", len(rows), shown=False),
            Fact("fitting", "fitting", sum(bool(row["fits"]) for row in rows), shown=False),
        ),
        columns=s.of_method(COLUMNS[1:] if only else COLUMNS, method),
        rows=tuple(rows),
        brief=tuple(range(MOST_ROWS)) if len(rows) > MOST_ROWS else (),
        picture=Picture(
            "tokens_per_s",
            "tok/s",
            "tokens/s",
            ((("count", ""), ("hardware", "× "), ("model", "")) if not only else (("count", ""), ("hardware", "× "))),
        ),
        assumptions=(
            *c.variants(device for _, device in devices),
            *_assumptions(assumed, batch, limit, owned, method),
            *s.unmeasured(lacking),
        ),
        warnings=(*warnings, *_warnings(rows, limit), *(only.notes if only else ())),
        figures=figures,
        verdict=any(row["fits"] and _within(row, limit) for row in rows),
        rows_first=True,
        absent=(
            ("lacks_bytes", "null where the device holds it"),
            ("holds_at_high", "null without a limit, or without a range to have an end"),
            (
                "usd_per_hour price_date tokens_per_s_per_usd_hour usd_per_million_output_tokens expected_usd_per_million_output_tokens "
                "napkin_usd_per_million_output_tokens",
                "null where no price is recorded or `why` says what is lacking",
            ),
            ("", "null where `why` says what is lacking"),
        ),
    )
    c.say(report, out)


def _within(row: dict[str, Any], limit: float | None) -> bool:
    return limit is None or (row["tpot_s"] is not None and row["tpot_s"] <= limit)


def _assumptions(assumed: Iterable[str], batch: str | None, limit: float | None, owned: Purse, method: str) -> Iterator[str]:
    yield from assumed
    if batch is None and limit is None:
        yield "batch 1: not given (--batch N, --batch max, or --max-tpot)"
    if owned.usd is not None:
        yield f"price {units.usd(owned.usd)} per device-hour, as given{owned.words}"
    else:
        yield f"prices: the median of each profile's {owned.kind or 'first kind'} ones; --price-kind takes others{owned.words}"
    yield s.method_words(method)


def _warnings(rows: list[dict[str, Any]], limit: float | None) -> Iterator[str]:
    unpriced = sorted({row["hardware"] for row in rows if row["usd_per_hour"] is None})
    if unpriced:
        few = ", ".join(unpriced[:4]) + (", …" if len(unpriced) > 4 else "")
        yield f"no price is recorded for {c.counted(len(unpriced), 'device')}: {few}; --price gives one"
    if any(row["usd_per_hour"] == 0 for row in rows):
        yield "tokens_per_s_per_usd_hour: the price is 0"
    fitting = [row for row in rows if row["fits"]]
    if not fitting:
        yield "nothing fits: `why` says what is lacking"
    elif limit is not None and not any(_within(row, limit) for row in fitting):
        first = min(fitting, key=lambda row: float(row["tpot_s"]))
        reached, over = units.seconds(first["tpot_s"]), units.seconds(first["tpot_s"] - limit)
        yield f"nothing has a TPOT of {units.seconds(limit)} or less: {first['hardware']} comes closest with {reached}, {over} over"


def _order(word: str) -> tuple[str, int]:
    """(key, 1 for ascending) of a sort word. Errors: bad-value."""
    if word in SORTS:
        return SORTS[word]
    if word not in {column.key for column in COLUMNS}:
        hint = f"use one of {', '.join(SORTS)}, or a column's key"
        raise UsageError("bad-value", f"{printable(word, 40)!r} is not a column to sort by", hint)
    return word, dict(SORTS.values()).get(word, 1)


def _bundled(work: Compared) -> Iterator[str]:
    """The bundled models that are wanted."""
    from llmcalc import sources

    for name in sources.bundled_ids():
        wanted = summaries.of(name) if work.least or work.kind else None
        if wanted is None or (wanted.params >= (work.least or 0) and (work.kind is None or work.kind in wanted.kinds)):
            yield name


def _unrated(row: dict[str, Any]) -> tuple[bool, float]:
    """Models that fit in the order of their ratings: what people run stands above what is merely small."""
    rated = quality.rating(row["model"])
    return row["fits"] is not True, -rated.score if rated else 0.0


def _rank(row: dict[str, Any], key: str, sign: int) -> tuple[Any, ...]:
    """What fits first, then what has a value, then by it; ties by throughput and name."""
    value = row.get(key)
    ordered = "" if value is None else value if isinstance(value, str) else sign * value
    fits, known = row["fits"] is True, value is not None
    return (not fits, not known, ordered, -(row["tokens_per_s"] or 0), row["hardware"], row["count"])


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("compare", epilog=EXAMPLES)(o.command(compare))
