"""`llmcalc accuracy`: the estimates held against public measurements, and which of those are near one's own case."""

from __future__ import annotations

import math
import os
from typing import Any

import typer

from llmcalc import accuracy as estimator
from llmcalc import hardware as devices
from llmcalc import own, present, sources
from llmcalc.answers import Answer, Words, answer, field
from llmcalc.commands import common as c
from llmcalc.commands import options as o
from llmcalc.commands import parse
from llmcalc.errors import UsageError, close_matches, printable
from llmcalc.estimate import rates
from llmcalc.present import Axis, Chart, Report, Series, columns, facts

EXAMPLES = """
Examples:

  llmcalc accuracy

  llmcalc accuracy -d rtx-4090

  llmcalc accuracy -m meta-llama/Meta-Llama-3-8B --plot

  llmcalc accuracy --rows my-measurements.yaml
"""


@answer("accuracy", rows=True)
class Class(Answer):
    """How far off a class of rows is."""

    metric: str = field("what")
    kind: str = field("engine", rank=6)
    group: str = field("class")
    sort: str = field("model", shown=False, meaning="dense or mixture")
    rows: int = field("rows")
    models: int = field("models", shown=False)
    median_error: float = field("median error", "percent")
    median_error_without_model: float = field("without the model", "percent", rank=11)
    median_ratio: float = field("median ratio", rank=7)
    p10_ratio: float = field("p10", rank=4)
    p90_ratio: float = field("p90", rank=4)
    within_1_25: float = field("within ×1.25", "percent", rank=8)
    within_1_5: float = field("within ×1.5", "percent", rank=8)
    coverage: float = field("in range", "percent", rank=2)
    coverage_unseen: float | None = field("made without", "percent", rank=10)
    napkin_median_error: float | None = field("napkin", "percent", rank=3)
    one_efficiency_median_error: float | None = field("70% of ideal", "percent", rank=9)


@answer("accuracy", rows=True)
class Row(Answer):
    """One measured row beside what is expected: seconds, tokens per second under full load, or joules per token."""

    id: str | int | None = field("row")
    model: str = field("model")
    weights: str = field("weights", rank=4)
    hardware: str = field("device")
    layout: str = field("layout", rank=5)
    engine: str | None = field("engine", rank=3)
    batch: float | None = field("batch", rank=6)
    prompt_tokens: float | None = field("prompt", "tokens", rank=7)
    output_tokens: float | None = field("answer", "tokens", rank=8)
    metric: str = field("metric", rank=2)
    measured: float = field("measured", rank=1)
    unit: str = field("unit", rank=1)
    predicted: float = field("expected", rank=1)
    ratio: float = field("ratio", meaning="expected over measured")
    low: float = field("low", shown=False)
    high: float = field("high", shown=False)
    in_range: bool = field("in range", rank=3)
    source: str | None = field("source", shown=False)


@answer("accuracy")
class Accuracy(Answer):
    """How far off all of the rows are."""

    rows: int = field("rows", detail=True)
    models: int = field("models", detail=True)
    unpredicted_rows: int | tuple[own.Unpredicted, ...] = field(
        "rows that cannot be predicted", meaning="how many bundled ones; of one's own file, which and why"
    )
    median_error: float = field("median error", "percent")
    median_error_without_model: float = field(shown=False)
    median_ratio: float = field(shown=False)
    p10_ratio: float = field(shown=False)
    p90_ratio: float = field(shown=False)
    napkin_median_error: float | None = field(shown=False)
    one_efficiency_median_error: float | None = field(shown=False)
    within_1_25: float = field("within ×1.25", "percent", detail=True)
    within_1_5: float = field("within ×1.5", "percent")
    coverage: float = field("in the range", "percent", "80% were to be")
    coverage_unseen: float | None = field("in one made without the model", "percent", "its estimate and its range")
    worst: tuple[Row, ...] = field("worst rows", shown=False)


class About(o.Group):
    """Which measured rows."""

    model = o.option(None, "--model", "-m", metavar="MODEL", help="Only rows of this model.")
    hardware = o.option(None, "--hardware", "-d", "--gpu", "--device", metavar="DEVICE", help="Only rows of this device.")
    rows = o.option(None, "--rows", metavar="FILE", help="Your own: YAML, JSON, CSV, a load generator's.")
    each = o.switch("--each", help="Row by row, as with any of these.")
    worst = o.option("3", "--worst", metavar="N", read=parse.counting(least=0, most=1000), help="Rows to name that are furthest off.")
    plot = o.switch("--plot", help="Draw expected against measured.")


def accuracy(about: About, out: o.File) -> None:
    """How far the expected times are off public measurements of sources and models that the fit had not seen."""
    c.say(reported(about, drawn=about.plot or out.chosen() in present.PICTURES), out)


