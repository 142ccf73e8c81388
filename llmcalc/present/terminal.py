"""For people at a terminal: a header, the results, the rows, what was assumed.

Numbers are never cut or wrapped; when the terminal is narrow, labels shrink and exact figures go first. Piped output is
neither boxed nor wrapped.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from llmcalc.errors import printable
from llmcalc.present import Carries, Chart, Report, exact, shown, tables
from llmcalc.present.layout import MARGIN, Content, Layout, content, lay_out

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_TRAILING = re.compile(r"(?:\s|\x1b\[[0-9;]*m)+$")

SMALLEST = 20
"""Lines of a terminal below which nothing more is left out."""
CARRIES = Carries(endings=(".txt",), facts=True, rows=True, warnings=False, chart=True)


def render(report: Report) -> str:
    """The report for the terminal that stdout is, or plain text where it is none; its parts, where everything is asked for."""
    return "\n".join(map(_one, (report, *(replace(part, whole=True) for part in report.parts if report.whole))))


def _one(report: Report) -> str:
    console = in_memory()
    listed = tables(report) if report.rows else []
    above = [_drawn(console, *_head(report, console.width))]
    if any(fact.shown and (report.whole or report.explain or not fact.detail) for fact in report.facts):
        above.append(_drawn(console, _facts(report, console.width)))
    below = []
    if report.explain and report.figures:
        from llmcalc.present.explain import lines

        below.append(_drawn(console, *lines(report, console.width), wrap=False))

    def noted(gone: int = 0) -> list[str]:
        return _drawn(console, *map(_note, _assumed(report, console.width, gone)))

    def middle(most: Sequence[int], high: int | None) -> list[list[str]]:
        found = [_drawn(console, *_rows(table, console.width, number)) for table, number in zip(listed, most, strict=True)]
        return [*found, *([_chart(console, report.chart, high)] if report.chart is not None else [])]

    most: Sequence[int] = [len(table.rows) for table in listed]
    high = None
    made = middle(most, high)
    if _is_screen() and not (report.whole or report.explain):
        room = console.height - 2 - _length([*above, *below, noted(99)], console.width) - warnings(report.warnings).count("\n")
        if _length(made, console.width) > room:
            most, high = _fitted(report, listed, made, console.width, room)
            made = middle(most, high)
    below.append(noted(sum(len(table.rows) for table, rows in zip(listed, most, strict=True) if not rows)))
    text = "\n\n".join("\n".join(block) for block in (*above, *made, *below) if block)
    return "\n".join(_TRAILING.sub(_codes, line) for line in text.split("\n")) + "\n"


def _is_screen() -> bool:
    return sys.stdout.isatty()


def _length(blocks: Sequence[Sequence[str]], width: int) -> int:
    """Lines of blocks, with the empty ones between; one that is too long goes on in the next."""
    taken = sum(max(-(-len(_COLOUR.sub("", line)) // width), 1) for block in blocks for line in block)
    return taken + max(len(blocks) - 1, 0)


LOWEST, LOW, LEAST = 6, 10, 3
"""Lines of a chart's canvas, and rows of a table, that are still worth showing; LOW: before rows have to go."""


def _fitted(
    report: Report, listed: Sequence[Report], made: Sequence[Sequence[str]], width: int, room: int
) -> tuple[Sequence[int], int | None]:
    """How many rows of each table, and lines of the chart's canvas, such that all of it has room."""
    from llmcalc.present import plots

    full = [len(table.brief or table.rows) for table in listed]
    notes = [len(block) - 1 - rows for block, rows in zip(made, full, strict=False)]
    canvas = plots.usual(width) if report.chart is not None else 0
    around = len(made[-1]) - canvas if canvas else 0

    def lines(most: Sequence[int], high: int) -> int:
        each = [2 + rows + (notes[n] if rows == full[n] else 1) for n, rows in enumerate(most) if rows]
        return sum(each) - 1 + (1 + around + high if canvas else 0)

    adds_up = [0] if report.picture is not None and report.picture.stacked else []
    steps = list(_steps(full, [n for n in range(len(full)) if n not in adds_up], canvas))
    most, high = next((step for step in steps if lines(*step) <= room), steps[-1])
    return most, high + max(room - lines(most, high), 0) if canvas else None


