"""Estimates held against measurements that others published: which rows there are, what is predicted for each, how far off it is.

Unless a row is somebody's own, its prediction comes from a calibration that had not seen its source, or, where a class has one
source, its model (`measurements/unseen.json`, written by scripts/calibrate.py with the calibration itself).
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from llmcalc import data, hardware, measured
from llmcalc.architecture import Model
from llmcalc.errors import LlmcalcError
from llmcalc.estimate import rates, step, terms
from llmcalc.plan import Workload

FILES = ("decode", "prefill")
WORDS = frozenset("id source model device engine version weights kv metric date backend".split())
"""Columns of a table that hold no numbers."""
ONE_EFFICIENCY = 0.7
METRICS = {
    "stream": "one stream",
    "batch": "batch",
    "prompt": "prompt",
    "ttft": "first token",
    "request": "static batch",
    "load": "full load",
    "energy": "energy",
}


@dataclass(frozen=True, slots=True)
class Point:
    """One measured row and what is predicted for it: seconds, or tokens per second under full load."""

    row: Mapping[str, Any]
    quantity: str
    """step, prompt or load."""
    metric: str
    kind: str
    group: str
    mixture: bool
    measured: float
    predicted: float
    low: float
    high: float
    ideal: float
    at_once: float
    """Sequences in flight; of an open loop, as many as are expected."""
    unseen_low: float | None = None
    unseen_high: float | None = None
    """The range of bands that had not seen the source either."""
    without_model: float | None = None
    """What is expected by a calibration that had not seen the model, where `predicted` is of one without the source."""

    @property
    def ratio(self) -> float:
        """Predicted over measured; above 1 is too slow for a time, too fast for a rate."""
        return self.predicted / self.measured

    @property
    def covered(self) -> bool:
        """Whether the measured value is in the range."""
        return self.low <= self.measured <= self.high

    @property
    def covered_unseen(self) -> bool | None:
        """Whether it is in the range of bands that had not seen its model; None for a row that no calibration knows."""
        if self.unseen_low is None or self.unseen_high is None:
            return None
        return self.unseen_low <= self.measured <= self.unseen_high


# ---- rows ---------------------------------------------------------------------------------------------------------


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a measurement file, their sources written out. Errors: not-measurements and those of reading a file."""
    text = data.read_text(path, "measurement file", limit=16 * 2**20)
    found = data.parse_yaml(text, str(path), "measurement file")
    if not isinstance(found, dict) or not isinstance(found.get("rows"), list) or not all(isinstance(row, dict) for row in found["rows"]):
        raise LlmcalcError("not-measurements", f"{path} has no list of rows", "write it like measurements/decode.yaml")
    cited = found.get("sources", {})
    return [{**row, "source": cited.get(row.get("source"), row.get("source"))} for row in found["rows"]]


def bundled() -> list[dict[str, Any]]:
    """Every bundled row that can be predicted."""
    rows = [row for name in FILES for row in read(data.bundled("measurements") / f"{name}.yaml")]
    return rows + table_rows(data.bundled("measurements") / "more.csv")


def table_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a table with a head: a column a field, what is empty left out, numbers as numbers."""
    text = data.read_text(path, "measurement file", limit=16 * 2**20)
    rows = csv.DictReader(text.splitlines())
    found = [{key: value if key in WORDS else _number(value) for key, value in row.items() if value} for row in rows]
    cited = _sources(path.with_name("sources.yaml"))
    return [{**row, "source_id": row["source"], "source": cited.get(str(row["source"]), str(row["source"]))} for row in found]


def _sources(path: Path) -> dict[str, str]:
    """What a table's words for its sources stand for."""
    if not path.exists():
        return {}
    kept = data.parse_yaml(data.read_text(path, "measurement file"), str(path), "measurement file")["sources"]
    return {name: f"{one['url']} ({one['licence']}; read {one['read']})" for name, one in kept.items()}


def _number(text: str) -> float:
    return int(text) if text.isdecimal() else float(text)


def unpredicted() -> list[dict[str, Any]]:
    """Rows of the same sources that cannot be predicted, with the reason."""
    found = read(data.bundled("measurements") / "unpredicted.yaml")
    return [{**row, "id": id} for row in found for id in str(row.get("ids", row.get("id"))).split()]


