"""A Chart as a Vega-Lite chart, through altair. Needs the extra `plots`."""

from __future__ import annotations

import math
from importlib.util import find_spec
from typing import Any

from llmcalc.errors import LlmcalcError
from llmcalc.present import Axis, Chart, Column, Report, shown
from llmcalc.present.plots import ticks

PALETTE = "#3569b2 #d2792a #3b8f4f #8e4fa8 #2b9ca5 #bd3a4b #7a6a57 #5a6fd6 #a58a1e #c0629b #4a7a6a #777777".split()
SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down"]  # colour is never the only difference


def missing() -> tuple[str, ...]:
    """The packages of the extra that are not installed."""
    return tuple(name for name, module in (("altair", "altair"), ("vl-convert-python", "vl_convert")) if find_spec(module) is None)


def available() -> None:
    """Errors: plots-missing, where altair or vl-convert is not installed."""
    if gone := missing():
        raise LlmcalcError(
            "plots-missing",
            f"pictures in files need {' and '.join(gone)}",
            "pip install 'llmcalc[plots]'; the terminal draws without it",
        )


def chart(report: Report, *, interactive: bool = False) -> Any:
    """The altair chart; an interactive one is filtered by its legend, zooms, and fills its container."""
    available()
    import altair as alt

    said = report.chart
    assert said is not None
    columns = [column for column in report.columns if column.key not in (said.x.key, said.y.key)]
    names = [one.name for one in said.series]
    x = _scaled(alt.X(f"{said.x.key}:Q"), said.x, said, not interactive)
    y = _scaled(alt.Y(f"{said.y.key}:Q"), said.y, said, not interactive)
    color = alt.Color("series:N", title=None, scale=alt.Scale(domain=names, range=[PALETTE[n % len(PALETTE)] for n in range(len(names))]))
    shape = alt.Shape("series:N", title=None, scale=alt.Scale(domain=names, range=[SHAPES[n % len(SHAPES)] for n in range(len(names))]))
    layers: list[Any] = []
    lines = [one for one in said.series if one.line]
    dots = [one for one in said.series if not one.line]
    if lines:
        values = [{"series": one.name, said.x.key: p[said.x.key], said.y.key: p[said.y.key]} for one in lines for p in one.points]
        layers.append(alt.Chart(alt.InlineData(values=values)).mark_line(strokeWidth=2).encode(x=x, y=y, color=color))
    values = [_point(said, columns, one.name, point) for one in dots for point in one.points]
    tips = [alt.Tooltip("series:N", title="series")] + [alt.Tooltip(f"{key}:N", title=title) for key, title in _tips(said, columns, values)]
    points = (
        alt.Chart(alt.InlineData(values=values)).mark_point(filled=True, size=55).encode(x=x, y=y, color=color, shape=shape, tooltip=tips)
    )
    if interactive:
        picked = alt.selection_point(fields=["series"], bind="legend", name="picked")
        zoom = alt.selection_interval(bind="scales", name="zoom")
        points = points.add_params(picked, zoom).transform_filter(picked)
    layers.append(points)
    if said.marks:
        named = [{"label": mark.label.split(":")[0], "text": mark.label, said.x.key: mark.x, said.y.key: mark.y} for mark in said.marks]
        base = alt.Chart(alt.InlineData(values=named)).encode(x=x, y=y, tooltip=alt.Tooltip("text:N", title="mark"))
        layers.append(base.mark_point(shape="circle", size=220, color="#111", strokeWidth=1.5))
        across = [float(point[said.x.key]) for one in said.series for point in one.points]
        middle = math.sqrt(min(across) * max(across))
        for right in (False, True):  # a name turns to the middle, where it has room
            half = [one for one, mark in zip(named, said.marks, strict=True) if (mark.x > middle) == right]
            turned = alt.Chart(alt.InlineData(values=half)).encode(x=x, y=y, text="label:N")
            layers += [turned.mark_text(dy=-14, align="right" if right else "left", fontSize=12, fontWeight="bold")] if half else []
    made = alt.layer(*layers).properties(width="container" if interactive else 640, height=400, background="white")
    if not interactive:
        made = made.properties(title=alt.TitleParams(said.title, subtitle=list(report.header[-1:]), anchor="start"))
    return (
        made.configure_view(stroke=None)
        .configure_axis(gridColor="#e6e6e6", labelFontSize=12, titleFontSize=13)
        .configure_legend(labelFontSize=12)
    )


def _scaled(channel: Any, axis: Axis, said: Chart, fixed: bool) -> Any:
    """A logarithmic axis in the unit that suits its values; `fixed` where nobody can zoom, with round ticks of our own."""
    import altair as alt

    values = [point[axis.key] for one in said.series for point in one.points]
    word, factor = next(((word, factor) for most, word, factor in UNITS.get(axis.unit, ()) if max(values) < most), ("", 1.0))
    low, high = math.log10(min(values)), math.log10(max(values))
    title = axis.label + (f" [{word}]" if word else "")
    label = f"'{'$' if axis.unit == 'usd' else ''}' + format(datum.value * {factor:g}, ',.3~r')"
    placed = alt.Axis(labelExpr=label, values=ticks(low, high, 9)) if fixed else alt.Axis(labelExpr=label, labelOverlap="greedy")
    return channel.scale(type="log", nice=False, padding=30 if said.marks else 12).title(title).axis(placed)


UNITS = {
    "s": ((1.0, "ms", 1e3), (math.inf, "s", 1.0)),
    "FLOP/s": ((1e12, "GFLOP/s", 1e-9), (math.inf, "TFLOP/s", 1e-12)),
    "J": ((math.inf, "", 1.0),),
}


def _point(said: Chart, columns: list[Column], series: str, point: Any) -> dict[str, Any]:
    """A point with its coordinates as numbers and everything else as people read it."""
    told = {
        f"t{n}": shown(point.get(column.key), column.unit) for n, column in enumerate(columns) if point.get(column.key) not in (None, "")
    }
    axes = {f"a{n}": shown(point[axis.key], axis.unit) for n, axis in enumerate((said.x, said.y))}
    return {"series": series, said.x.key: point[said.x.key], said.y.key: point[said.y.key], **axes, **told}


def _tips(said: Chart, columns: list[Column], values: list[dict[str, Any]]) -> list[tuple[str, str]]:
    used = {key for value in values for key in value}
    axes = [(f"a{n}", axis.label) for n, axis in enumerate((said.x, said.y))]
    return axes + [(f"t{n}", column.label or column.key) for n, column in enumerate(columns) if f"t{n}" in used]
