"""What load generators write: the JSON of `vllm bench serve` (and SGLang's), of GuideLLM and of AIPerf, and a plain CSV.

A time per token is here what a request takes after its first token over the tokens after it. GuideLLM's and AIPerf's
inter_token_latency is that; GuideLLM's time_per_output_token counts the first token, too, and is not read.
[vllm/benchmarks/serve.py; guidellm benchmarks.json; docs.nvidia.com/aiperf, JSON export schema; all read 2026-11-30]
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llmcalc import data, traffic
from llmcalc.errors import UsageError, printable

MAX_BYTES = 64 * 2**20
MOST_RUNS = 100
QUANTILES = (50, 95, 99)
KNOWN = "give what `vllm bench serve --save-result`, GuideLLM or AIPerf wrote, or a CSV: rate,ttft_p95_s,tpot_p95_s"
UNITS = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "milliseconds": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


@dataclass(frozen=True, slots=True)
class Run:
    """One load: requests at a rate, or so many at a time, and the times that were measured.

    `rate`: what came [requests/s], or what was served where the loop was closed. `times`: ttft_p50_s, tpot_mean_s, …
    """

    rate: float
    times: Mapping[str, float]
    concurrency: int | None = None
    prompt: float | None = None
    output: float | None = None
    tokens_per_s: float | None = None
    model: str | None = None
    engine: str | None = None
    by: str = "csv"


@dataclass(frozen=True, slots=True)
class _Place:
    """A part of a file, which knows how to say where it is."""

    file: str
    value: Any
    name: str = ""

    def bad(self, what: str) -> UsageError:
        return UsageError("bad-load-test", f"{printable(self.file)}: {printable(self.name or 'the file', 80)} {what}", KNOWN)

    def at(self, key: str) -> _Place:
        """A field that must be there."""
        name = f"{self.name}.{key}" if self.name else key
        if not isinstance(self.value, dict):
            raise self.bad("is not an object")
        if self.value.get(key) is None:
            raise _Place(self.file, None, name).bad("is missing")
        return _Place(self.file, self.value[key], name)

    def maybe(self, key: str) -> _Place | None:
        """A field that may be missing."""
        return self.at(key) if isinstance(self.value, dict) and self.value.get(key) is not None else None

    def number(self, least: float = 0.0) -> float:
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or not least <= value < 1e12:
            raise self.bad(f"{printable(repr(value), 40)} is not a number from {least:g}")
        return float(value)

    def optional(self, key: str) -> float | None:
        found = self.maybe(key)
        return None if found is None else found.number() or None

    def word(self, key: str) -> str | None:
        found = self.maybe(key)
        return found.value if found is not None and isinstance(found.value, str) else None


def read(path: str) -> list[Run]:
    """Every load that a file tells of. Errors: bad-load-test naming the field; of a CSV bad-trace; file-unreadable and the like."""
    if path.lower().endswith((".json", ".jsonl")) or _starts_as_json(path):
        text = data.read_text(Path(path), "load generator's result", MAX_BYTES)
        runs = [run for document in _documents(path, text) for run in _runs(document)]
        if not 0 < len(runs) <= MOST_RUNS:
            raise _Place(path, None).bad(f"has {len(runs):,} loads" if runs else "has no load")
        return runs
    return [Run(row["rate"], {key: value for key, value in row.items() if key != "rate"}) for row in traffic.read_measured(path)]


def _starts_as_json(path: str) -> bool:
    try:
        with open(path, "rb") as stream:
            return stream.read(64).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")
    except (OSError, ValueError):
        return False


def _documents(path: str, text: str) -> Iterator[_Place]:
    """The documents of a file: one, a list of them, or one behind the other as results are appended."""
    decoder, at, number = json.JSONDecoder(), 0, 0
    while at < len(text):
        if text[at] in " \t\r\n":
            at += 1
            continue
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as problem:
            what = f"is not JSON ({problem.msg}, line {problem.lineno})" if isinstance(problem, json.JSONDecodeError) else "is not JSON"
            raise _Place(path, None).bad(what) from None
        values = value if isinstance(value, list) else [value]
        for each in values:
            number += 1
            yield _Place(path, each, "" if number == 1 else f"result {number}")


def _runs(place: _Place) -> Iterator[Run]:
    if not isinstance(place.value, dict):
        raise place.bad("is not an object")
    if "benchmarks" in place.value:
        benchmarks = place.at("benchmarks")
        if not isinstance(benchmarks.value, list):
            raise benchmarks.bad("is not a list")
        model = _Place(place.file, _find(place.value.get("args"), "model"))
        for number, each in enumerate(benchmarks.value):
            yield _guidellm(_Place(place.file, each, f"benchmarks[{number}]"), model.value if isinstance(model.value, str) else None)
    elif isinstance(place.value.get("time_to_first_token"), dict) or isinstance(place.value.get("request_throughput"), dict):
        yield _aiperf(place)
    elif any(key in place.value for key in ("request_throughput", "median_ttft_ms", "mean_ttft_ms", "total_input_tokens", "completed")):
        yield _vllm(place)
    else:
        raise place.bad("has none of request_throughput, time_to_first_token and benchmarks: no load generator that is known wrote it")


# ---- vllm bench serve, and SGLang's bench_serving -----------------------------------------------------------------


def _vllm(place: _Place) -> Run:
    """Milliseconds; request_rate is a number or "inf", max_concurrency a number or null."""
    completed = place.optional("completed")
    if place.maybe("completed") is not None and completed is None:
        raise place.at("completed").bad("is 0: no request succeeded")
    served = place.at("request_throughput").number()
    asked = place.maybe("request_rate")
    rate = None if asked is None or str(asked.value) in ("inf", "Infinity") else asked.number()
    users = place.maybe("max_concurrency")
    times = {}
    for ours, theirs in (("ttft", "ttft"), ("tpot", "tpot"), ("itl", "itl"), ("e2e", "e2el"), ("e2e", "e2e_latency")):
        keys = {"mean": f"mean_{theirs}_ms", "p50": f"median_{theirs}_ms"} | {f"p{p}": f"p{p}_{theirs}_ms" for p in QUANTILES[1:]}
        for word, key in keys.items():
            value = place.optional(key)
            if value is not None:
                times[f"{ours}_{word}_s"] = value / 1000
    if not times:
        raise place.at("median_ttft_ms").bad("is 0")
    tokens_in, tokens_out = place.optional("total_input_tokens"), place.optional("total_output_tokens")
    backend = place.word("backend") or place.word("endpoint_type") or "vllm"
    return Run(
        rate=_above(place.at("request_throughput"), served if rate is None else rate),
        times=times,
        concurrency=None if users is None or (rate is not None and rate < 1e6) else _count(users),
        prompt=tokens_in / completed if tokens_in and completed else None,
        output=tokens_out / completed if tokens_out and completed else None,
        tokens_per_s=place.optional("output_throughput"),
        model=place.word("model_id"),
        engine="sglang" if "sglang" in backend else "vllm" if "vllm" in backend or "openai" in backend else None,
        by="vllm bench serve",
    )


def _above(place: _Place, value: float) -> float:
    if not value > 0:
        raise place.bad("is 0: no request was served")
    return value


def _count(place: _Place) -> int:
    value = place.number(1)
    if value != int(value):
        raise place.bad(f"{value:g} is not a whole number")
    return int(value)


# ---- GuideLLM -----------------------------------------------------------------------------------------------------


def _guidellm(place: _Place, model: str | None) -> Run:
    """One benchmark: metrics by name, each with what succeeded; the strategy says how the load came."""
    metrics = place.at("metrics")
    strategy: Any = next((found for name in ("config", "args", "scheduler") if (found := _find(place.value.get(name), "strategy"))), {})
    plan = _Place(place.file, strategy if isinstance(strategy, dict) else {}, f"{place.name}.strategy")
    kind = str(plan.value.get("type_") or plan.value.get("strategy_type") or "")
    served = _succeeded(metrics.at("requests_per_second"))
    users = plan.maybe("streams") or plan.maybe("max_concurrency") if kind in ("concurrent", "throughput") else None
    rate = plan.optional("rate") if kind in ("constant", "poisson", "async") else None
    times: dict[str, float] = {}
    named = (("ttft", "time_to_first_token_ms", 1e-3), ("tpot", "inter_token_latency_ms", 1e-3), ("e2e", "request_latency", 1.0))
    for ours, key, unit in named:
        found = metrics.maybe(key)
        if found is not None:
            times |= {f"{ours}_{word}_s": value * unit for word, value in _spread(_succeeded(found)).items() if value}
    if not times:
        raise metrics.at("time_to_first_token_ms").bad("has no values")
    lengths = {name: metrics.maybe(f"{name}_token_count") for name in ("prompt", "output")}
    tokens = {name: None if found is None else _succeeded(found).optional("mean") for name, found in lengths.items()}
    per_s = metrics.maybe("output_tokens_per_second")
    return Run(
        rate=rate or _above(served.at("mean"), served.at("mean").number()),
        times=times,
        concurrency=1 if kind == "synchronous" else None if users is None else _count(users),
        prompt=tokens["prompt"],
        output=tokens["output"],
        tokens_per_s=None if per_s is None else _succeeded(per_s).optional("mean"),
        model=model,
        by="GuideLLM",
    )


def _succeeded(place: _Place) -> _Place:
    return place.maybe("successful") or place.maybe("total") or place


def _spread(place: _Place) -> dict[str, float | None]:
    """Mean and quantiles of a distribution."""
    inner = place.maybe("percentiles") or place
    found = {f"p{p}": inner.optional(f"p{p}") for p in QUANTILES}
    return {"mean": place.optional("mean"), **found, "p50": place.optional("median") or found["p50"]}


def _find(value: Any, key: str, depth: int = 4) -> Any:
    """The first value of that name in nested objects, or None."""
    if not isinstance(value, dict) or depth == 0:
        return None
    if value.get(key) is not None:
        return value[key]
    return next((found for inner in value.values() if (found := _find(inner, key, depth - 1)) is not None), None)


# ---- AIPerf -------------------------------------------------------------------------------------------------------


def _aiperf(place: _Place) -> Run:
    """Metrics by name at the top, each with its unit; input_config has the load."""
    times: dict[str, float] = {}
    for ours, key in (("ttft", "time_to_first_token"), ("tpot", "inter_token_latency"), ("e2e", "request_latency")):
        found = place.maybe(key)
        if found is not None:
            unit = UNITS.get(str(found.at("unit").value))
            if unit is None:
                raise found.at("unit").bad(f"{printable(repr(found.value['unit']), 20)} is not a unit of time")
            spread = {"mean": found.optional("avg"), **{f"p{p}": found.optional(f"p{p}") for p in QUANTILES}}
            times |= {f"{ours}_{word}_s": value * unit for word, value in spread.items() if value}
    if not times:
        raise place.at("time_to_first_token").bad("has no values")
    served = place.at("request_throughput").at("avg")
    config = place.value.get("input_config")
    rate = _Place(place.file, {"request_rate": _find(config, "request_rate")}, "input_config").optional("request_rate")
    users = _Place(place.file, {"concurrency": _find(config, "concurrency")}, "input_config").maybe("concurrency")
    means = {key: None if (found := place.maybe(key)) is None else found.optional("avg") for key in _AIPERF_MEANS}
    names = _find(config, "model_names")
    return Run(
        rate=rate or _above(served, served.number()),
        times=times,
        concurrency=None if rate or users is None else _count(users),
        prompt=means["input_sequence_length"],
        output=means["output_sequence_length"],
        tokens_per_s=means["output_token_throughput"],
        model=names[0] if isinstance(names, list) and names and isinstance(names[0], str) else None,
        by="AIPerf",
    )


_AIPERF_MEANS = ("input_sequence_length", "output_sequence_length", "output_token_throughput")


# ---- as rows of a measurement file --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Told:
    """What a result does not say of how it was run; from the options of whoever asks."""

    model: str | None = None
    device: str | None = None
    more: Mapping[str, Any] = field(default_factory=dict)


def rows(path: str, told: Told) -> list[dict[str, Any]]:
    """The loads as rows of a measurement file, one per time: metric and value, prompt and output, concurrency or rate."""
    found = []
    for number, run in enumerate(read(path), 1):
        base = {
            "model": told.model or run.model,
            "device": told.device,
            "engine": run.engine,
            "prompt": None if run.prompt is None else round(run.prompt),
            "output": None if run.output is None else round(run.output),
            **({"concurrency": run.concurrency} if run.concurrency else {"rate": run.rate}),
            "source": run.by,
            **told.more,
        }
        kept = {key: value for key, value in base.items() if value is not None}
        for key, value in run.times.items():
            metric = "request" + key.removeprefix("e2e").removesuffix("_s") if key.startswith("e2e") else key.removesuffix("_s")
            found.append({"id": f"{number}-{metric}", "metric": metric, "value": value, "unit": "s", **kept})
        if run.tokens_per_s:
            found.append({"id": f"{number}-tokens", "metric": "batch_tokens_per_s", "value": run.tokens_per_s, "unit": "tokens/s", **kept})
    return found
