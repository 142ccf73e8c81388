"""Estimates held against measurements that others published: which rows there are, what is predicted for each, how far off it is.

Unless a row is somebody's own, its prediction comes from a calibration that had not seen its model (`measurements/unseen.json`,
written by scripts/calibrate.py with the calibration itself).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from llmcalc import data, engines, hardware, sources
from llmcalc import model as model_reader
from llmcalc.architecture import Model
from llmcalc.engines import Engine
from llmcalc.errors import LlmcalcError, UsageError, printable
from llmcalc.estimate import memory, rates, step, terms
from llmcalc.plan import Deployment, Workload

FILES = ("decode", "prefill")
STEPS = ("tpot", "itl", "stream_tokens_per_s", "batch_tokens_per_s", "request_s")
LOADS = ("max_load_tokens_per_s", "max_load_tokens_per_s_per_device")
PROMPTS = ("prompt_tokens_per_s", "batch_prompt_tokens_per_s", "ttft")
ONE_EFFICIENCY = 0.7
METRICS = {
    "stream": "one stream",
    "batch": "batch",
    "prompt": "prompt",
    "ttft": "first token",
    "load": "full load",
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
    weight_bytes: float
    unseen_low: float | None = None
    unseen_high: float | None = None
    """The range of bands that had not seen the model either."""

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
    return [row for name in FILES for row in read(data.bundled("measurements") / f"{name}.yaml")]


def unpredicted() -> list[dict[str, Any]]:
    """Rows of the same sources that cannot be predicted, with the reason."""
    return read(data.bundled("measurements") / "unpredicted.yaml")


@cache
def unseen() -> dict[str, tuple[float, float, float]]:
    """What a calibration without a row's model predicts for it, and its range of times as factors, by the row's id."""
    text = (data.bundled("measurements") / "unseen.json").read_text(encoding="utf-8")
    found: dict[str, tuple[float, float, float]] = json.loads(text)["predicted"]
    return found


@cache
def model_of(reference: str) -> Model:
    """A bundled model."""
    found = sources.find(reference, offline=True)
    return model_reader.read(found.config, id=found.id, source=found.kind, revision=found.revision, quant=found.quant, facts=found.facts)


def _engine(name: str) -> Engine:
    return replace(engines.ENGINES["napkin"], name=name, kind="desktop") if name == "exllamav3" else engines.find(name)


def field(row: Mapping[str, Any], name: str, otherwise: Any = None) -> Any:
    """A field that a row must have, unless there is an otherwise. Errors: bad-row."""
    value = row.get(name, otherwise)
    if value is None:
        raise UsageError(
            "bad-row", f"row {printable(str(row.get('id')), 40)} has no {name}", "see measurements/decode.yaml for the fields of a row"
        )
    return value


def deployment(row: Mapping[str, Any], model: Model) -> Deployment:
    """How the row was run. Errors: those of the model's formats and of the device."""
    return Deployment(
        device=hardware.load(field(row, "device")),
        weights=memory.weight_format(model, field(row, "weights", "auto"))[0],
        kv=memory.kv_format(model, row.get("kv", "auto"))[0],
        tp=row.get("tp", 1),
        pp=row.get("pp", 1),
        ep=row.get("ep", 1),
        engine=_engine(row.get("engine", "napkin")),
        max_sequences=row.get("max_batch"),
    )


def workload(row: Mapping[str, Any]) -> Workload:
    """Sequences at their mean length: the prompt and half of the answer."""
    prompt, output = int(row.get("prompt", 0)), row.get("output", 0)
    served = row["metric"] in ("tpot", "itl", *LOADS) and prompt and output
    return Workload(max(1, prompt + output / 2), row.get("batch", 1), prompt if served else None, output if served else None)


def measured(row: Mapping[str, Any], plan: Deployment) -> float:
    """The measured value as seconds per step or prompt, or tokens per second of the replica under full load."""
    value, metric, batch = float(field(row, "value")), row["metric"], row.get("batch", 1)
    if metric in ("tpot", "itl", "ttft"):
        return value
    if metric == "request_s":
        return value / float(field(row, "output"))
    if metric in ("stream_tokens_per_s", "batch_tokens_per_s"):
        return float(batch) / value
    if metric in PROMPTS:
        return float(field(row, "prompt")) / value
    return value * plan.ranks if metric.endswith("per_device") else value


