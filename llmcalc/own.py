"""One's own measured rows, as people write them: each is predicted by the function behind the command that it describes, or said why not.

A steady row asks the step, the prompt or the load; one at a rate, or one that names a percentile, asks the simulation.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmcalc import accuracy, data, engines, hardware, loadgen, measured, sources, traffic, units
from llmcalc.accuracy import Point
from llmcalc.answers import Answer, answer, field
from llmcalc.api import of_source
from llmcalc.architecture import Model
from llmcalc.errors import LlmcalcError, UsageError, printable
from llmcalc.estimate import rates, served, step
from llmcalc.estimate.service import Service
from llmcalc.plan import Deployment, Workload
from llmcalc.sources import bundled as shipped

NAMES = {
    "hardware": "device", "gpu": "device", "gpus": "n_devices", "devices": "n_devices", "count": "n_devices", "num_gpus": "n_devices",
    "dtype": "weights", "quantization": "weights", "quant": "weights", "format": "weights", "kv_dtype": "kv", "kv_cache_dtype": "kv",
    "isl": "prompt", "input": "prompt", "input_len": "prompt", "prompt_tokens": "prompt", "osl": "output", "output_len": "output",
    "output_tokens": "output", "max_concurrency": "concurrency", "users": "concurrency", "request_rate": "rate", "batch_size": "batch",
    "measured": "value", "tensor_parallel": "tp", "pipeline_parallel": "pp", "expert_parallel": "ep", "data_parallel": "dp",
    "release": "version", "engine_version": "version", "max_num_seqs": "max_batch", "max_num_batched_tokens": "batched_tokens",
    "ctx_tokens": "ctx", "context": "ctx", "name": "id",
}  # fmt: skip
"""What people call the fields of a row."""
COUNTS = ("prompt", "output", "cached", "ctx", "batch", "concurrency", "tp", "pp", "ep", "dp", "n_devices", "max_batch", "batched_tokens")
NUMBERS = ("value", "rate", "burstiness", "requests")
SECONDS = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "milliseconds": 1e-3, "us": 1e-6, "µs": 1e-6}
COPY = re.compile(r"([-_.](awq|gptq|fp8|nvfp4|fp4|mxfp4|int[48]|w[48]a\d+|[3468]bit|bnb|gguf|mlx|dynamic|dwq))+$")
"""The end of the name of somebody's copy in another format."""
TIMED = re.compile(r"(tpot|itl|ttft|request|e2e)(?:_(mean|median|p\d{2}))?")
OF_SHARE = {"median": 0.5}
SIMULATED = 400
"""Requests of a simulated row that does not say how many there were."""


@answer()
class Unpredicted(Answer):
    """A row that no command answers, and why."""

    id: str = field("row")
    why: str = field("why")


@dataclass(frozen=True, slots=True)
class Answered:
    """What came of a file: the rows that are predicted, and the others."""

    points: tuple[Point, ...]
    unpredicted: tuple[Unpredicted, ...]


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a file: YAML or JSON with a list of rows, a table, or what a load generator wrote. Errors: not-measurements, of files."""
    text = data.read_text(path, "measurement file", limit=16 * 2**20)
    ending = path.suffix.lower()
    if ending in (".csv", ".tsv"):
        return [dict(row) for row in csv.DictReader(text.splitlines(), delimiter="\t" if ending == ".tsv" else ",")]
    found: Any = None
    if ending in (".json", ".jsonl"):
        try:
            found = json.loads(text) if ending == ".json" else [json.loads(line) for line in text.splitlines() if line.strip()]
        except ValueError:
            raise LlmcalcError("not-measurements", f"{path} is no JSON", "write it like measurements/decode.yaml") from None
        if isinstance(found, dict) and not isinstance(found.get("rows"), list):
            return loadgen.rows(str(path), loadgen.Told())
    else:
        found = data.parse_yaml(text, str(path), "measurement file")
    rows = found.get("rows") if isinstance(found, dict) else found
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise LlmcalcError("not-measurements", f"{path} has no list of rows", "write it like measurements/decode.yaml")
    cited = found.get("sources", {}) if isinstance(found, dict) else {}
    cited = cited if isinstance(cited, dict) else {}
    return [{**row, "source": cited.get(str(row.get("source")), row.get("source")), **_beside(path, row)} for row in rows]


def _beside(path: Path, row: Mapping[str, Any]) -> dict[str, str]:
    """Where the trace lies that a row names, beside its file or one folder up; nothing where it does not."""
    trace = row.get("trace")
    if not isinstance(trace, str):
        return {}
    return next(
        ({"trace": str(folder / trace)} for folder in (path.parent, path.parent.parent) if (folder / trace).is_file()), {"trace": ""}
    )


def plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row in the project's words and units. Errors: bad-row, and those of names."""
    found: dict[str, Any] = {}
    for key, value in row.items():
        name = str(key).strip().lower().replace("-", "_").replace(" ", "_")
        if value not in (None, ""):
            found.setdefault(NAMES.get(name, name), value)
    for key in COUNTS:
        if key in found:
            found[key] = _count(found[key], key)
    metric = str(measured.field(found, "metric")).strip().lower().replace("-", "_")
    unit = str(found.get("unit", "")).strip().lower()
    for end in ("ms", "us", "s"):
        if TIMED.fullmatch(metric.removesuffix(f"_{end}")) and metric.endswith(f"_{end}"):
            metric, unit = metric.removesuffix(f"_{end}"), unit or end
    timed = TIMED.fullmatch(metric) is not None or metric == "request_s"
    for key in NUMBERS:
        if key in found:
            found[key] = _number(found[key], key, SECONDS.get(unit, 1.0) if key == "value" and timed else 1.0)
    if timed and unit and unit not in SECONDS:
        raise _bad(found, f"{printable(unit, 20)!r} is no unit of time")
    if not (math.isfinite(float(measured.field(found, "value"))) and found["value"] > 0):
        raise _bad(found, "the value is no positive number")
    found |= _engine(found) | {"metric": metric}
    count, device = hardware.parse_count(str(measured.field(found, "device")))
    found["device"] = hardware.load(device).id if not str(device).endswith((".yaml", ".yml")) else device
    found["n_devices"] = max(count, int(found.get("n_devices", 1)))
    return found


