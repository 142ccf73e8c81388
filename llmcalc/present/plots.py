"""Charts for a terminal: braille dots in colour, or letters where there is no braille."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from llmcalc.errors import printable
from llmcalc.present import Chart, Series, shown

COLOURS = ("bright_blue", "bright_yellow", "bright_green", "bright_magenta", "bright_cyan", "bright_red", "white")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
PARTS = {True: ("┤", "│", "└", "┬", "─", "⠀"), False: ("+", "|", "+", "+", "-", " ")}


def lines(chart: Chart, width: int, colour: bool, unicode: bool, height: int | None = None) -> Iterator[str]:
    """The chart line by line, at most `width` columns wide: title, canvas of `height` with axes, legend. Colours as ANSI sequences."""
    series = [one for one in chart.series if one.points]
    if not series:
        return
    xs = [float(point[chart.x.key]) for one in series for point in one.points] + [mark.x for mark in chart.marks]
    ys = [float(point[chart.y.key]) for one in series for point in one.points] + [mark.y for mark in chart.marks]
    left, right = _span(xs)
    bottom, top = _span(ys)
    rows = height or usual(width)
    y_ticks = {_cell((math.log10(value) - bottom) / (top - bottom), rows, 4): value for value in ticks(bottom, top, rows // 3)}
    labels = {place: shown(value, chart.y.unit) for place, value in y_ticks.items()}
    margin = max(map(len, labels.values()), default=0) + 1
    across = max(10, width - margin - 2)
    canvas = _canvas(chart, series, across, rows, (left, right, bottom, top), colour, unicode)
    tick, wall, corner, under, floor, blank = PARTS[unicode]
    up, along = ("↑", "→") if unicode else ("up", "along")
    both = f"{chart.y.label} {up}  {chart.x.label} {along}"
    yield both if len(both) <= width else _cut(chart.y.label, width)
    for row, drawn in enumerate(canvas):
        label = labels.get(rows - 1 - row, "")
        yield f"{label:>{margin}}{tick if label else wall}" + drawn.replace("⠀", blank)
    x_ticks = ticks(left, right, max(3, across // 10))
    places = {_cell((math.log10(value) - left) / (right - left), across, 2): value for value in x_ticks}
    yield " " * margin + corner + "".join(under if column in places else floor for column in range(across))
    yield _row_of_labels({place: shown(value, chart.x.unit) for place, value in places.items()}, margin + 1, width)
    if len(both) > width:
        yield f"{_cut(chart.x.label, width - margin - 1):>{width}}"
    yield from _legend(chart, series, width, colour, unicode)


def usual(width: int) -> int:
    """Lines of a canvas where there is room."""
    return 16 if width >= 60 else 11


def _cell(share: float, cells: int, dots: int) -> int:
    """The character cell in which a place lies, as the canvas rounds to its dots."""
    return min(round(share * cells * dots) // dots, cells - 1)


def _span(values: Sequence[float]) -> tuple[float, float]:
    """The decades that hold the values, with a little room around them."""
    low, high = math.log10(min(values)), math.log10(max(values))
    room = max(0.03 * (high - low), 0.02)
    return low - room, high + room


def ticks(low: float, high: float, most: int) -> list[float]:
    """Round values between two powers of ten, at most that many."""
    for steps in ((1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9), (1, 1.5, 2, 3, 4, 5, 7), (1, 2, 5), (1, 3), (1,)):
        decades = range(math.floor(low), math.ceil(high) + 1)
        found = [step * 10.0**decade for decade in decades for step in steps if low <= math.log10(step * 10.0**decade) <= high]
        if len(found) <= max(most, 2):
            return found
    return found[:: math.ceil(len(found) / max(most, 2))]


def _canvas(
    chart: Chart, series: list[Series], width: int, height: int, box: tuple[float, float, float, float], colour: bool, unicode: bool
) -> list[str]:
    import plotille  # type: ignore[import-untyped]

    left, right, bottom, top = box
    canvas = plotille.Canvas(width, height, xmin=left, ymin=bottom, xmax=right, ymax=top)

    def cell(x: float, y: float) -> tuple[int, int]:
        return _cell((x - left) / (right - left), width, 2), _cell((y - bottom) / (top - bottom), height, 4)

    letters: list[tuple[str | None, str, list[tuple[float, float]]]] = []
    taken = {cell(math.log10(mark.x), math.log10(mark.y)) for mark in chart.marks}
    for number, one in enumerate(series):
        ink = COLOURS[number % len(COLOURS)] if colour else None
        letter = LETTERS[number % len(LETTERS)]
        places = [(math.log10(point[chart.x.key]), math.log10(point[chart.y.key])) for point in one.points]
        if one.line:
            for start, end in pairwise(places):
                if unicode:
                    canvas.line(*start, *end, color=ink)
                else:
                    for step in range(2 * width):
                        share = step / (2 * width)
                        canvas.point(*(a + (b - a) * share for a, b in zip(start, end, strict=True)), marker=".")
        for x, y in places:
            canvas.point(x, y, color=ink, marker=None if unicode and (len(places) > 12 or one.line) else letter)
        if unicode and len(series) > 1 and not one.line:
            letters.append((ink, letter, _from_the_middle(places)))
    for ink, letter, near_the_middle in letters:
        free = next((place for place in near_the_middle if cell(*place) not in taken), near_the_middle[0])
        taken.add(cell(*free))
        canvas.point(*free, color=ink, marker=letter)
    for number, mark in enumerate(chart.marks, 1):
        canvas.point(math.log10(mark.x), math.log10(mark.y), color="bright_white" if colour else None, marker=str(number % 10))
    drawn: str = canvas.plot()
    return drawn.split("\n")


def _from_the_middle(places: list[tuple[float, float]]) -> list[tuple[float, float]]:
    middle = len(places) // 2
    return [places[index] for index in sorted(range(len(places)), key=lambda index: abs(index - middle))]


def _row_of_labels(labels: dict[int, str], margin: int, width: int) -> str:
    """Tick labels centred under their ticks; one that would touch its neighbour is left out."""
    line = ""
    for place, label in sorted(labels.items()):
        start = max(margin + place - len(label) // 2, 0)
        if start + len(label) <= width and (start > len(line) + 1 or not line):
            line = line.ljust(start) + label
    return line


def _legend(chart: Chart, series: list[Series], width: int, colour: bool, unicode: bool) -> Iterator[str]:
    """What letters and numbers stand for."""
    line, length = " ", 1
    for one in series if len(series) > 1 or not unicode else ():
        number = series.index(one)
        word = _cut(f"{LETTERS[number % len(LETTERS)]} {one.name}", width - 2)
        if length > 1 and length + 2 + len(word) > width:
            yield line
            line, length = " ", 1
        line += " " + (_painted(word, number) if colour else word) + " "
        length += 2 + len(word)
    for number, mark in enumerate(chart.marks, 1):
        word = _cut(f"{number % 10} {mark.label.partition(':')[0]}", width - 2)  # behind the colon stands what a remark says
        if length > 1 and length + 2 + len(word) > width:
            yield line
            line, length = " ", 1
        line += f" {word} "
        length += 2 + len(word)
    if length > 1:
        yield line.rstrip()


def _painted(word: str, number: int) -> str:
    import plotille

    return str(plotille.color(word, fg=COLOURS[number % len(COLOURS)]))


def _cut(text: str, width: int) -> str:
    plain = printable(text, 400)
    return plain if len(plain) <= width else plain[: max(width - 1, 1)] + "…"
