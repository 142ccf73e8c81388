"""`llmcalc pareto`: what speed costs, over devices, numbers of them, formats and batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import typer

from llmcalc import present, units
from llmcalc.architecture import Model
from llmcalc.commands import common as c
from llmcalc.commands import completion, parse
from llmcalc.commands import options as o
from llmcalc.commands import space as s
from llmcalc.commands.purse import Purse, purse
from llmcalc.errors import UsageError, printable
from llmcalc.figures import Figure
from llmcalc.points import Front, FrontPoint, Named, Point
from llmcalc.present import Axis, Chart, Mark, Report, Series, columns, facts, shown

if TYPE_CHECKING:
    from llmcalc import search

EXAMPLES = """
Examples:

  llmcalc pareto -m meta-llama/Meta-Llama-3-8B -d h100-sxm -c 8k --price 3 --max-tpot 10ms --mark chat=20.2ms

  llmcalc pareto -m Qwen/Qwen3-32B -d 'h100-sxm,h200-sxm,mi300x' --tp all --weights all --kv-dtype all --max-tpot 50ms

  llmcalc pareto -m Qwen/Qwen3-8B -d all --weights auto,fp8 -o front.html
"""

LABELS = {
    "tpot_s": Axis("tpot_s", "time per output token", "s"),
    "tokens_per_s_per_user": Axis("tokens_per_s_per_user", "tokens/s per user", "tokens/s"),
    "usd_per_million_output_tokens": Axis("usd_per_million_output_tokens", "USD per 1M output tokens", "usd"),
    "tokens_per_s_per_device": Axis("tokens_per_s_per_device", "tokens/s per device", "tokens/s"),
    "energy_joules_per_token": Axis("energy_joules_per_token", "joules per token", "J"),
}
READABLE = 14
"""Rows of a front that a terminal shows."""
DRAWN = 160
"""Points of one device that a picture shows."""
OWN_FRONTS = 12
"""Up to so many devices, a picture shows each one's own front."""


class Searches(o.Group):
    """At which context, and what is said of the front."""

    section = "Workload"
    ctx = o.Work.ctx
    mark = o.repeated("--mark", metavar="NAME=TIME", help="Name the cheapest point with this TPOT, such as chat=50ms.")
    point = o.repeated("--point", metavar="POINT", help="Say what dominates this one: '2x h100-sxm weights=fp8 kv=fp8 batch=48'.")
    x = o.option(
        "tpot", "--x", autocompletion=completion.of("tpot", "tokens_per_s_per_user"), metavar="AXIS", help="tpot or tokens_per_s_per_user."
    )
    y = o.option(
        "usd",
        "--y",
        autocompletion=completion.of("usd", "tokens_per_s_per_device", "energy"),
        metavar="AXIS",
        help="usd, tokens_per_s_per_device or energy.",
    )
    prompt = o.Request.prompt


class Limited(o.Group):
    """What the chosen point must hold."""

    section = "Limits"
    max_tpot = o.option(None, "--max-tpot", metavar="TIME", read=s.most(), help="Longest time per output token, such as 50ms.")
    max_ttft = o.option(None, "--max-ttft", metavar="TIME", read=s.most(), help="Longest time to the first token of a prompt.")
    min_tokens_per_s = o.option(None, "--min-tokens-per-s", metavar="N", read=parse.positive, help="Least tokens/s of the whole batch.")
    budget = o.option(None, "--budget", metavar="USD", read=s.most("usd/h"), help="Most USD per hour for all devices.")


@dataclass(frozen=True, slots=True)
class Shown:
    """Whether an answer explains itself and has a picture."""

    explain: bool = False
    drawn: bool = True


def pareto(
    which: o.ModelChoice,
    place: s.Racks,
    work: Searches,
    limit: Limited,
    money: o.Money,
    by: o.Deciding,
    run: o.Running,
    out: o.Output,
) -> None:
    """The Pareto front of speed against cost, and the cheapest point within the limits."""
    drawn = present.carries(out.chosen()).chart
    c.say(reported(c.chosen(which), place, work, limit, money, by, run, Shown(out.explain, drawn)), out)


@dataclass(frozen=True, slots=True)
class Searching:
    """What is searched for, and what of it is shown."""

    space: search.Space
    x: search.Axis
    y: search.Axis
    limits: search.Limits
    marks: dict[str, float]
    """TPOT by name."""
    single: tuple[bool, bool, bool]
    """Of weight formats, of KV formats and of each device, there is one alone."""
    owned: Purse


