"""For pull requests and pages: GitHub tables."""

from __future__ import annotations

from llmcalc.errors import printable
from llmcalc.present import Report, exact, shown


def render(report: Report) -> str:
    """A heading, the results, the rows, what was assumed."""
    lines = [f"### {_text(report.title)}", ""]
    lines += [f"{_text(line)}  " for line in report.header] + ([""] if report.header else [])
    lines += [f"{_text(line)}  " for line in report.remarks] + ([""] if report.remarks else [])
    visible = [fact for fact in report.facts if fact.shown]
    if visible:
        lines += ["| | | exact |", "| :-- | --: | --: |"]
        lines += [f"| {_text(f.label)} | {_text(shown(f.value, f.unit))} | {exact(f.value, f.unit)} |" for f in visible] + [""]
    columns = [column for column in report.columns if column.shown]
    if report.rows and columns:
        lines += ["| " + " | ".join(_text(c.label) for c in columns) + " |"]
        numeric = [any(not isinstance(row.get(c.key), str | None) for row in report.rows) for c in columns]
        lines += ["| " + " | ".join("--:" if number else ":--" for number in numeric) + " |"]
        lines += ["| " + " | ".join(_text(shown(row.get(c.key), c.unit)) for c in columns) + " |" for row in report.rows] + [""]
    if report.explain and report.figures:
        from llmcalc.present.explain import lines as explained

        lines += ["```", *explained(report), "```", ""]
    lines += [f"- assumes {_text(line)}" for line in report.assumptions]
    lines += [f"- warning: {_text(line)}" for line in report.warnings]
    return "\n".join(lines).rstrip() + "\n"


def _text(text: str) -> str:
    """Foreign text as text: nothing in it becomes markup."""
    plain = printable(text, 1000)
    for mark in "\\`*_[]<>|#":
        plain = plain.replace(mark, f"\\{mark}" if mark not in "<>" else {"<": "&lt;", ">": "&gt;"}[mark])
    return plain
