"""Which columns of a table have room at a width, and how wide each is. Numbers stay whole; text gives way, then columns go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llmcalc.errors import printable
from llmcalc.present import Column, shown

MARGIN = 2  # characters left of a table
TEXT = 18  # characters in which a text that may go is still worth its column
SHORTEST = 6  # characters of a label, or of a text that must stay, when nothing else helps


@dataclass(frozen=True, slots=True)
class Content:
    """The columns that have content, what stands in their cells, and which hold numbers."""

    columns: tuple[Column, ...]
    cells: Mapping[str, Sequence[str]]
    longest: Mapping[str, int]
    numeric: Mapping[str, bool]


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns that are shown, their widths, the gap behind each, and what is left over [characters]."""

    columns: tuple[Column, ...]
    widths: Mapping[str, int]
    gap: int
    free: int


def content(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> Content:
    """The cells of these rows as text."""
    cells = {column.key: [printable(shown(row.get(column.key), column.unit), 300) for row in rows] for column in columns}
    numeric = {column.key: any(not isinstance(row.get(column.key), str | None) for row in rows) for column in columns}
    return Content(tuple(columns), cells, {key: max(map(len, values)) for key, values in cells.items()}, numeric)


def least(told: Content, columns: Sequence[Column], tight: bool = False) -> dict[str, int]:
    """The widths below which a column is not worth showing; `tight`: with labels cut short."""
    found = {}
    for column in columns:
        longest = told.longest[column.key]
        label = min(len(column.label), SHORTEST) if tight else len(column.label)
        found[column.key] = max(label, longest if told.numeric[column.key] or not column.rank else min(longest, TEXT))
    return found


def left_over(width: int, gap: int, widths: Mapping[str, int]) -> int:
    """What columns of these widths leave of the line; below 0: they have no room."""
    return width - MARGIN - sum(gap + each for each in widths.values())


def choose_columns(told: Content, width: int) -> list[Column]:
    """The columns that have room: those of the highest rank go first, and come back where a wider one went after them."""
    chosen = list(told.columns)
    while left_over(width, 2, least(told, chosen)) < 0 and any(column.rank for column in chosen):
        chosen.remove(max(reversed(chosen), key=lambda column: column.rank))
    for column in sorted((column for column in told.columns if column not in chosen), key=lambda column: column.rank):
        wider = [each for each in told.columns if each in chosen or each is column]
        if left_over(width, 2, {key: max(room, told.longest[key]) for key, room in least(told, wider).items()}) >= 0:
            chosen = wider
    return chosen


def squeezed(told: Content, chosen: list[Column], width: int) -> dict[str, int]:
    """The widths where not even what must stay has room, one space between: short labels, short text, the last columns gone."""
    widths = least(told, chosen)
    if left_over(width, 1, widths) < 0:
        widths = least(told, chosen, tight=True)
    for column in sorted(chosen, key=lambda column: -told.longest[column.key]):
        if not told.numeric[column.key]:
            widths[column.key] -= min(max(-left_over(width, 1, widths), 0), max(widths[column.key] - SHORTEST, 0))
    while left_over(width, 1, widths) < 0 and len(widths) > 2:
        widths.popitem()
    return widths


def lay_out(told: Content, width: int) -> Layout:
    """Columns and widths for a line of `width` characters; text takes what is free, from the left."""
    chosen, gap = choose_columns(told, width), 2
    widths = least(told, chosen)
    if left_over(width, gap, widths) < 0:
        gap, widths = 1, squeezed(told, chosen, width)
    free = left_over(width, gap, widths)
    for key in widths:
        if not told.numeric[key]:
            more = max(min(free, told.longest[key] - widths[key]), 0)
            widths[key] += more
            free -= more
    return Layout(tuple(column for column in chosen if column.key in widths), widths, gap, free)