@dataclass(frozen=True, slots=True)
class Searched:
    """What the space holds."""

    swept: search.Found
    rows: list[Point]
    best: Point | None
    marked: dict[str, Point | None]
    labelled: dict[str, Point | None]
    """The marked ones, and what was chosen where there is a limit."""


def reported(
    found: Model, place: s.Racks, work: Searches, limit: Limited, money: o.Money, by: o.Reading, run: o.Running, shown: Shown
) -> Report:
    """The answer, with its derivation and its picture where they are asked for."""
    asked, assumed = _asked(found, place, work, limit, money, by, run)
    space, limits, across, up = asked.space, asked.limits, asked.x, asked.y
    seen = _searched(asked)
    rows, best = seen.rows, seen.best
    named = tuple(_named(asked, text, rows) for text in work.point or [])
    drawn = shown.drawn and bool(rows) and all(row[axis.key] > 0 for row in rows for axis in (across, up))  # logarithmic axes
    return Report(
        command="pareto",
        title=f"{found.id}: {LABELS[up.key].label} against {LABELS[across.key].label}",
        model=c.model_header(found),
        inputs={
            "hardware": [one.device.id for one in space.candidates],
            "ctx_tokens": space.ctx,
            "prompt_tokens": space.prompt,
            "weights": [each.name for each in space.weights],
            "kv_dtype": [each.name for each in space.kvs],
            "tp": sorted({number for one in space.candidates for number in one.counts}),
            "method": space.method,
            "engine": space.engine.name,
            "max_tpot_s": limits.tpot_s,
            "max_ttft_s": limits.ttft_s,
            "min_tokens_per_s": limits.tokens_per_s,
            "max_usd_per_hour": limits.usd_per_hour,
            "x": across.key,
            "y": up.key,
        },
        header=(
            c.model_line(found),
            f"ctx {space.ctx:,} tokens · {c.counted(len(space.candidates), 'device')} · {space.method}",
            f"{seen.swept.evaluated:,} points that fit, {len(rows):,} on the front",
        ),
        facts=facts(Front(points_evaluated=seen.swept.evaluated, points_on_front=len(rows), chosen=best, marks=seen.marked, named=named)),
        columns=columns(FrontPoint, **s.repeated(space.method)),
        rows=tuple(FrontPoint(**row) for row in rows),
        assumptions=(*assumed, *c.variants(one.device for one in space.candidates), *_assumptions(asked, seen)),
        warnings=tuple(_warnings(asked, seen)),
        figures=_worked(asked, seen) if shown.explain else {},
        verdict=best is not None,
        remarks=(*_remarks(asked, seen), *(each.why for each in named)),
        rows_first=True,
        scan=True,
        brief=_brief(rows),
        chart=_chart(asked, seen, named) if drawn else None,
    )


def _asked(
    found: Model, place: s.Racks, work: Searches, limit: Limited, money: o.Money, by: o.Reading, run: o.Running
) -> tuple[Searching, tuple[str, ...]]:
    """What the options ask for, and what was assumed of it. Errors: bad-value, bad-layout, and those of reading devices and formats."""
    from llmcalc import search

    place.check("pareto")
    tokens, assumed = c.context(found, work.ctx, at_most=c.DEFAULT_CTX)
    across, up = _axis(work.x, search.X_AXES, "x"), _axis(work.y, search.Y_AXES, "y")
    limits = search.Limits(limit.max_tpot, limit.max_ttft, limit.min_tokens_per_s, limit.budget)
    marks = _marks(work.mark or [])
    devices = s.devices(place.hardware)
    owned = purse(money, (device for _, device in devices))
    chosen = s.candidates(found, devices, place.tp, owned)
    s.check_ranks(found, chosen)
    space = s.space(found, chosen, tokens, place, work.prompt, by.method, run)
    single = len(space.weights) == 1, len(space.kvs) == 1, place.tp is None and not any(one.exact for one in chosen)
    return Searching(space, across, up, limits, marks, single, owned), assumed


def _searched(asked: Searching) -> Searched:
    """The front, what is chosen of it, and which of its points have a name."""
    from llmcalc import search

    space, limits = asked.space, asked.limits
    progress = s.Progress()
    swept = search.sweep(space, asked.x, asked.y, limits, asked.marks, progress)
    progress.close()

    def held(row: Point, tpot_s: float | None) -> Point:
        return replace(row, holds_at_high=search.holds_at_high(space, row, tpot_s, limits.ttft_s))

    def at(found: search.Best, tpot_s: float | None) -> Point:
        return held(search.row(space, *search.trace(swept, found[2])), tpot_s)

    best = at(swept.chosen, limits.tpot_s) if swept.chosen else None
    marked = {name: at(swept.marks[name], limit) if name in swept.marks else None for name, limit in asked.marks.items()}
    labelled = {"chosen": best if any(limit is not None for limit in _limits(limits)) else None, **marked}
    rows = []
    for row in search.front_rows(space, swept):
        names = ", ".join(name for name, other in labelled.items() if other is not None and _same(row, other))
        rows.append(replace(held(row, limits.tpot_s), marks=names))
    return Searched(swept, rows, best, marked, labelled)


