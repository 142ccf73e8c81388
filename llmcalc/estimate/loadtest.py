"""A load test: what to expect at each rate, and the measured figures beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from llmcalc.estimate.planned import Compared, Loaded
from llmcalc.estimate.service import Candidate, Service, run

TIMES = tuple((name, p) for name in ("ttft", "tpot", "e2e") for p in (50, 95, 99))


def load_test(found: Candidate, service: Service, replicas: int, rates: Sequence[float]) -> tuple[Loaded, ...]:
    """What to expect at each rate of the whole deployment."""
    rows = []
    for rate in rates:
        outcome = run(found, replace(service, traffic=replace(service.traffic, rate=rate)), replicas)
        measured: Any = {f"{name}_p{p}_s": getattr(outcome, name).at(p / 100) for name, p in TIMES}
        rows.append(
            Loaded(
                rate=rate,
                utilization=rate / replicas / found.max_rate,
                concurrency=outcome.mean_batch * replicas,
                output_tokens_per_s=rate * found.profile.output,
                **measured,
            )
        )
    return tuple(rows)


def compared(predicted: Sequence[Loaded], measured: Sequence[Mapping[str, float]]) -> tuple[Compared, ...]:
    """The measured figures beside the predicted ones of the same rates."""
    rows = []
    for row, beside in zip(predicted, measured, strict=True):
        more: dict[str, Any] = {}
        for name, p in TIMES:
            key = f"{name}_p{p}"
            value, expected = beside.get(f"{key}_s"), row[f"{key}_s"]
            more |= {f"{key}_s": expected, f"measured_{key}_s": value}
            if expected is not None and value:
                more[f"{key}_error"] = expected / value - 1
        rows.append(Compared(rate=row.rate, utilization=row.utilization, **more))
    return tuple(rows)
