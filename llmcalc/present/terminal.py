"""For people at a terminal: a header, the results, the rows, what was assumed.

Numbers are never cut or wrapped; when the terminal is narrow, labels shrink and exact figures go first. Piped output is
neither boxed nor wrapped.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from llmcalc.errors import printable
from llmcalc.present import Report, exact, shown


def render(report: Report) -> str:
    """The report for the terminal that stdout is, or plain text where it is none."""
    console = _console()
    console.print(Text(printable(report.title, 200), style="bold"))
    for line in report.header:
        console.print(Text(printable(line, 400), style="dim"))
    if report.facts:
        console.print()
        console.print(_facts(report, console.width))
    if report.rows:
        console.print()
        console.print(_rows(report, console.width))
    if report.explain and report.figures:
        from llmcalc.present.explain import lines

        console.print()
        for line in lines(report):
            console.print(Text(line), soft_wrap=True)
    if report.assumptions:
        console.print()
        for line in report.assumptions:
            console.print(_note(f"assumes {line}"))
    output = console.file
    assert isinstance(output, io.StringIO)
    return "\n".join(line.rstrip() for line in output.getvalue().splitlines()) + "\n"


def _console() -> Console:
    """Writes into memory, with the width and colours of the real stdout."""
    real = Console(file=sys.stdout)
    width = real.width
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
    visible = [fact for fact in report.facts if fact.shown]
    cells = [(printable(fact.label, 200), shown(fact.value, fact.unit), exact(fact.value, fact.unit), fact.note) for fact in visible]
    values = max(len(cell[1]) for cell in cells)
    exacts = max(len(cell[2]) for cell in cells)
    labels = max(len(cell[0]) for cell in cells)
    notes = max(len(cell[3]) for cell in cells)
    with_exact = exacts > 0 and 2 + min(labels, 24) + 2 + values + 2 + exacts <= width
    used = 2 + labels + 2 + values + (2 + exacts if with_exact else 0)
    with_notes = notes > 0 and used + 2 + notes <= width
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True, width=2)
    table.add_column(overflow="ellipsis", no_wrap=True, max_width=max(8, width - used + labels))
    table.add_column(justify="right", no_wrap=True, min_width=values, style="bold")
    if with_exact:
        table.add_column(justify="right", no_wrap=True, min_width=exacts, style="dim")
    if with_notes:
        table.add_column(no_wrap=True, style="dim")
    for label, value, precise, note in cells:
        row: list[str | Text] = ["", Text(label), Text(value)]
        row += [Text(precise)] if with_exact else []
        row += [Text(note)] if with_notes else []
        table.add_row(*row)
    return table


def _rows(report: Report, width: int) -> Table:
    columns = [column for column in report.columns if column.shown and _has_content(report, column.key)]
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("", no_wrap=True, width=2)
    for column in columns:
        numeric = any(not isinstance(row.get(column.key), str | None) for row in report.rows)
        values = [shown(row.get(column.key), column.unit) for row in report.rows]
        table.add_column(
            Text(column.label),
            justify="right" if numeric else "left",
            no_wrap=True,
            overflow="ellipsis",
            min_width=max(len(value) for value in values) if numeric else None,
        )
    for row in report.rows:
        table.add_row("", *(Text(printable(shown(row.get(column.key), column.unit), 300)) for column in columns))
    return table


def _has_content(report: Report, key: str) -> bool:
    return any(row.get(key) not in (None, "", 0) for row in report.rows)


def error(message: str, hint: str | None) -> str:
    """The two lines of an error. Escape sequences in foreign text are shown, not sent."""
    lines = [f"Error: {message}"]
    if hint:
        lines.append(f"Hint: {hint}")
    return "\n".join(lines) + "\n"


def warnings(texts: tuple[str, ...]) -> str:
    """Warnings for stderr."""
    return "".join(f"Warning: {printable(text, 1000)}\n" for text in texts)