def _worked(asked: Searching, seen: Searched) -> dict[str, Figure]:
    """How the chosen point came about."""
    from llmcalc import search

    if seen.swept.chosen is None:
        return {}
    plan, one, batch = search.trace(seen.swept, seen.swept.chosen[2])
    worked = search.point(asked.space, plan, one.usd_per_hour, batch)
    return {key: worked[key] for key in ("tpot_s", "usd_per_million_output_tokens") if key in worked}


def _axis(name: str, known: dict[str, search.Axis], option: str) -> search.Axis:
    by_key = {axis.key: axis for axis in known.values()}
    found = known.get(name) or by_key.get(name)
    if found is None:
        raise UsageError("bad-value", f"{printable(name, 40)!r} is not an axis for --{option}", f"use one of {', '.join(known)}")
    return found


def _marks(texts: list[str]) -> dict[str, float]:
    found = {}
    for text in texts:
        name, _, limit = text.partition("=")
        if not name.strip() or not limit.strip():
            raise UsageError("bad-value", f"mark {printable(text, 40)!r} is not a name and a time", "write it like --mark chat=50ms")
        found[name.strip()] = s.most()(limit, "mark")
    return found


def _limits(limits: search.Limits) -> tuple[float | None, ...]:
    return limits.tpot_s, limits.ttft_s, limits.tokens_per_s, limits.usd_per_hour


IDENTITY = ("hardware", "count", "weights", "kv_dtype", "batch")


def _same(row: Point, other: Point) -> bool:
    return all(row[key] == other[key] for key in IDENTITY)


def _in_words(row: Point) -> str:
    return f"{row.count} × {row.hardware}, weights {row.weights}, KV {row.kv_dtype}, batch {row.batch:,}"


def _priced(row: Point) -> str:
    usd, late = row.usd_per_million_output_tokens, row.expected_tpot_high_s
    slow = f"; up to {units.seconds(late)} at the slow end, over the limit" if row.holds_at_high is False and late is not None else ""
    return f"TPOT {units.seconds(row.tpot_s)}" + ("" if usd is None else f" at {units.usd(usd)} per 1M tokens") + slow


def _limit_words(limits: search.Limits) -> str:
    said = [
        f"TPOT ≤ {units.seconds(limits.tpot_s)}" if limits.tpot_s is not None else "",
        f"TTFT ≤ {units.seconds(limits.ttft_s)}" if limits.ttft_s is not None else "",
        f"tokens/s ≥ {units.number(limits.tokens_per_s)}" if limits.tokens_per_s is not None else "",
        f"{units.usd(limits.usd_per_hour)}/h at most" if limits.usd_per_hour is not None else "",
    ]
    return ", ".join(filter(None, said))


def _remarks(asked: Searching, seen: Searched) -> Iterator[str]:
    if seen.labelled["chosen"] is not None and seen.best is not None:
        yield f"cheapest with {_limit_words(asked.limits)}: {_in_words(seen.best)}: {_priced(seen.best)}"
    for name, limit in asked.marks.items():
        row = seen.labelled[name]
        if row is not None:
            yield f"{name} (TPOT ≤ {units.seconds(limit)}): {_in_words(row)}: {_priced(row)}"


