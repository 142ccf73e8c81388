"""For scripts: the envelope of the contract. Keys are added, never renamed or dropped."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from llmcalc.answers import Answer
from llmcalc.figures import derivation
from llmcalc.present import SCHEMA, Carries, Report

CARRIES = Carries(endings=(".json",), facts=True, rows=True, warnings=True, chart=False)


def envelope(report: Report) -> dict[str, Any]:
    """The report as JSON values. NaN and infinity become null with a warning."""
    lost: list[str] = []
    body: dict[str, Any] = {"schema": SCHEMA, "command": report.command}
    if report.model is not None:
        body["model"] = dict(report.model)
    if report.hardware is not None:
        body["hardware"] = dict(report.hardware)
    body["inputs"] = _clean(dict(report.inputs), "inputs", lost)
    body["results"] = {fact.key: _clean(fact.value, fact.key, lost) for fact in report.facts if fact.key}
    if report.rows or report.columns:
        body["rows"] = [_row(report, row, lost) for row in report.rows]
    if report.remarks:
        body["remarks"] = list(report.remarks)
    body["assumptions"] = list(report.assumptions)
    body["warnings"] = [*report.warnings, *(f"{key}: not a finite number" for key in lost), *_reasons(report, body)]
    if report.parts:
        body["parts"] = [envelope(part) for part in report.parts]
    if report.explain:
        body["derivations"] = {name: _clean(derivation(figure), name, lost) for name, figure in report.figures.items()}
    return body


def _row(report: Report, row: Mapping[str, Any], lost: list[str]) -> dict[str, Any]:
    """A row in the order of the columns; a record leaves out what its run has nothing to say about."""
    keys = [column.key for column in report.columns if column.key in row or not isinstance(row, Answer)]
    return {key: _clean(row.get(key), key, lost) for key in keys}


def _reasons(report: Report, body: dict[str, Any]) -> Iterator[str]:
    """Why keys are null of which the warnings do not speak."""
    said = " ".join(report.warnings)
    nulls = [key for held in (body["results"], *body.get("rows", [])) for key, value in held.items() if value is None]
    unsaid = [key for key in dict.fromkeys(nulls) if not re.search(rf"\b{key}\b", said)] if report.absent else []
    for keys, reason in report.absent:
        found = [key for key in unsaid if not keys or key in keys.split()]
        unsaid = [key for key in unsaid if key not in found]
        if found:
            yield f"{', '.join(found)}: {reason}"


def _clean(value: Any, key: str, lost: list[str]) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        lost.append(key)
        return None
    if isinstance(value, Mapping):
        return {name: _clean(inner, f"{key}.{name}", lost) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(inner, key, lost) for inner in value]
    return value


def render(report: Report) -> str:
    """One JSON document."""
    return dump(envelope(report))


def error(command: str | None, code: str, message: str, hint: str | None) -> str:
    """The envelope of an error."""
    return dump({"schema": SCHEMA, "command": command, "error": {"code": code, "message": message, "hint": hint}})


def dump(value: dict[str, Any]) -> str:
    """ASCII only, so that no encoding of a pipe can break it."""
    return json.dumps(value, indent=1, ensure_ascii=True, allow_nan=False) + "\n"