def point(row: Mapping[str, Any], model: Model, *, known: tuple[float, float, float] | None = None) -> Point:
    """What is predicted for a row; `known`: of a calibration that had not seen its model."""
    plan, metric = deployment(row, model), field(row, "metric")
    if metric in STEPS:
        work = workload(row)
        found, quantity = step.step(model, plan, work, "expected"), "step"
        ideal = step.napkin_time(found.terms).value
        words = "stream" if work.batch == 1 else "batch"
    elif metric in PROMPTS:
        prompt, cached, quantity = int(field(row, "prompt")), int(row.get("cached", 0)), "prompt"
        reading = terms.prompt_terms(model, plan, prompt + cached, cached)
        others = row.get("batch", 1) - 1 if metric == "ttft" else 0
        timed, ideal = step.ttft(model, plan, prompt + cached, cached, others, reading), step.prompt_time(reading).value
        if timed is None:
            raise UsageError("no-compute-rate", f"{plan.device.id} has no known compute rate", "its prompts cannot be timed")
        found, words = timed, "ttft" if metric == "ttft" else "prompt"
    elif metric in LOADS:
        prompt, output, quantity, words = int(field(row, "prompt")), field(row, "output"), "load", "load"
        full = step.load(model, plan, prompt, output)
        if full is None:
            raise UsageError("bad-row", f"a full load of {plan.engine.name} is not predicted", "name a serving engine, such as vllm")
        found = full
        batch = step.running(model, plan, prompt, output)
        ideal = batch / step.step(model, plan, Workload(prompt + output / 2, batch), "napkin").mid_s
    else:
        raise UsageError(
            "bad-row",
            f"{printable(str(metric), 40)!r} is not a metric that is predicted",
            f"use one of {', '.join((*STEPS, *PROMPTS, *LOADS))}",
        )
    of_kind = rates.kind(plan)
    mid, low, high = known or (found.mid.value, None, None)
    factor = mid / found.mid.value
    if low is not None and high is not None:
        low, high = (mid / high, mid / low) if quantity == "load" else (mid * low, mid * high)
    return Point(
        row,
        quantity,
        words,
        of_kind,
        rates.class_of(plan) or "other",
        rates.mixture(model),
        measured(row, plan),
        mid,
        found.low * factor,
        found.high * factor,
        ideal,
        memory.weight_bytes(model, plan.weights, "weight_bytes", lambda _: True).value,
        low,
        high,
    )


def points(rows: Iterable[Mapping[str, Any]], *, fresh: bool = False) -> list[Point]:
    """Predictions for rows. `fresh`: with the shipped calibration, even where the row was part of it."""
    known = {} if fresh else unseen()
    return [point(row, model_of(field(row, "model")), known=known.get(str(row.get("id")))) for row in rows]


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
    few_gb = 3e9

    def chosen(test: Any) -> list[Point]:
        return [each for each in found if test(each)]

    def linked(each: Point) -> bool:
        link = hardware.load(each.row["device"]).link
        return link is not None and link.type.startswith(("NVLink", "Infinity"))

    load = chosen(lambda each: each.quantity == "load")
    return [
        ("one sequence, dense, at least 3 GB read", chosen(lambda e: e.metric == "stream" and not e.mixture and e.weight_bytes >= few_gb)),
        ("one sequence, mixtures", chosen(lambda e: e.metric == "stream" and e.mixture)),
        ("time per token of a server", chosen(lambda e: e.quantity == "step" and e.kind == "serving")),
        ("first token of a server, few sequences", chosen(lambda e: e.metric == "ttft" and e.row.get("batch", 1) <= 4)),
        (
            "one prompt on one device",
            chosen(
                lambda e: (
                    e.metric == "prompt"
                    and e.row.get("tp", 1) * e.row.get("pp", 1) * e.row.get("ep", 1) == 1
                    and e.row.get("batch", 1) == 1
                )
            ),
        ),
        ("full load, dense, NVLink or Infinity Fabric", [e for e in load if not e.mixture and linked(e)]),
        ("full load, dense, PCIe", [e for e in load if not e.mixture and not linked(e)]),
        ("full load, mixtures", [e for e in load if e.mixture]),
    ]
