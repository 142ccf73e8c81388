"""`llmcalc compare`: one model on many devices, or many models on one, side by side."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from llmcalc import quality, units
from llmcalc.answers import words
from llmcalc.architecture import Model
from llmcalc.commands import common as c
from llmcalc.commands import completion, parse
from llmcalc.commands import options as o
from llmcalc.commands import space as s
from llmcalc.commands.purse import Purse, purse
from llmcalc.errors import LlmcalcError, UsageError, printable
from llmcalc.estimate import summaries
from llmcalc.figures import Figure
from llmcalc.hardware import Device
from llmcalc.points import Compared, Comparison
from llmcalc.present import Picture, Report, columns, facts

if TYPE_CHECKING:
    from llmcalc.search import Space

EXAMPLES = """
Examples:

  llmcalc compare -m Qwen/Qwen3-8B -d h100-sxm,h200-sxm,a100-80-sxm,'2x rtx-4090' --batch max

  llmcalc compare -m meta-llama/Llama-3.1-70B-Instruct -d vendor=amd --tp all --max-tpot 50ms --sort cost

  llmcalc compare -m Qwen/Qwen3-8B,google/gemma-3-12b-it -d h100-sxm --batch 16

  llmcalc compare -m all -d all --max-tpot 50ms -f csv