UNSEEN = (
    "By a row's id: quantity, kind of row, kind of engine, class, whether a mixture; then measured, expected by a calibration that had not "
    "seen its source (where its class has no other: its model), and its model; the range's ends as factors of the time, and of one made "
    "without the source; the napkin's; sequences in flight. Seconds; of a load, tokens per second."
)


@cache
def unseen() -> dict[str, list[Any]]:
    """What calibrations without a row's source, or without its model, expect of it, by the row's id: see UNSEEN."""
    text = (data.bundled("measurements") / "unseen.json").read_text(encoding="utf-8")
    found: dict[str, list[Any]] = json.loads(text)["predicted"]
    return found


def _known(row: Mapping[str, Any], kept: list[Any]) -> Point:
    """A bundled row's point, from what calibrations that had not seen it expect."""
    quantity, metric, kind, group, mixture, value, source, model, low, high, blind_low, blind_high, napkin, at_once = kept
    ends = ((low, high), (blind_low, blind_high))
    (low, high), (blind_low, blind_high) = (
        (source / up, source / down) if quantity == "load" else (source * down, source * up) for down, up in ends
    )
    return Point(
        row=row,
        quantity=quantity,
        metric=metric,
        kind=kind,
        group=group,
        mixture=bool(mixture),
        measured=value,
        predicted=source,
        low=low,
        high=high,
        ideal=napkin,
        at_once=at_once,
        unseen_low=blind_low,
        unseen_high=blind_high,
        without_model=model,
    )


def point(row: Mapping[str, Any], model: Model) -> Point:
    """What is expected for a row, by the shipped calibration. Errors: those of reading a row."""
    asked = measured.ask(row, model)
    plan = asked.plan
    found = measured.estimate(asked)
    return Point(
        row=row,
        quantity=asked.quantity,
        metric=word(asked),
        kind=rates.kind(plan),
        group=rates.class_of(plan) or "other",
        mixture=rates.mixture(model),
        measured=asked.value,
        predicted=found.mid.value,
        low=found.low,
        high=found.high,
        ideal=ideal(asked),
        at_once=asked.work.batch,
    )


def word(asked: measured.Asked) -> str:
    """The kind of row in METRICS."""
    if asked.quantity == "step":
        return "stream" if asked.work.batch == 1 else "batch"
    return asked.quantity


def ideal(asked: measured.Asked) -> float:
    """The napkin's time or rate for the same question."""
    model, plan, work = asked.model, asked.plan, asked.work
    prompt, output = work.prompt or 0, work.output or 1
    if asked.quantity == "load":
        batch = step.running(model, plan, prompt, output)
        return float(batch / step.step(model, plan, Workload(prompt + output / 2, batch), "napkin").mid_s)
    if asked.quantity == "energy":
        watts = (plan.device.power_w or math.nan) * plan.ranks
        return float(watts * step.step(model, plan, Workload(work.ctx, work.batch), "napkin").mid_s / work.batch)
    if asked.quantity == "step":
        return float(step.step(model, plan, Workload(work.ctx, work.batch), "napkin").mid_s)
    busy = float(step.prompt_time(terms.prompt_terms(model, plan, prompt, work.cached)).value or math.nan)
    if asked.quantity == "request":
        return float(work.batch) * busy + output * float(step.step(model, plan, Workload(work.ctx, work.batch), "napkin").mid_s)
    return busy


def points(rows: Iterable[Mapping[str, Any]], *, fresh: bool = False) -> list[Point]:
    """Predictions for rows. `fresh`: with the shipped calibration, even where the row was part of it."""
    known = {} if fresh else unseen()
    found = []
    for row in rows:
        kept = known.get(str(row.get("id")))
        found.append(_known(row, kept) if kept else point(row, measured.model_of(measured.field(row, "model"))))
    return found


# ---- how far off --------------------------------------------------------------------------------------------------


