"""What a command says (Report), and one module per output format with `render(report) -> str` and what it CARRIES."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Literal

from llmcalc import units
from llmcalc.answers import Answer, Words, words
from llmcalc.errors import UsageError
from llmcalc.figures import Figure

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Fact:
    """One result: its JSON key, what people call it, its value in SI base units, and the unit that decides how it is shown.

    A line that only people need has no key.
    """

    key: str
    label: str
    value: Any
    unit: str = ""
    shown: bool = True
    note: str = ""
    detail: bool = False
    """A terminal shows it with the explanation alone."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the rows. A narrow terminal leaves out those of the highest `rank` first; `bar` draws the value, too."""

    key: str
    label: str
    unit: str = ""
    shown: bool = True
    rank: int = 0
    bar: bool = False


def facts(answer: Answer, **said: Words | str | bool) -> tuple[Fact, ...]:
    """The facts of an answer. `said` by key, where words depend on values: a note, whether it is shown, or all its words."""
    named = dict(words(type(answer)))
    for key, new in said.items():
        old = named[key]
        named[key] = (
            replace(old, note=new)
            if isinstance(new, str)
            else replace(old, shown=new)
            if isinstance(new, bool)
            else replace(new, label=old.label if new.label is None else new.label, unit=old.unit, detail=new.detail or old.detail)
        )
    return tuple(
        Fact(key, named[key].label or "", value, named[key].unit, named[key].shown, named[key].note, named[key].detail)
        for key, value in answer.items()
    )


def columns(kind: type[Answer], **said: str | bool) -> tuple[Column, ...]:
    """The columns of a kind of rows. `said` by key, where words depend on values: a label, or whether it is shown."""
    found = []
    for key, one in words(kind).items():
        new = said.get(key)
        label = new if isinstance(new, str) else one.label or ""
        found.append(Column(key, label, one.unit, new if isinstance(new, bool) else one.shown, one.rank, one.bar))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis of a chart shows: a key of its points, in what words, in which unit."""

    key: str
    label: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one name, joined by a line or not. Each point is a row that has both axes' keys."""

    name: str
    points: tuple[Mapping[str, Any], ...]
    line: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """A named place on a chart."""

    label: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture of values that span decades: both axes are logarithmic."""

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class Picture:
    """A column that a page draws as bars; `names` are the keys of a bar's name, each with the word before it."""

    key: str
    label: str
    unit: str
    names: tuple[tuple[str, str], ...]
    chosen: str = ""
    """The key of what is true of the row that was chosen."""
    stacked: bool = False
    """The first row is a whole, and the others are its parts."""


@dataclass(frozen=True, slots=True)
class Report:
    """Everything a command has to say, before anybody decides how it looks."""

    command: str
    title: str
    model: Mapping[str, Any] | None = None
    hardware: Mapping[str, Any] | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    header: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()
    columns: tuple[Column, ...] = ()
    rows: tuple[Answer, ...] = ()
    assumptions: tuple[str, ...] = ()
    told: tuple[str, ...] | None = None
    """Of the assumptions, those that a terminal shows; None: all."""
    ask: tuple[str, str] = ("", "")
    """How the rest is asked for that a terminal leaves out: of its rows, and of its assumptions."""
    whole: bool = False
    """A terminal leaves nothing out, however small it is."""
    scan: bool = False
    """The rows are steps on a way: where few are shown, they are spread over it; else the first matter most."""
    warnings: tuple[str, ...] = ()
    figures: Mapping[str, Figure] = field(default_factory=dict)
    explain: bool = False
    verdict: bool | None = None
    """Whether the answer is yes, where it is a verdict, of which an exit code may be made."""
    remarks: tuple[str, ...] = ()
    """Sentences that belong to the result."""
    rows_first: bool = False
    """The rows are the result, and a CSV file holds them."""
    brief: tuple[int, ...] = ()
    """The rows that a terminal shows, where there are too many to read; empty: all."""
    chart: Chart | None = None
    picture: Picture | None = None
    """What a page draws where there is no chart."""
    second: tuple[str, ...] = ()
    """Keys of a table of its own, of the rows that have a value in the first of them; the others are the first table's."""
    typed: str = ""
    """The command as it was typed, for pages that outlive the terminal."""
    parts: tuple[Report, ...] = ()
    """Answers of other commands that a page shows after this one; a terminal does where everything is asked for."""
    absent: tuple[tuple[str, str], ...] = ()
    """(Keys, why they are null where they are null), for those who read keys; no key: every null without a reason yet."""


