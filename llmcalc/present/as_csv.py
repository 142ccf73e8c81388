"""For spreadsheets: raw values with the unit in the column's name. Table-like commands give their rows, others one row of results."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

from llmcalc.errors import printable
from llmcalc.present import Carries, Report

CARRIES = Carries(endings=(".csv",), facts=True, rows=True, warnings=False, chart=False)


def render(report: Report) -> str:
    """RFC 4180, with \\n line ends."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    if report.facts and not (report.rows_first or report.rows):
        ids = {"model": (report.model or {}).get("id"), "hardware": (report.hardware or {}).get("id")}
        given = {key: value for key, value in {**ids, **report.inputs}.items() if value is not None}
        values = {**given, **{fact.key: fact.value for fact in report.facts if fact.key}}
        writer.writerow(values)
        writer.writerow(_cell(value) for value in values.values())
    else:
        writer.writerow(column.key for column in report.columns)
        writer.writerows([_cell(row.get(column.key)) for column in report.columns] for row in report.rows)
    return output.getvalue()


def _cell(value: Any) -> Any:
    """Text that a spreadsheet would run as a formula is quoted with an apostrophe; control characters are written out."""
    if isinstance(value, list | tuple):
        value = " ".join(str(dict(item) if isinstance(item, Mapping) else item) for item in value)
    if isinstance(value, str):
        value = printable(value, 10_000)
        return f"'{value}" if value[:1] in ("=", "+", "-", "@") else value
    return "" if value is None else value