def _warnings(asked: Searching, seen: Searched) -> Iterator[str]:
    from llmcalc import search

    space, swept, limits, up = asked.space, seen.swept, asked.limits, asked.y
    held = {one.device.id for rack in swept.racks for one, most in zip(rack.members, rack.most, strict=True) if most > 0}
    out = [one for one in space.candidates if one.device.id not in held]
    if out:
        few = search.compare(replace(space, candidates=tuple(out[:4])), 1, None)
        told = "; ".join(f"{row.hardware} {row.why}" for row in few)
        yield f"{len(out)} of {c.counted(len(space.candidates), 'device')} cannot hold one sequence: {told}" + (
            "; …" if len(out) > 4 else ""
        )
    by_cost = up.key.startswith("usd")
    unpriced = sorted({one.device.id for one in space.candidates if one.usd_per_hour is None and one.device.id in held})
    if unpriced:
        more = "; --y tokens_per_s_per_device needs none" if by_cost and not seen.rows else ""
        effect = "left out" if by_cost else "never chosen"
        yield f"no price is recorded for {_few(unpriced)}: {c.counted(len(unpriced), 'device')} {effect}; --price gives one{more}"
    unpowered = sorted({one.device.id for one in space.candidates if one.device.power_w is None})
    if unpowered and up.key.startswith("energy"):
        yield f"no power is recorded for {_few(unpowered)}: {c.counted(len(unpowered), 'device')} left out"
    if seen.best is None and swept.closest is not None and any(value is not None for value in _limits(limits)):
        excess, place = swept.closest
        row = search.row(space, *search.trace(swept, place))
        if excess > 0:
            yield f"chosen: no point has {_limit_words(limits)}; the closest is {_in_words(row)}: {_misses(row, limits)}"
        else:
            yield f"chosen: {_in_words(row)} holds the limits, but nothing that does has a price"
    elif seen.best is None:
        yield "chosen: nothing that fits has a price" if held else "chosen: nothing fits"
    for name, marked in seen.marked.items():
        if marked is None and held:
            yield f"marks: nothing with a price has a TPOT of {units.seconds(asked.marks[name])} or less for {name}"
    if space.model.towers is None:
        yield "the towers are not counted: their shape is not read"
    yield from s.beyond(space.model, space.ctx)
    yield from space.model.notes


def _few(names: list[str]) -> str:
    return ", ".join(names[:4]) + (", …" if len(names) > 4 else "")


def _misses(row: Point, limits: search.Limits) -> str:
    """Which limits a row misses, and by how much."""
    pairs = (
        ("TPOT", row.tpot_s, limits.tpot_s, units.seconds, 1),
        ("TTFT", row.ttft_s, limits.ttft_s, units.seconds, 1),
        ("tokens/s", row.tokens_per_s, limits.tokens_per_s, units.number, -1),
        ("USD per hour", row.usd_per_hour, limits.usd_per_hour, units.usd, 1),
    )
    said = []
    for name, value, limit, words, sign in pairs:
        if limit is None:
            continue
        if value is None:
            said.append(f"{name} unknown")
        elif sign * value > sign * limit:
            said.append(f"{name} {words(value)}, {words(abs(value - limit))} {'over' if sign > 0 else 'short'}")
    return "; ".join(said)


def _assumptions(asked: Searching, seen: Searched) -> Iterator[str]:
    from llmcalc import search

    space, single = asked.space, asked.single
    if any(single):
        kept = [
            f"weights {space.weights[0].name}" if single[0] else "",
            f"KV {space.kvs[0].name}" if single[1] else "",
            "one device each" if single[2] else "",
        ]
        wider = [option for option, alone in zip(("--weights all", "--kv-dtype all", "--tp all"), single, strict=True) if alone]
        yield f"only {', '.join(filter(None, kept))}: {', '.join(wider)} would widen the search"
    named = {row.hardware for row in seen.labelled.values() if row is not None} or {row.hardware for row in seen.rows[-1:]}
    yield from dict.fromkeys(one.price for one in space.candidates if one.device.id in named and one.usd_per_hour is not None)
    used = {row.hardware for row in seen.rows}
    kinds = sorted({one.price_kind for one in space.candidates if one.device.id in used and one.price_kind})
    if len(kinds) > 1:
        yield f"prices of different kinds are compared: {', '.join(kinds)}"
    yield f"memory: {'nominal, decimal' if space.engine.nominal else 'as the driver reports it'} ({space.engine.name})"
    yield s.method_words(space.method)
    yield from s.unmeasured(search.unmeasured(space, space.candidates))


def _brief(rows: Sequence[Point]) -> tuple[int, ...]:
    """Rows to read: the ends, the marked ones, and some between."""
    if len(rows) <= READABLE:
        return ()
    step = (len(rows) - 1) / (READABLE - 1)
    kept = {round(number * step) for number in range(READABLE)} | {index for index, row in enumerate(rows) if row.marks}
    return tuple(sorted(kept))


# ---- a point that the user names --------------------------------------------------------------------------------------