"""

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
ABSENT_KEYS = (
    ("lacks_bytes", "null where the device holds it"),
    ("holds_at_high", "null without a limit, or without a range to have an end"),
    (
        "usd_per_hour price_date tokens_per_s_per_usd_hour usd_per_million_output_tokens expected_usd_per_million_output_tokens "
        "napkin_usd_per_million_output_tokens",
        "null where no price is recorded or `why` says what is lacking",
    ),
    ("", "null where `why` says what is lacking"),
)


class Models(o.ModelChoice):
    """The models side by side."""

    model = o.ModelChoice.model.but(metavar="MODELS", help="Models between commas, or all (the bundled ones).")


class Racks(s.Racks):
    """The devices side by side, each with one format of weights and one of the cache."""

    weights = o.Layout.weights
    kv_dtype = o.Layout.kv_dtype
    tp = s.Racks.tp.but(default=None, help="Tensor parallel ranks; of several (or all), the fewest that hold the model. [default: 1]")


class Compares(o.Group):
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


@dataclass(frozen=True, slots=True)
class Asked:
    """What the options ask for."""

    names: list[str]
    everything: bool
    """All bundled models, of which those are passed over that cannot be estimated."""
    batch: int | None
    limit: float | None
    key: str
    sign: int
    """1: the least of `key` first."""
    rated: bool
    """By rating before that."""
    owned: Purse


@dataclass(slots=True)
class Tables:
    """What was found, model by model."""

    loaded: list[Model] = dataclasses.field(default_factory=list)
    rows: list[Compared] = dataclasses.field(default_factory=list)
    warnings: list[str] = dataclasses.field(default_factory=list)
    assumed: dict[str, None] = dataclasses.field(default_factory=dict)
    lacking: dict[str, None] = dataclasses.field(default_factory=dict)
    space: Space | None = None
    """The last one."""


def compare(which: Models, place: Racks, work: Compares, money: o.Money, by: o.Deciding, run: o.Running, out: o.Output) -> None:
    """Devices side by side: speed, cost, what limits each, and what those lack that do not fit."""
    place.check("compare")
    devices = s.devices(place.hardware)
    asked = _asked(which, place, work, purse(money, (device for _, device in devices)))
    found = _tables(asked, which, place, work, devices, by, run)
    rows, limit, owned, method = found.rows, asked.limit, asked.owned, by.method
    only = found.loaded[0] if len(asked.names) == 1 else None
    shared = {"ctx_tokens": None, "weights": place.weights, "kv_dtype": place.kv_dtype}
    shared = {key: rows[0][key] for key in shared} if only else shared
    if asked.batch is not None:
        how = f"batch {asked.batch:,}"
    else:
        how = "the most that fit" if limit is None else f"the most with TPOT ≤ {units.seconds(limit)}"
    formats = [f"ctx {shared['ctx_tokens']:,} tokens", f"weights {shared['weights']}", f"KV {shared['kv_dtype']}"] if only else []
    report = Report(
        command="compare",
        title=f"{only.id if only else f'{len(asked.names)} models'} on {c.counted(len(devices), 'device')}",
        model=c.model_header(only) if only else None,
        inputs={
            "models": [one.id for one in found.loaded],
            "hardware": [device.id for _, device in devices],
            **shared,
            "batch": asked.batch,
            "max_tpot_s": limit,
            "method": method,
            "engine": run.engine,
            "sort": "rating" if asked.rated else asked.key,
        },
        header=(*((c.model_line(only),) if only else ()), " · ".join([*formats, how, method])),
        facts=facts(Comparison(compared=len(rows), fitting=sum(row.fits is True for row in rows))),
        columns=columns(Compared, **s.repeated(method))[1 if only else 0 :],
        rows=tuple(rows),
        brief=tuple(range(MOST_ROWS)) if len(rows) > MOST_ROWS else (),
        picture=Picture("tokens_per_s", "tok/s", "tokens/s", (("count", ""), ("hardware", "× "), *(() if only else (("model", ""),)))),
        assumptions=(
            *c.variants(device for _, device in devices),
            *_assumptions(found.assumed, work.batch, limit, owned, method),
            *s.unmeasured(found.lacking),
        ),
        warnings=(*found.warnings, *_warnings(rows, limit), *(only.notes if only else ())),
        figures=_worked(found) if out.explain and only else {},
        verdict=any(row.fits and _within(row, limit) for row in rows),
        rows_first=True,
        absent=ABSENT_KEYS,
    )
    c.say(report, out)


def _asked(which: Models, place: Racks, work: Compares, owned: Purse) -> Asked:
    """What is compared, and in which order. Errors: bad-value."""
    everything = which.model.strip().lower() == "all"
    names = [*_bundled(work)] if everything else s.words(which.model)
    if not names:
        nothing = "no bundled model is so large and of that kind" if everything else "no model is named"
        raise UsageError("bad-value", nothing, "give one with --model")
    if "," in place.weights + place.kv_dtype:
        raise UsageError("bad-value", "compare takes one weight format and one KV format", "`llmcalc pareto` searches several")
    batch, limit = work.batch, work.max_tpot
    largest = batch is None if limit is not None else (batch or "1").lower() == "max"
    fixed = None if largest or (batch or "").lower() == "max" else parse.whole_number(batch or "1", "batch")
    rated = everything and work.sort in (None, "rating")
    return Asked(names, everything, fixed, limit, *_order("cost" if rated else work.sort or "cost"), rated, owned)


def _tables(
    asked: Asked, which: Models, place: Racks, work: Compares, devices: list[tuple[int | None, Device]], by: o.Deciding, run: o.Running
) -> Tables:
    """Every model on every device, in order."""
    from llmcalc import search

    made, progress = Tables(), s.Progress()
    for number, name in enumerate(asked.names):
        try:
            found = c.load(name, revision=which.revision, offline=which.offline, refresh=which.refresh)
            tokens, said = c.context(found, work.ctx, at_most=c.DEFAULT_CTX)
            chosen = s.candidates(found, devices, place.tp, asked.owned)
            if len(asked.names) == 1:
                s.check_ranks(found, chosen)
            made.space = s.space(found, chosen, tokens, place, work.prompt, by.method, run)
            compared = search.compare(made.space, asked.batch, asked.limit)
        except LlmcalcError as problem:
            if not asked.everything:
                raise
            made.warnings.append(f"{name}: {problem.message}")
            continue
        made.loaded.append(found)
        made.warnings += s.beyond(found, tokens)
        made.assumed |= dict.fromkeys(said)
        made.rows += compared
        made.lacking |= dict.fromkeys(search.unmeasured(made.space, chosen))
        progress(number + 1, len(asked.names), len(made.rows))
    progress.close()
    made.rows.sort(key=lambda row: (_unrated(row) if asked.rated else 0, *_rank(row, asked.key, asked.sign)))
    return made


def _worked(found: Tables) -> dict[str, Figure]:
    """How the first row came about."""
    from llmcalc import search

    space, first = found.space, found.rows[0]
    if space is None or not first.fits:
        return {}
    best = next(one for one in space.candidates if one.device.id == first.hardware and first.count in one.counts)
    plan = search.deployment(space, best.device, space.weights[0], space.kvs[0], first.count)
    worked = search.point(space, plan, best.usd_per_hour, first.batch)
    return {key: worked[key] for key in ("tpot_s", "usd_per_million_output_tokens") if key in worked}


def _within(row: Compared, limit: float | None) -> bool:
    return limit is None or (row.tpot_s is not None and row.tpot_s <= limit)


def _assumptions(assumed: Iterable[str], batch: str | None, limit: float | None, owned: Purse, method: str) -> Iterator[str]:
    yield from assumed
    if batch is None and limit is None:
        yield "batch 1: not given (--batch N, --batch max, or --max-tpot)"
    if owned.usd is not None:
        yield f"price {units.usd(owned.usd)} per device-hour, as given{owned.words}"
    else:
        yield f"prices: the median of each profile's {owned.kind or 'first kind'} ones; --price-kind takes others{owned.words}"
    yield s.method_words(method)


def _warnings(rows: list[Compared], limit: float | None) -> Iterator[str]:
    unpriced = sorted({row.hardware for row in rows if row.usd_per_hour is None})
    if unpriced:
        few = ", ".join(unpriced[:4]) + (", …" if len(unpriced) > 4 else "")
        yield f"no price is recorded for {c.counted(len(unpriced), 'device')}: {few}; --price gives one"
    if any(row.usd_per_hour == 0 for row in rows):
        yield "tokens_per_s_per_usd_hour: the price is 0"
    fitting = [row for row in rows if row.fits]
    if not fitting:
        yield "nothing fits: `why` says what is lacking"
    elif limit is not None and not any(_within(row, limit) for row in fitting):
        least, device = min(((row.tpot_s or 0.0, row.hardware) for row in fitting), key=lambda one: one[0])
        reached, over = units.seconds(least), units.seconds(least - limit)
        yield f"nothing has a TPOT of {units.seconds(limit)} or less: {device} comes closest with {reached}, {over} over"


def _order(word: str) -> tuple[str, int]:
    """(key, 1 for ascending) of a sort word. Errors: bad-value."""
    if word in SORTS:
        return SORTS[word]
    if word not in words(Compared):
        hint = f"use one of {', '.join(SORTS)}, or a column's key"
        raise UsageError("bad-value", f"{printable(word, 40)!r} is not a column to sort by", hint)
    return word, dict(SORTS.values()).get(word, 1)


def _bundled(work: Compares) -> Iterator[str]:
    """The bundled models that are wanted."""
    from llmcalc import sources

    for name in sources.bundled_ids():
        wanted = summaries.of(name) if work.least or work.kind else None
        if wanted is None or (wanted.params >= (work.least or 0) and (work.kind is None or work.kind in wanted.kinds)):
            yield name


def _unrated(row: Compared) -> tuple[bool, float]:
    """Models that fit in the order of their ratings: what people run stands above what is merely small."""
    rated = quality.rating(str(row.model))
    return row.fits is not True, -rated.score if rated else 0.0


def _rank(row: Compared, key: str, sign: int) -> tuple[Any, ...]:
    """What fits first, then what has a value, then by it; ties by throughput and name."""
    value = row[key]
    ordered = "" if value is None else value if isinstance(value, str) else sign * value
    fits, known = row.fits is True, value is not None
    return (not fits, not known, ordered, -(row.tokens_per_s or 0), row.hardware, row.count)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("compare", epilog=EXAMPLES)(o.command(compare))
