"""For people at a terminal: a header, the results, the rows, what was assumed.

Numbers are never cut or wrapped; when the terminal is narrow, labels shrink and exact figures go first. Piped output is
neither boxed nor wrapped.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from llmcalc.errors import printable
from llmcalc.present import Carries, Report, exact, shown, tables
from llmcalc.present.layout import Content, Layout, content, lay_out

_TRAILING = re.compile(r"(?:\s|\x1b\[[0-9;]*m)+$")

CARRIES = Carries(endings=(".txt",), facts=True, rows=True, warnings=False, chart=True)


def render(report: Report) -> str:
    """The report for the terminal that stdout is, or plain text where it is none."""
    console = in_memory()
    console.print(Text(printable(report.title, 200), style="bold"))
    for line in report.header:
        console.print(Text(printable(line, 400), style="dim"))
    for line in report.remarks:  # a command stays one line of a shell, however wide the terminal is
        console.print(Text(printable(line, 1000)), soft_wrap=line.startswith("start: "))
    if any(fact.shown for fact in report.facts):
        console.print()
        console.print(_facts(report, console.width))
    for table in tables(report) if report.rows else ():
        console.print()
        for part in _rows(table, console.width):
            if isinstance(part, str):
                console.file.write(part)
            else:
                console.print(part)
    if report.chart is not None:
        from llmcalc.present import plots

        console.print()
        colour = console.color_system is not None and not console.no_color
        for drawn in plots.lines(report.chart, min(console.width, 100), colour, _encodes("⠿┤└")):
            console.print(Text.from_ansi(drawn), soft_wrap=True)
    if report.explain and report.figures:
        from llmcalc.present.explain import lines

        console.print()
        for line in lines(report, console.width):
            console.print(Text(line), soft_wrap=True)
    told = [f"assumes {line}" for line in report.assumptions] if report.told is None else report.told
    if told:
        console.print()
        for line in told:
            console.print(_note(line))
    output = console.file
    assert isinstance(output, io.StringIO)
    return "\n".join(_TRAILING.sub(_codes, line) for line in output.getvalue().splitlines()) + "\n"


def _codes(trailing: re.Match[str]) -> str:
    """The end of a line without its spaces: what switches colours off stays."""
    return re.sub(r"\s", "", trailing[0])


def in_memory() -> Console:
    """Writes into memory, with the width and colours of the real stdout."""
    real = Console(file=sys.stdout)
    width = min(real.width, 1000)
    if not real.is_terminal and not os.environ.get("COLUMNS", "").isdigit():
        width = 400  # a pipe has no width: never wrap
    return Console(
        file=io.StringIO(),
        width=width,
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
    visible = [fact for fact in report.facts if fact.shown and (report.explain or not fact.detail)]
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


def _rows(report: Report, width: int) -> list[Table | Padding | Text | str]:
    """The rows, and which of them and of the columns are left out."""
    rows = [report.rows[index] for index in report.brief] if report.brief else list(report.rows)
    told = content([column for column in report.columns if column.shown and _has_content(report, column.key)], rows)
    laid = lay_out(told, width)
    plain = laid.free >= 0 and not any(column.bar and told.numeric[column.key] for column in laid.columns)
    found: list[Table | Padding | Text | str] = [*_lines(told, laid, len(rows))] if plain else [_table(told, laid, rows)]
    if report.brief:
        found.append(_note(f"{len(rows)} of {len(report.rows):,} rows; -f csv has all"))
    gone = ", ".join(c.label for c in told.columns if c not in laid.columns and c.label)
    cut = ", ".join(c.label for c in laid.columns if told.longest[c.key] > laid.widths[c.key] and c.label)
    if gone or cut:
        found.append(_note("; ".join([*([f"not shown at this width: {gone}"] if gone else []), *([f"cut short: {cut}"] if cut else [])])))
    return found


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