def tables(report: Report) -> list[Report]:
    """The report once for each of its tables, with the rows and the columns of that one."""
    if not report.second:
        return [report]
    mine = [row for row in report.rows if row.get(report.second[0]) is not None]
    first = replace(
        report,
        columns=tuple(column for column in report.columns if column.key not in report.second),
        rows=tuple(row for row in report.rows if row.get(report.second[0]) is None),
    )
    by_key = {column.key: column for column in report.columns}
    return [each for each in (first, replace(report, columns=tuple(by_key[key] for key in report.second), rows=tuple(mine))) if each.rows]


Format = Literal["table", "json", "csv", "markdown", "html", "svg", "png"]
FORMATS: dict[Format, str] = {"table": "terminal", "json": "as_json", "csv": "as_csv", "markdown": "as_markdown", "html": "as_html"}
"""The module of each format that is text: it has CARRIES and `render(report)`."""
PICTURES: dict[Format, str] = {"svg": "as_svg", "png": "as_png"}
"""Of those that are written to a file alone."""
_SEARCHED: tuple[Format, ...] = (*PICTURES, *(name for name in FORMATS if name != "table"), "table")  # the terminal's last: it loads rich


@dataclass(frozen=True, slots=True)
class Carries:
    """What a document of a format holds. Each format's module says it of itself, in CARRIES."""

    endings: tuple[str, ...]
    """Of the names of its files."""
    facts: bool
    rows: bool
    warnings: bool
    """Else they are told on stderr."""
    chart: bool


def _module(name: Format) -> Any:
    return import_module(f"llmcalc.present.{(FORMATS | PICTURES)[name]}")


def carries(name: Format) -> Carries:
    """What the documents of this format hold."""
    found: Carries = _module(name).CARRIES
    return found


def format_of(name: str, output: str | None) -> Format:
    """The output format: what was asked for, else by the file's ending. Errors: unknown-output-format."""
    if name not in ("", "table") or output is None:
        chosen = {"": "table", "md": "markdown"}.get(name, name)
        for known in (*FORMATS, *PICTURES):
            if chosen == known:
                return known
        raise UsageError("unknown-output-format", f"{chosen!r} is not an output format", f"use one of {', '.join(FORMATS)}")
    import os

    ending = os.path.splitext(output)[1].lower()
    for known in _SEARCHED:
        if ending in carries(known).endings:
            return known
    endings = ", ".join(each for known in _SEARCHED for each in carries(known).endings)
    raise UsageError("unknown-output-format", f"the ending {ending!r} names no output format", f"end the file's name in {endings}")


def render(report: Report, name: Format) -> str | bytes:
    """The report in one of FORMATS or PICTURES; a PNG is bytes. Errors: no-picture."""
    if name == "png" and report.chart is None:
        raise UsageError(
            "no-picture",
            f"{report.command} has nothing to draw here",
            "pareto and roofline draw points that fit; .svg and .html show any result",
        )
    made: str | bytes = _module(name).render(report)
    return made


_UNITS: dict[str, Callable[[Any], str]] = {
    "B": units.size,
    "B/token": units.size,
    "GB": units.decimal_size,
    "B/s": units.rate,
    "FLOP/s": units.flops,
    "FLOP": units.work,
    "s": units.seconds,
    "usd": units.usd,
    "usd/h": units.usd,
    "params": units.parameters,
    "tokens/s": units.number,
    "tokens": lambda value: f"{value:,}" if isinstance(value, int) else units.number(value),
    "percent": lambda value: f"{value * 100:.1f}%",
    "J": lambda value: f"{units.number(value)} J",
    "usd/1M": units.usd,
    "W": lambda value: f"{units.number(value)} W",
}


def shown(value: Any, unit: str = "") -> str:
    """A value for people; unknown is a dash."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return ", ".join(str(item) for item in value)
    return _UNITS.get(unit, units.number)(value)


def exact(value: Any, unit: str = "") -> str:
    """The exact figure beside a rounded one, where rounding hides something: '4,831,838,208 B'."""
    if isinstance(value, int) and not isinstance(value, bool) and unit in ("B", "B/token", "params") and abs(value) >= 1000:
        return f"{value:,}" + (f" {unit}" if unit != "params" else "")
    return ""
