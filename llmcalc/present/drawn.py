"""Pictures for a page, as SVG in the page itself: no script, nothing to install. A chart, bars of a column, or bars that add up."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from llmcalc.answers import Answer
from llmcalc.present import Axis, Chart, Picture, Report, shown, tables
from llmcalc.present.markup import text_of
from llmcalc.present.plots import ticks

PALETTE = "#3569b2 #d2792a #3b8f4f #8e4fa8 #2b9ca5 #bd3a4b #7a6a57 #5a6fd6 #a58a1e #c0629b #4a7a6a #777777".split()
WIDE, MOST_BARS = 600, 20
LEFT, RIGHT, TOP, HIGH = 86, 16, 26, 300  # of the plot in a chart
LETTER = 7.2  # pixels of a character, about


def picture(report: Report) -> str:
    """What the report draws, or nothing."""
    if report.chart is not None:
        return _chart(report.chart)
    if report.picture is None:
        return ""
    rows = [row for row in tables(report)[0].rows if isinstance(row.get(report.picture.key), int | float)]
    if not rows:
        return ""
    return _stack(report.picture, rows) if report.picture.stacked else _bars(report.picture, rows)


def _svg(high: float, parts: list[str], title: str) -> str:
    return (
        f'<div class="scroll"><svg class="drawn" viewBox="0 0 {WIDE} {high:g}" role="img" font-size="13" '
        'font-family="system-ui,sans-serif">'
        f"<title>{text_of(title)}</title>{''.join(parts)}</svg></div>"
    )


def _word(x: float, y: float, text: str, anchor: str = "start", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="currentColor"{more}>{text_of(text)}</text>'


def _box(x: float, y: float, wide: float, high: float, colour: str, tip: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(wide, 0.5):.1f}" height="{high:g}" fill="{colour}"><title>{text_of(tip)}</title></rect>'
    )


def _named(picture: Picture, row: Answer) -> str:
    return " · ".join(f"{word}{row[key]}" for key, word in picture.names if row.get(key) is not None)


def _bars(picture: Picture, rows: list[Answer]) -> str:
    """One bar a row from zero; what the command chose is in another colour and says so."""
    rows = rows[:MOST_BARS]
    names = [_named(picture, row) + (" ✓" if row.get(picture.chosen) else "") for row in rows]
    begin = min(max(map(len, names)) * LETTER + 12, WIDE / 2)
    scale = (WIDE - begin - 90) / (max(row[picture.key] for row in rows) or 1)
    parts = [_word(begin, 16, picture.label)]
    for number, (row, name) in enumerate(zip(rows, names, strict=True)):
        y, value = 26 + 24 * number, row[picture.key]
        told = shown(value, picture.unit)
        parts.append(_word(begin - 8, y + 13, name, "end", ' font-weight="600"' if row.get(picture.chosen) else ""))
        parts.append(_box(begin, y, value * scale, 17, PALETTE[1 if row.get(picture.chosen) else 0], f"{name}: {told}"))
        parts.append(_word(begin + value * scale + 6, y + 13, told))
    return _svg(34 + 24 * len(rows), parts, picture.label)


def _stack(picture: Picture, rows: list[Answer]) -> str:
    """A ledger as one bar: the whole comes first, what is taken is negative, what is left comes last; too much runs past a line."""
    whole, *parts, last = [(row[picture.names[0][0]], row[picture.key]) for row in rows]
    taken = [(name, -value) for name, value in (*parts, last) if value < 0 and (name, value) != last]
    taken += [last] if last[1] > 0 else []
    scale = (WIDE - 2) / max(whole[1], sum(value for _, value in taken))
    found, x = [_word(1, 16, f"{whole[0]}: {shown(whole[1], picture.unit)}")], 1.0
    for number, (name, value) in enumerate(taken):
        colour = "#cfcfcf" if name == last[0] else PALETTE[number % len(PALETTE)]
        told = f"{name}: {shown(value, picture.unit)}"
        found.append(_box(x, 26, value * scale, 34, colour, told))
        y = 84 + 21 * number
        found += [_box(1, y - 11, 12, 12, colour, told), _word(20, y, told)]
        x += value * scale
    if last[1] < 0:
        at = 1 + whole[1] * scale
        found.append(f'<line x1="{at:.1f}" y1="20" x2="{at:.1f}" y2="66" stroke="#bd3a4b" stroke-width="3"/>')
        found.append(_word(WIDE - 1, 16, f"{last[0]}: {shown(last[1], picture.unit)}", "end", ' font-weight="600"'))
    return _svg(78 + 21 * len(taken), found, picture.label)


def _chart(chart: Chart) -> str:
    """Points and lines on logarithmic axes; a name beside a mark turns to the side where it has room."""
    points = [point for one in chart.series for point in one.points]
    across, up = _span(chart.x, points, WIDE - LEFT - RIGHT), _span(chart.y, points, HIGH)

    def place(x: float, y: float) -> tuple[float, float]:
        return LEFT + across(x), TOP + HIGH - up(y)

    parts = [_word(4, 14, chart.y.label), _word(WIDE - RIGHT, TOP + HIGH + 38, chart.x.label, "end")]
    for axis, most in ((chart.x, 7), (chart.y, 7)):
        values = [point[axis.key] for point in points]
        for tick in ticks(math.log10(min(values)), math.log10(max(values)), most):
            x, y = (
                place(tick, min(point[chart.y.key] for point in points))
                if axis is chart.x
                else place(min(point[chart.x.key] for point in points), tick)
            )
            line = (x, TOP, x, TOP + HIGH) if axis is chart.x else (LEFT, y, WIDE - RIGHT, y)
            parts.append('<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="#8884"/>'.format(*line))
            told = shown(tick, axis.unit)
            parts.append(_word(x, TOP + HIGH + 18, told, "middle") if axis is chart.x else _word(LEFT - 6, y + 4, told, "end"))
    for number, one in enumerate(chart.series):
        colour = PALETTE[number % len(PALETTE)]
        places = [place(point[chart.x.key], point[chart.y.key]) for point in one.points]
        if one.line:
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for (x, y), point in zip([] if one.line else places, one.points, strict=False):
            tip = f"{one.name}: {shown(point[chart.x.key], chart.x.unit)}, {shown(point[chart.y.key], chart.y.unit)}"
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"><title>{text_of(tip)}</title></circle>')
    for mark in chart.marks:
        x, y = place(mark.x, mark.y)
        side = "end" if x > WIDE / 2 else "start"
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="9" fill="none" stroke="currentColor" stroke-width="2"/>')
        parts.append(_word(x, max(y - 14, 24), mark.label.split(":")[0], side, ' font-weight="600"'))
    y = TOP + HIGH + 62
    for number, one in enumerate(chart.series):
        parts += [_box(LEFT, y - 10, 12, 12, PALETTE[number % len(PALETTE)], one.name), _word(LEFT + 18, y, one.name)]
        y += 20
    return _svg(y, parts, chart.title)


def _span(axis: Axis, points: list[Mapping[str, Any]], length: float) -> Any:
    """Where a value lies on an axis that has a little room at both ends."""
    logs = [math.log10(point[axis.key]) for point in points]
    low, wide = min(logs), (max(logs) - min(logs)) or 1.0
    return lambda value: length * (0.04 + 0.92 * (math.log10(value) - low) / wide)