def _steps(full: Sequence[int], loose: Sequence[int], canvas: int) -> Iterator[tuple[Sequence[int], int]]:
    """Ever fewer rows of the tables, and a lower canvas: what is least worth goes first, a table whose rows add up last and whole."""
    most, high = list(full), canvas
    yield tuple(most), high
    for floor in (LOW, LOWEST):
        while high > floor:
            high -= 1
            yield tuple(most), high
        while loose and max(most[n] for n in loose) > LEAST:
            most[max(loose, key=lambda n: most[n])] -= 1
            yield tuple(most), high
    yield tuple(0 if n in loose else rows for n, rows in enumerate(full)), high
    for rows in range(max(full, default=0), LEAST - 1, -1):
        yield tuple(min(rows, each) if n in loose else 0 for n, each in enumerate(full)), high
    yield (0,) * len(full), high


def _head(report: Report, width: int) -> Iterator[Text]:
    """The verdict, what it is of, and what belongs to the result."""
    title = Text(printable(report.title, 200), style="bold")
    if report.verdict is not None and not report.rows_first and ": " in title.plain:
        title.stylize("green" if report.verdict else "red", title.plain.rindex(": ") + 2)
    yield title
    lines = report.header
    if _is_screen() and any(" · " in line for line in lines):
        lines = tuple(_flowed(" · ".join(lines).split(" · "), width))
    for line in lines:
        yield Text(printable(line, 400), style="dim")
    for line in report.remarks:  # a command stays one line of a shell, however wide the terminal is
        yield Text(printable(line, 1000), no_wrap=line.startswith("start: "))


def _flowed(parts: Sequence[str], width: int) -> Iterator[str]:
    """Parts in as few lines as they take."""
    line = parts[0]
    for part in parts[1:]:
        if len(line) + 3 + len(part) <= width:
            line += f" · {part}"
        else:
            yield line
            line = part
    yield line