def _bad(row: Mapping[str, Any], what: str) -> UsageError:
    return UsageError("bad-row", f"row {printable(str(row.get('id')), 40)}: {what}", "see measurements/decode.yaml for the fields of a row")


def _count(value: Any, key: str) -> float:
    if not isinstance(value, int | float | str) or isinstance(value, bool):
        raise UsageError("bad-row", f"{key} {printable(str(value), 20)!r} is no number of them", "write it like 4096 or 4k")
    try:
        found = float(value) if not isinstance(value, str) else float(value.replace(",", "").replace("_", ""))
    except ValueError:
        found = float(units.tokens(str(value), key))
    if not (math.isfinite(found) and found >= 0):
        raise UsageError("bad-row", f"{key} {printable(str(value), 20)!r} is no number of them", "write it like 4096 or 4k")
    return int(found) if found == int(found) else found


def _number(value: Any, key: str, factor: float) -> float:
    text = str(value).strip().lower().replace(",", "")
    parts = re.fullmatch(r"([-+0-9.e]+)\s*(s|sec|ms|us|µs|tok/s|tokens/s|t/s|j|/s|req/s)?", text)
    try:
        number = float(parts[1]) if parts else math.nan
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise UsageError("bad-row", f"{key} {printable(str(value), 20)!r} is no positive number", "write it like 12.5")
    return number * (SECONDS[parts[2]] if parts and parts[2] in SECONDS and key == "value" else factor)


def _engine(row: Mapping[str, Any]) -> dict[str, Any]:
    """The engine's name and release of 'vLLM 0.9.1', 'llama.cpp b4567', 'vllm==0.9'."""
    text = str(row.get("engine", "")).strip().lower()
    if not text or text in measured.LIKE:
        return {}
    parts = re.fullmatch(r"([a-z][a-z. -]*?[a-z])[ @=:v]*((?:b?\d)[\w.]*)?", text)
    name, release = (parts[1], parts[2]) if parts else (text, None)
    engines.find(name)
    return {"engine": name} | ({"version": release} if release and not row.get("version") else {})


def model_of(reference: str) -> Model:
    """A bundled model of that id, whatever its case, of its last part, or that a file was made from; else a file. Errors: of sources."""
    known = {name.lower(): name for name in shipped.bundled_ids()}
    low = reference.strip().lower().removeprefix("https://huggingface.co/")
    tails = [name for key, name in known.items() if key.rpartition("/")[2] == low.rpartition("/")[2]]
    name = known.get(low) or (tails[0] if len(tails) == 1 and "/" not in low else None) or shipped.base_model(reference)
    if name not in known.values():
        stem = COPY.sub("", low.rpartition("/")[2])
        tails = [known[key] for key in known if key.rpartition("/")[2] == stem]
        name = tails[0] if len(tails) == 1 else name
    if name in known.values():
        return measured.model_of(str(name))
    return of_source(sources.find(reference, offline=True))


def laid_out(row: Mapping[str, Any]) -> dict[str, Any]:
    """With as many ranks as devices, where the row says no layout: as the engine lays a model over them."""
    devices, told = int(row["n_devices"]), [int(row.get(key) or 1) for key in ("tp", "pp", "dp")]
    if devices == 1 or math.prod(told) > 1 or int(row.get("ep") or 1) > 1:
        return dict(row)
    tp, pp = engines.find(str(row.get("engine", "napkin"))).layout(devices)
    return {**row, "tp": tp, "pp": pp}