def quantile(values: Iterable[float], share: float) -> float:
    """A quantile, straight between neighbours."""
    sorted_values = sorted(values)
    place = share * (len(sorted_values) - 1)
    low = math.floor(place)
    high = min(low + 1, len(sorted_values) - 1)
    return sorted_values[low] + (sorted_values[high] - sorted_values[low]) * (place - low)


def median_error(ratios: Iterable[float]) -> float:
    """The median of |predicted / measured - 1|."""
    return quantile([abs(ratio - 1) for ratio in ratios], 0.5)


def summary(found: list[Point]) -> dict[str, Any]:
    """How far off some points are, beside the napkin's ideal and one efficiency for everything."""
    ratios = [each.ratio for each in found]

    def within(factor: float) -> float:
        return sum(1 / factor <= ratio <= factor for ratio in ratios) / len(ratios)

    def other(efficiency: float) -> float:
        return median_error(
            (each.ideal * efficiency if each.quantity == "load" else each.ideal / efficiency) / each.measured for each in found
        )

    blind = [each.covered_unseen for each in found if each.covered_unseen is not None]
    return {
        "rows": len(found),
        "models": len({each.row["model"] for each in found}),
        "median_error": median_error(ratios),
        "median_error_without_model": median_error((each.without_model or each.predicted) / each.measured for each in found),
        "median_ratio": quantile(ratios, 0.5),
        "p10_ratio": quantile(ratios, 0.1),
        "p90_ratio": quantile(ratios, 0.9),
        "within_1_25": within(1.25),
        "within_1_5": within(1.5),
        "coverage": sum(each.covered for each in found) / len(found),
        "coverage_unseen": sum(blind) / len(blind) if blind else None,
        "napkin_median_error": other(1.0),
        "one_efficiency_median_error": other(ONE_EFFICIENCY),
    }


def table(found: list[Point], by: tuple[str, ...] = ("metric", "kind", "group", "mixture")) -> list[dict[str, Any]]:
    """One summary per class, in the order of METRICS."""
    order = list(METRICS)
    classes: dict[tuple[Any, ...], list[Point]] = {}
    for each in found:
        classes.setdefault(tuple(getattr(each, name) for name in by), []).append(each)
    keys = sorted(classes, key=lambda key: [order.index(part) if part in order else 0 for part in key] + [str(part) for part in key])
    return [dict(zip(by, key, strict=True)) | summary(classes[key]) for key in keys]


def nearby(model: str | None, device: str | None, rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Rows of a model or a device, or both."""
    return [row for row in rows if (model is None or row["model"] == model) and (device is None or row["device"] == device)]


def targets(found: list[Point]) -> list[tuple[str, list[Point]]]:
    """The groups of rows that the estimates were built to meet a bound on, by name."""

    def chosen(test: Callable[[Point], bool]) -> list[Point]:
        return [each for each in found if test(each)]

    def cards(each: Point) -> bool:
        return hardware.load(each.row["device"]).device_class != "datacenter" or each.group == "ada"

    served = chosen(lambda e: e.quantity == "step" and e.kind == "serving")
    load = chosen(lambda e: e.quantity == "load")
    streams = chosen(lambda e: e.metric == "stream" and e.kind == "desktop")
    desks = {"consumer": "GeForce and Radeon", "apple": "Apple", "unified-amd": "Strix Halo", "unified-nvidia": "DGX Spark"}
    servers = {"hopper": "Hopper", "blackwell": "Blackwell", "unified-nvidia": "DGX Spark under a server"}
    return [
        *((f"one stream, {words}", [e for e in streams if e.group == group]) for group, words in desks.items()),
        ("one prompt, desktops", chosen(lambda e: e.metric == "prompt" and e.kind == "desktop")),
        *((f"time per token of a server, {words}", [e for e in served if e.group == group]) for group, words in servers.items()),
        ("static batch of a server", chosen(lambda e: e.quantity == "request")),
        ("first token of a server, up to 16 sequences", chosen(lambda e: e.metric == "ttft" and e.kind == "serving" and e.at_once <= 16)),
        ("full load, data centre", [e for e in load if not cards(e)]),
        ("full load, cards", [e for e in load if cards(e)]),
        ("joules per token", chosen(lambda e: e.quantity == "energy")),
    ]