def _assumed(report: Report, width: int, gone: int) -> list[str]:
    """What a terminal says of the assumptions: those that it is told to, in three lines, and how many are left, as are `gone` rows."""
    told = [f"assumes {line}" for line in report.assumptions]
    if report.told is not None and not (report.whole or report.explain):
        told = [f"assumes {line}" for line in report.told]
        while len(told) > 1 and sum(-(-len(line) // max(width - 2, 1)) for line in told) + 1 > MOST_NOTED and _is_screen():
            told.pop()
    hidden = len(report.assumptions) - len(told)
    left = [f"{gone} rows: {report.ask[0]}"] if gone else []
    left += [f"{hidden} more of how the numbers came about: {report.ask[1]}"] if hidden else []
    if left:
        more = "; ".join(left)
        if told and len(told[-1]) + 4 + len(more) <= width:
            told[-1] += f"; {more}"
        else:
            told.append(more)
    return told


MOST_NOTED = 3
"""Lines of assumptions on a terminal."""


def _chart(console: Console, chart: Chart, high: int | None) -> list[str]:
    from llmcalc.present import plots

    colour = console.color_system is not None and not console.no_color
    drawn = plots.lines(chart, min(console.width, 100), colour, _encodes("⠿┤└"), high)
    return _drawn(console, *map(Text.from_ansi, drawn), wrap=False)


def _drawn(console: Console, *parts: Table | Padding | Text | str, wrap: bool = True) -> list[str]:
    """The lines of some parts; text that is ready is written as it is."""
    output = console.file
    assert isinstance(output, io.StringIO)
    for part in parts:
        if isinstance(part, str):
            output.write(part if part.endswith("\n") else f"{part}\n")
        else:
            console.print(part, soft_wrap=not wrap or (isinstance(part, Text) and part.no_wrap is True))
    text = output.getvalue()
    output.seek(0)
    output.truncate()
    return text.splitlines()


def _codes(trailing: re.Match[str]) -> str:
    """The end of a line without its spaces: what switches colours off stays."""
    return re.sub(r"\s", "", trailing[0])


def in_memory() -> Console:
    """Writes into memory, with the width and colours of the real stdout."""
    real = Console(file=sys.stdout)
    width, height = min(real.width, 1000), max(real.height, SMALLEST)
    if not real.is_terminal and not os.environ.get("COLUMNS", "").isdigit():
        width = 400  # a pipe has no width: never wrap
    return Console(
        file=io.StringIO(),
        width=width,
        height=height,
        force_terminal=real.is_terminal,
        color_system=real.color_system,  # type: ignore[arg-type]
        no_color=real.no_color,
        legacy_windows=False,
        highlight=False,
        emoji=False,
    )


def _note(text: str) -> Padding:
    return Padding(Text(printable(text, 1000), style="dim"), (0, 0, 0, 2))


def _facts(report: Report, width: int) -> Table:
    visible = [fact for fact in report.facts if fact.shown and (report.whole or report.explain or not fact.detail)]
    cells = [(printable(fact.label, 200), shown(fact.value, fact.unit), exact(fact.value, fact.unit), fact.note) for fact in visible]
    words = [isinstance(fact.value, str | list | tuple) for fact in visible]
    exacts = max(len(cell[2]) for cell in cells)
    labels = max(len(cell[0]) for cell in cells)

    def shape(most: int, with_exact: bool) -> tuple[tuple[bool, int, int], int, bool, list[tuple[str, str, str, str]]]:
        """How good it is (numbers are whole, little text is cut, much is told), the width of values, and the cells.

        Text that is longer than `most` widens nothing; it stands in the place of a note.
        """
        values = max(min(len(cell[1]), most) if text else len(cell[1]) for cell, text in zip(cells, words, strict=True))
        used = 4 + labels + 2 + values + (2 + exacts if with_exact else 0)
        placed, told = [], 0
        for label, value, precise, note in cells:
            beside = values < len(value) <= width - used - 2
            joined = f"{value}; {note}"
            note = _note_within(joined if beside and note else note, width - used - 2)
            if beside:
                value, note = "", note if note.startswith(value) else value
            placed.append((label, value, precise, note))
            told += (bool(note) and not beside) + (with_exact and bool(precise))
        cut = sum((len(cell[1]) > values) + (len(cell[0]) > labels + min(width - used, 0)) for cell in placed)
        return (used - labels + 8 <= width, -cut, told), values, with_exact, placed

    shapes = [shape(most, with_exact) for most in (200, 20, 14) for with_exact in (exacts > 0, False)]
    _, values, with_exact, placed = max(shapes, key=lambda found: found[0])
    used = 4 + labels + 2 + values + (2 + exacts if with_exact else 0)
    with_notes = any(cell[3] for cell in placed)
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True, width=2)
    table.add_column(overflow="ellipsis", no_wrap=True, max_width=max(8, width - used + labels))
    table.add_column(justify="right", no_wrap=True, overflow="ellipsis", width=values, style="bold")
    if with_exact:
        table.add_column(justify="right", no_wrap=True, min_width=exacts, style="dim")
    if with_notes:
        table.add_column(no_wrap=True, style="dim")
    for label, value, precise, note in placed:
        row: list[str | Text] = ["", Text(label), Text(value)]
        row += [Text(precise)] if with_exact else []
        row += [Text(note)] if with_notes else []
        table.add_row(*row)
    return table


def _note_within(note: str, room: int) -> str:
    """The note, or the part before its colon, or nothing: whatever there is room for."""
    return next((text for text in (note, re.split("[:;]", note)[0]) if len(text) <= room), "")


def _rows(report: Report, width: int, most: int) -> list[Table | Padding | Text | str]:
    """At most so many rows, and which of them and of the columns are left out."""
    every = list(report.rows) if report.whole or not report.brief else [report.rows[index] for index in report.brief]
    told = content([column for column in report.columns if column.shown and _has_content(report, column.key)], every)
    laid = lay_out(told, width)
    rows = every
    if most < len(every):
        kept = _picked(every, most, report.scan)
        rows = [every[index] for index in kept]
        told = replace(told, cells={key: [cells[index] for index in kept] for key, cells in told.cells.items()})
    plain = laid.free >= 0 and not any(column.bar and told.numeric[column.key] for column in laid.columns)
    found: list[Table | Padding | Text | str] = []
    if rows:
        found = [*_lines(told, laid, len(rows))] if plain else [_table(told, laid, rows)]
    gone = [c.label for c in told.columns if c not in laid.columns and c.label] if rows else []
    cut = ", ".join(c.label for c in laid.columns if told.longest[c.key] > laid.widths[c.key] and c.label) if rows else ""
    few = 0 < len(rows) < len(report.rows)
    said = [f"{len(rows)} of {len(report.rows):,} rows: {report.ask[0]} has all"] if few else []
    if gone:
        said.append(f"not shown at this width: {', '.join(gone)}")
    if cut:
        said.append(f"cut short: {cut}")
    if said:
        text = "; ".join(said)
        found.append(_note(_in_one_line(text, width - MARGIN) if few and most < len(every) else text))
    return found


def _in_one_line(text: str, width: int) -> str:
    """A list, to where it has room: 'a, b and 3 more'."""
    names = text.split(", ")
    for kept in range(len(names), 0, -1):
        told = ", ".join(names[:kept]) + (f" and {len(names) - kept} more" if kept < len(names) else "")
        if len(told) <= width:
            return told
    return text


def _picked(rows: Sequence[Mapping[str, Any]], most: int, scan: bool) -> list[int]:
    """Which rows are shown where not all are: the chosen and marked ones, and the first, or some of the whole way."""
    must = [index for index, row in enumerate(rows) if row.get("marks") or row.get("chosen") is True][:most]
    step = (len(rows) - 1) / max(most - 1, 1)
    wanted = [round(number * step) for number in range(most)] if scan else list(range(len(rows)))
    return sorted([*must, *[index for index in wanted if index not in must][: most - len(must)]])


def _lines(told: Content, laid: Layout, number: int) -> tuple[Text, str]:
    """The head and the rows of a table without bars, as `_table` draws them: rich takes 0.6 ms a row, of which lists have hundreds."""
    shape = [(column, laid.widths[column.key], told.numeric[column.key]) for column in laid.columns]
    gap = " " * laid.gap
    head = Text("  " + "".join(gap + _cell(column.label, width, numeric) for column, width, numeric in shape), style="dim")
    columns = [[gap + _cell(text, width, numeric) for text in told.cells[column.key]] for column, width, numeric in shape]
    return head, "".join(f"  {''.join(cells)}\n" for cells in zip(*columns, strict=True)) if columns else "\n" * number


def _cell(text: str, width: int, right: bool) -> str:
    if len(text) > width or not text.isascii():
        cut = Text(text)
        cut.truncate(width, overflow="ellipsis")
        text, width = cut.plain, width - cut.cell_len + len(cut.plain)
    return text.rjust(width) if right else text.ljust(width)


def _table(told: Content, laid: Layout, rows: Sequence[Mapping[str, Any]]) -> Table:
    """The rows as they were laid out, with bars beside the values that have one, where there is room."""
    barred = [column.key for column in laid.columns if column.bar and told.numeric[column.key]]
    bar = min(10, laid.free // len(barred) - 2) if barred else 0
    barred = barred if bar >= 4 else []
    table = Table(box=None, padding=(0, laid.gap, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("", no_wrap=True, width=2)
    for column in laid.columns:
        table.add_column(
            Text(column.label, no_wrap=True, overflow="ellipsis"),
            justify="right" if told.numeric[column.key] else "left",
            no_wrap=True,
            overflow="ellipsis",
            width=laid.widths[column.key],
        )
        if column.key in barred:
            table.add_column("", no_wrap=True, width=bar, style="cyan")
    most = {key: max((row[key] for row in rows if row.get(key) is not None), default=0) for key in barred}
    for index, row in enumerate(rows):
        line = [""]
        for column in laid.columns:
            line.append(told.cells[column.key][index])
            if column.key in barred:
                line.append(_bar((row.get(column.key) or 0) / (most[column.key] or 1), bar))
        table.add_row(*map(Text, line))
    return table


def _bar(share: float, width: int) -> str:
    """A bar of eighths, or of # where the encoding has no blocks."""
    if not _encodes("█▏"):
        return "#" * round(share * width)
    full, part = divmod(round(share * width * 8), 8)
    return "█" * full + (" ▏▎▍▌▋▊▉"[part] if part else "")


def _encodes(text: str) -> bool:
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _has_content(report: Report, key: str) -> bool:
    return any(row.get(key) is False or row.get(key) not in (None, "", 0) for row in report.rows)  # "no" is an answer


def error(message: str, hint: str | None) -> str:
    """The two lines of an error. Escape sequences in foreign text are shown, not sent."""
    lines = [f"Error: {message}"]
    if hint:
        lines.append(f"Hint: {hint}")
    return "\n".join(lines) + "\n"


def warnings(texts: tuple[str, ...]) -> str:
    """Warnings for stderr; on a terminal they break between words, so that numbers stay whole."""
    lines = [f"Warning: {printable(text, 1000)}" for text in texts]
    if sys.stderr.isatty():
        import textwrap

        width = max(Console(file=sys.stderr).width, 20)
        lines = [textwrap.fill(line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False) for line in lines]
    return "".join(f"{line}\n" for line in lines)