def reported(about: About, *, drawn: bool, listed: bool = True) -> Report:
    """The answer, with a picture where one is asked for; `listed`: row by row where few are asked for."""
    number, model, hardware, rows, each = about.worst, about.model, about.hardware, about.rows, about.each
    wanted, device = _model_id(model), devices.load(hardware).id if hardware else None
    others: tuple[own.Unpredicted, ...] = ()
    if rows:
        told = {key: value for key, value in (("model", wanted), ("device", device)) if value}
        answered = own.answered(own.replaced(os.path.expanduser(rows), told))
        found = [one for one in answered.points if all(one.row.get(key) == value for key, value in told.items())]
        others = answered.unpredicted
    else:
        found = estimator.points(estimator.nearby(wanted, device, estimator.bundled()))
    if not found:
        if others:
            more = f" and {len(others) - 1:,} more" if len(others) > 1 else ""
            why = f"no row of {os.path.basename(rows or '')[:60]} can be predicted: {others[0].id}: {others[0].why}{more}"
            raise UsageError("no-measurements", why, "see measurements/decode.yaml for the fields of a row")
        what = " on ".join(word for word in (model, hardware) if word)
        raise UsageError("no-measurements", f"no measured row is of {printable(what, 80)}", "leave one of --model and --hardware out")
    listed = listed and (each or bool(model or hardware or rows))
    off = sorted(found, key=lambda one: abs(math.log(one.ratio)), reverse=True)[:number]
    whole = estimator.summary(found)
    seen = "your own rows" if rows else "sources that the fit had not seen, or models where a class has one"
    return Report(
        command="accuracy",
        title=f"{c.counted(len(found), 'measured row')} against the expected values",
        inputs={"model": model, "hardware": hardware, "rows": rows},
        header=(f"{c.counted(whole['models'], 'model')} · {seen} · ratios are expected over measured; -f csv --each names sources",),
        facts=facts(
            Accuracy(
                **whole,
                unpredicted_rows=others if rows else len(estimator.unpredicted()),
                worst=tuple(_row(one) for one in off),
            ),
            unpredicted_rows=Words(note="measurements/unpredicted.yaml", shown=not listed),
            median_error="the napkin's own: " + present.shown(whole["napkin_median_error"], "percent"),
            coverage_unseen=whole["coverage_unseen"] is not None,
        ),
        columns=columns(Row if listed else Class),
        rows=tuple(_row(one) for one in found) if listed else tuple(_class(one) for one in estimator.table(found)),
        remarks=(*(_words(one) for one in off), *(f"not predicted: {one.id}: {one.why}" for one in others[:SAID]), *_more(others)),
        rows_first=True,
        chart=_chart(found) if drawn else None,
    )


def _model_id(reference: str | None) -> str | None:
    """The bundled id of that name, any case."""
    if reference is None:
        return None
    known = {name.lower(): name for name in sources.bundled_ids()}
    found = known.get(reference.lower())
    if found is None:
        near = close_matches(reference, list(known.values()))
        raise UsageError(
            "no-measurements",
            f"{printable(reference, 80)} is not bundled, so no row is of it",
            f"close: {', '.join(near)}" if near else "llmcalc models list shows what is",
        )
    return found


SAID = 5
"""Rows that are not predicted and named on the screen."""


def _more(others: tuple[own.Unpredicted, ...]) -> tuple[str, ...]:
    return (f"{len(others) - SAID:,} more are not predicted: --json has each with the reason",) if len(others) > SAID else ()


def _class(row: dict[str, Any]) -> Class:
    said = {key: value for key, value in row.items() if key not in ("metric", "group", "mixture")}
    return Class(
        metric=estimator.METRICS[row["metric"]],
        group=rates.GROUP.get(row["group"], "others") + (", mixtures" if row["mixture"] else ""),
        sort="mixture" if row["mixture"] else "dense",
        **said,
    )


def _layout(row: Any) -> str:
    return " ".join(f"{name} {row[name]}" for name in ("tp", "pp", "ep") if row.get(name, 1) > 1)


def _unit(one: estimator.Point) -> str:
    return {"load": "tokens/s", "energy": "J"}.get(one.quantity, "s")


def _row(one: estimator.Point) -> Row:
    row = one.row
    return Row(
        id=row.get("id"),
        model=row["model"],
        weights=row.get("weights", "auto"),
        hardware=row["device"],
        layout=_layout(row),
        engine=row.get("engine"),
        batch=row.get("batch"),
        prompt_tokens=row.get("prompt"),
        output_tokens=row.get("output"),
        metric=estimator.METRICS[one.metric],
        measured=one.measured,
        unit=_unit(one),
        predicted=one.predicted,
        ratio=one.ratio,
        low=one.low,
        high=one.high,
        in_range=one.covered,
        source=row.get("source"),
    )


def _words(one: estimator.Point) -> str:
    row, unit = one.row, _unit(one)
    said = [
        row["model"],
        row.get("weights", ""),
        "on",
        row["device"],
        _layout(row),
        row.get("engine", ""),
        f"({estimator.METRICS[one.metric]})",
    ]
    values = f"expected {present.shown(one.predicted, unit)}, measured {present.shown(one.measured, unit)}"
    return f"{row.get('id')} ×{one.ratio:.2f} {' '.join(filter(None, said))}: {values}"


def _chart(found: list[estimator.Point]) -> Chart:
    """Expected against measured tokens per second of one sequence, one prompt or a replica, and the line where they are equal."""

    def rate(one: estimator.Point, value: float) -> float:
        if one.quantity == "load":
            return value
        row, at_once = one.row, one.row.get("batch") or one.row.get("concurrency") or 1
        tokens = {"step": at_once, "request": at_once * row.get("output", 1)}.get(one.quantity, row.get("prompt"))
        return float((tokens or 1) / value)

    series = []
    for metric, words in estimator.METRICS.items():
        points = tuple(
            {"measured": rate(one, one.measured), "predicted": rate(one, one.predicted)} for one in found if one.metric == metric
        )
        if points:
            series.append(Series(words, points))
    values = [point["measured"] for one in series for point in one.points]
    ends = tuple({"measured": value, "predicted": value} for value in (min(values), max(values)))
    return Chart(
        "expected against measured",
        Axis("measured", "measured tokens/s"),
        Axis("predicted", "expected tokens/s"),
        (Series("equal", ends, line=True), *series),
    )


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("accuracy", epilog=EXAMPLES)(o.command(accuracy, ()))