def answered(rows: Iterable[Mapping[str, Any]]) -> Answered:
    """Every row that can be predicted, and the others with the reason; it never stops at one."""
    points, others, runs = [], [], {}  # type: ignore[var-annotated]
    for number, row in enumerate(rows, 1):
        name = str(row.get("id", number))
        try:
            points.append(_point({**row, "id": name}, runs))
        except LlmcalcError as problem:
            others.append(Unpredicted(id=name, why=problem.message))
        except (ValueError, TypeError, KeyError, ZeroDivisionError, OverflowError) as problem:
            others.append(Unpredicted(id=name, why=f"a field is not what it should be ({printable(str(problem), 80)})"))
    return Answered(tuple(points), tuple(others))


def _point(given: Mapping[str, Any], runs: dict[Any, served.Replayed]) -> Point:
    row = laid_out(plain(given))
    model = model_of(str(measured.field(row, "model")))
    row["model"] = model.id
    timed = TIMED.fullmatch(row["metric"])
    share = timed[2] if timed else None
    steady = share in (None, "mean", "median", "p50")
    if row["metric"] == "output_tokens_per_s":
        return _simulated(row, model, "output", None, runs)
    if timed and (row.get("rate") or not steady or timed[1] in ("request", "e2e")):
        return _simulated(row, model, timed[1], share, runs)
    if row["metric"] == "slo_tokens_per_s":
        raise _bad(row, "the rate under limits is not predicted here: `plan` sizes for limits")
    return accuracy.point(row, model)


def _simulated(row: dict[str, Any], model: Model, name: str, share: str | None, runs: dict[Any, served.Replayed]) -> Point:
    """What `simulate` says of a row: at a rate, or so many requests at a time."""
    plan = measured.deployment(row, model)
    prompt, output = max(1, int(measured.field(row, "prompt"))), max(1, int(measured.field(row, "output")))
    users = None if row.get("rate") else int(measured.field(row, "concurrency", row.get("batch")))
    cv = 1 / math.sqrt(row["burstiness"]) if row.get("burstiness") else 1.0
    kind = traffic.Kind(prompt, output, int(row.get("cached") or 0))
    coming = traffic.Traffic(float(row.get("rate") or 0), (kind,), cv=cv, trace=row.get("trace") or None, users=users)
    service = Service(
        coming,
        chunk=int(row["batched_tokens"]) if row.get("batched_tokens") else None,
        max_batch=int(row["max_batch"]) if row.get("max_batch") else None,
        simulated=min(2000, max(50, int(row.get("requests") or SIMULATED))),
    )
    key = (model.id, row["device"], plan.weights.name, plan.kv.name, plan.ranks, plan.engine, coming, service)
    if key not in runs:
        runs[key] = served.served(model, plan, service)
    outcome, r = runs[key].outcome, runs[key].answer.results
    low, high = (1.0, 1.0) if not (r.tpot_s and r.tpot_low_s and r.tpot_high_s) else (r.tpot_low_s / r.tpot_s, r.tpot_high_s / r.tpot_s)
    if name == "output":
        rate, batch = float(r.tokens_per_s), max(1.0, outcome.mean_batch)
        ideal = batch / _ideal(model, plan, prompt, output, batch, "step")
        return _simulated_point(row, model, plan, "load", rate, (rate / high, rate / low), ideal, batch)
    times = {"ttft": outcome.ttft, "tpot": outcome.tpot, "itl": outcome.itl, "request": outcome.e2e, "e2e": outcome.e2e}[name]
    at = OF_SHARE.get(share or "median") or (int(share[1:]) / 100 if share and share[0] == "p" else None)
    value = times.mean if at is None else times.at(at)
    if value is None:
        raise _bad(row, "the simulation measures no such time")
    quantity = "step" if name in ("tpot", "itl") else "ttft" if name == "ttft" else "request"
    batch = max(1.0, outcome.mean_batch)
    ideal = _ideal(model, plan, prompt, output, batch, quantity)
    return _simulated_point(row, model, plan, quantity, value, (value * low, value * high), ideal, batch)


def _simulated_point(
    row: dict[str, Any], model: Model, plan: Deployment, quantity: str, value: float, ends: tuple[float, float], ideal: float, batch: float
) -> Point:
    return Point(
        row=row,
        quantity=quantity,
        metric="batch" if quantity == "step" else quantity,
        kind=rates.kind(plan),
        group=rates.class_of(plan) or "other",
        mixture=rates.mixture(model),
        measured=row["value"],
        predicted=value,
        low=ends[0],
        high=ends[1],
        ideal=ideal,
        at_once=batch,
    )


def _ideal(model: Model, plan: Deployment, prompt: int, output: int, batch: float, quantity: str) -> float:
    """The napkin's time for the same question."""
    each = float(step.step(model, plan, Workload(prompt + output / 2, batch), "napkin").mid_s)
    if quantity == "step":
        return each
    first = step.ttft(model, plan, prompt, method="napkin")
    alone = float(first.mid_s) if first else math.nan
    return alone if quantity == "ttft" else alone + output * each


def replaced(path: str, told: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of a file, with what the options say where a row does not."""
    return [{**told, **{key: value for key, value in row.items() if value not in (None, "")}} for row in read(Path(path))]
