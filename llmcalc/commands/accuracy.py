"""`llmcalc accuracy`: the estimates held against public measurements, and which of those are near one's own case."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import typer

from llmcalc import accuracy as estimator
from llmcalc import hardware as devices
from llmcalc import present, sources
from llmcalc.commands import common as c
from llmcalc.commands import options as o
from llmcalc.commands import parse
from llmcalc.errors import UsageError, close_matches, printable
from llmcalc.estimate import rates
from llmcalc.present import Axis, Chart, Column, Fact, Report, Series

EXAMPLES = """
Examples:

  llmcalc accuracy

  llmcalc accuracy -d rtx-4090

  llmcalc accuracy -m meta-llama/Meta-Llama-3-8B --plot

  llmcalc accuracy --rows my-measurements.yaml
"""
CLASSES = (
    Column("metric", "what"),
    Column("kind", "engine", rank=6),
    Column("group", "class"),
    Column("sort", "model", shown=False),
    Column("rows", "rows"),
    Column("models", "models", shown=False),
    Column("median_error", "median error", "percent"),
    Column("median_error_without_model", "without the model", "percent", rank=11),
    Column("median_ratio", "median ratio", rank=7),
    Column("p10_ratio", "p10", rank=4),
    Column("p90_ratio", "p90", rank=4),
    Column("within_1_25", "within ×1.25", "percent", rank=8),
    Column("within_1_5", "within ×1.5", "percent", rank=8),
    Column("coverage", "in range", "percent", rank=2),
    Column("coverage_unseen", "made without", "percent", rank=10),
    Column("napkin_median_error", "napkin", "percent", rank=3),
    Column("one_efficiency_median_error", "70% of ideal", "percent", rank=9),
)
ROWS = (
    Column("id", "row"),
    Column("model", "model"),
    Column("weights", "weights", rank=4),
    Column("hardware", "device"),
    Column("layout", "layout", rank=5),
    Column("engine", "engine", rank=3),
    Column("batch", "batch", rank=6),
    Column("prompt_tokens", "prompt", "tokens", rank=7),
    Column("output_tokens", "answer", "tokens", rank=8),
    Column("metric", "metric", rank=2),
    Column("measured", "measured", rank=1),
    Column("unit", "unit", rank=1),
    Column("predicted", "expected", rank=1),
    Column("ratio", "ratio"),
    Column("low", "low", shown=False),
    Column("high", "high", shown=False),
    Column("in_range", "in range", rank=3),
    Column("source", "source", shown=False),
)


class About(o.Group):
    """Which measured rows."""

    model = o.option(None, "--model", "-m", metavar="MODEL", help="Only rows of this model.")
    hardware = o.option(None, "--hardware", "-d", "--gpu", "--device", metavar="DEVICE", help="Only rows of this device.")
    rows = o.option(None, "--rows", metavar="FILE", help="Your own rows instead, as in measurements/*.yaml.")
    each = o.switch("--each", help="Row by row. [default: with --model, --hardware or --rows]")
    worst = o.option("3", "--worst", metavar="N", read=parse.counting(least=0, most=1000), help="Name the rows that are furthest off.")
    plot = o.switch("--plot", help="Draw expected against measured.")


def accuracy(about: About, out: o.File) -> None:
    """How far the expected times are off public measurements of sources and models that the fit had not seen."""
    number, model, hardware, rows, each = about.worst, about.model, about.hardware, about.rows, about.each
    everything = estimator.read(Path(os.path.expanduser(rows))) if rows else estimator.bundled()
    chosen = estimator.nearby(_model_id(model), devices.load(hardware).id if hardware else None, everything)
    if not chosen:
        what = " on ".join(word for word in (model, hardware) if word)
        raise UsageError("no-measurements", f"no measured row is of {printable(what, 80)}", "leave one of --model and --hardware out")
    found = estimator.points(chosen, fresh=rows is not None)
    listed = each or bool(model or hardware or rows)
    off = sorted(found, key=lambda one: abs(math.log(one.ratio)), reverse=True)[:number]
    whole = estimator.summary(found)
    seen = "your own rows" if rows else "sources that the fit had not seen, or models where a class has one"
    report = Report(
        command="accuracy",
        title=f"{c.counted(len(found), 'measured row')} against the expected values",
        inputs={"model": model, "hardware": hardware, "rows": rows},
        header=(f"{c.counted(whole['models'], 'model')} · {seen} · ratios are expected over measured; -f csv --each names sources",),
        facts=(
            Fact("rows", "rows", whole["rows"]),
            Fact("models", "models", whole["models"]),
            Fact(
                "unpredicted_rows",
                "rows that cannot be predicted",
                len(estimator.unpredicted()),
                shown=not listed,
                note="measurements/unpredicted.yaml",
            ),
            Fact(
                "median_error",
                "median error",
                whole["median_error"],
                "percent",
                note="the napkin's own: " + present.shown(whole["napkin_median_error"], "percent"),
            ),
            *(
                Fact(key, key, whole[key], shown=False)
                for key in (
                    "median_error_without_model",
                    "median_ratio",
                    "p10_ratio",
                    "p90_ratio",
                    "napkin_median_error",
                    "one_efficiency_median_error",
                )
            ),
            Fact("within_1_25", "within ×1.25", whole["within_1_25"], "percent"),
            Fact("within_1_5", "within ×1.5", whole["within_1_5"], "percent"),
            Fact("coverage", "in the range", whole["coverage"], "percent", note="80% were to be"),
            Fact(
                "coverage_unseen",
                "in one made without the model",
                whole["coverage_unseen"],
                "percent",
                shown=whole["coverage_unseen"] is not None,
                note="its estimate and its range",
            ),
            Fact("worst", "worst rows", [_row(one) for one in off], shown=False),
        ),
        columns=ROWS if listed else CLASSES,
        rows=tuple(_row(one) for one in found) if listed else tuple(_class(one) for one in estimator.table(found)),
        remarks=tuple(_words(one) for one in off),
        rows_first=True,
        chart=_chart(found) if about.plot or out.chosen() in present.PICTURES else None,
    )
    c.say(report, out)


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


def _class(row: dict[str, Any]) -> dict[str, Any]:
    return row | {
        "metric": estimator.METRICS[row["metric"]],
        "group": rates.GROUP.get(row["group"], "others") + (", mixtures" if row["mixture"] else ""),
        "sort": "mixture" if row["mixture"] else "dense",
    }


def _layout(row: Any) -> str:
    return " ".join(f"{name} {row[name]}" for name in ("tp", "pp", "ep") if row.get(name, 1) > 1)


def _row(one: estimator.Point) -> dict[str, Any]:
    """One measured row beside what is expected: seconds, or tokens per second under full load."""
    row = one.row
    return {
        "id": row.get("id"),
        "model": row["model"],
        "weights": row.get("weights", "auto"),
        "hardware": row["device"],
        "layout": _layout(row),
        "engine": row.get("engine"),
        "batch": row.get("batch"),
        "prompt_tokens": row.get("prompt"),
        "output_tokens": row.get("output"),
        "metric": estimator.METRICS[one.metric],
        "measured": one.measured,
        "unit": "tokens/s" if one.quantity == "load" else "s",
        "predicted": one.predicted,
        "ratio": one.ratio,
        "low": one.low,
        "high": one.high,
        "in_range": one.covered,
        "source": row.get("source"),
    }


def _words(one: estimator.Point) -> str:
    row, unit = one.row, "tokens/s" if one.quantity == "load" else "s"
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