def _named(asked: Searching, text: str, rows: list[Point]) -> Named:
    """The named point, which point of the front dominates it, and why."""
    from llmcalc import hardware, search

    space = asked.space
    settings = dict(part.split("=", 1) for part in text.replace(",", " ").split() if "=" in part)
    device_words = " ".join(part for part in text.replace(",", " ").split() if "=" not in part)
    unknown = [key for key in settings if key not in ("weights", "kv", "kv_dtype", "tp", "batch", "b")]
    if unknown or not device_words:
        what = f"the unknown setting {printable(unknown[0], 20)!r}" if unknown else "no device"
        raise UsageError(
            "bad-value", f"point {printable(text, 60)!r} has {what}", "write it like '2x h100-sxm weights=fp8 kv=fp8 batch=48'"
        )
    count, name = hardware.parse_count(device_words)
    ranks = parse.whole_number(settings.get("tp", str(count)), "tp", most=8192)
    device, usd = asked.owned.of(hardware.load(name))
    one = search.candidate(device, (ranks,), True, usd)
    s.check_ranks(space.model, (one,))
    weights = s.weight_formats(space.model, settings["weights"], space.engine) if "weights" in settings else space.weights[:1]
    kv = settings.get("kv", settings.get("kv_dtype"))
    kvs = space.kvs[:1] if kv is None else s.kv_formats(space.model, kv)
    batch = parse.whole_number(settings.get("batch", settings.get("b", "1")), "batch")
    reason = search.obstacle(space, one, weights[0], ranks)
    if reason:
        raise UsageError("bad-value", f"point {printable(text, 60)!r}: {one.device.id} {reason}", "name another point")
    row = search.row(space, search.deployment(space, one.device, weights[0], kvs[0], ranks), one, batch)
    (compared,) = search.compare(replace(space, candidates=(one,), weights=weights, kvs=kvs), batch, None)
    said, fits, on_front, winner = _in_words(row), compared.fits is True, False, None
    if not fits:
        why = f"{said} does not fit: {compared.why}"
    elif any(_same(other, row) for other in rows):
        why, on_front = f"{said} is on the front: {_priced(row)}", True
    elif (winner := search.dominating(rows, row, asked.x, asked.y)) is not None:
        why = _why(row, winner, asked.x, asked.y)
    else:
        rest = f"it has no {LABELS[asked.y.key].label}" if row[asked.y.key] is None else "no point of the front is as good in both"
        why = f"{said}: {_priced(row)}; {rest}"
    return Named(**row, fits=fits, on_front=on_front, dominated_by=winner, why=why)


def _why(row: Point, winner: Point, across: search.Axis, up: search.Axis) -> str:
    gains = []
    for axis in (across, up):
        label, unit = LABELS[axis.key].label, LABELS[axis.key].unit
        change = f" ({winner[axis.key] / row[axis.key] - 1:+.0%})" if row[axis.key] else ""
        gains.append(f"{label} {shown(winner[axis.key], unit)} instead of {shown(row[axis.key], unit)}{change}")
    other = [
        f"{key.replace('_dtype', '').replace('kv', 'KV')} {winner[key]} instead of {row[key]}"
        for key in IDENTITY
        if winner[key] != row[key]
    ]
    return f"{_in_words(row)} is dominated by {_in_words(winner)}: {', '.join(gains)}. What differs: {', '.join(other)}"


# ---- the picture ------------------------------------------------------------------------------------------------------


def _chart(asked: Searching, seen: Searched, named: tuple[Named, ...]) -> Chart:
    """The front, a series per device; of a few devices, each one's own front."""
    from llmcalc import search

    space, across, up = asked.space, asked.x, asked.y
    by_device: dict[str, list[Point]] = {}
    if 1 < len(space.candidates) <= OWN_FRONTS:
        for one in space.candidates:
            alone = replace(space, candidates=(one,))
            swept = search.sweep(alone, across, up)
            own = _thinned(list(swept.front.places), DRAWN)
            points = [search.row(alone, *search.trace(swept, search.Place(*map(int, place)))) for place in own]
            label = f"{one.counts[0]}x {one.device.id}" if one.exact and one.counts[0] > 1 else one.device.id
            by_device[label] = points
    else:
        for row in seen.rows:
            by_device.setdefault(row.hardware, []).append(row)
    series = tuple(Series(name, tuple(_thinned(points, DRAWN))) for name, points in by_device.items() if points)
    marks = [Mark(f"{name}: {_in_words(row)}", row[across.key], row[up.key]) for name, row in seen.labelled.items() if row and row[up.key]]
    marks += [Mark(f"named: {_in_words(row)}", row[across.key], row[up.key]) for row in named if row.fits and row[up.key]]
    x, y = LABELS[across.key], LABELS[up.key]
    return Chart(f"{space.model.id}: {y.label} against {x.label}", x, y, series, tuple(marks))


def _thinned(points: list[Any], most: int) -> list[Any]:
    """At most that many, evenly chosen, both ends among them."""
    if len(points) <= most:
        return points
    return [points[round(number * (len(points) - 1) / (most - 1))] for number in range(most)]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("pareto", epilog=EXAMPLES)(o.command(pareto))
