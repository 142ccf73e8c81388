"""For pull requests and pages: GitHub tables."""

from __future__ import annotations

from llmcalc.errors import printable
from llmcalc.present import Carries, Report, exact, shown, tables

CARRIES = Carries(endings=(".md", ".markdown"), facts=True, rows=True, warnings=True, chart=False)


def render(report: Report) -> str:
    """A heading, the results, the rows, what was assumed; then the parts."""
    return "\n".join(map(_one, (report, *report.parts)))


def _one(report: Report) -> str:
    lines = [f"### {plain_text(report.title)}", ""]
    lines += [f"{plain_text(line)}  " for line in report.header] + ([""] if report.header else [])
    lines += [f"{plain_text(line)}  " for line in report.remarks] + ([""] if report.remarks else [])
    visible = [fact for fact in report.facts if fact.shown]
    if visible:
        lines += ["| | | exact | |", "| :-- | --: | --: | :-- |"]
        lines += [
            f"| {_indented(f.label)} | {plain_text(shown(f.value, f.unit))} | {exact(f.value, f.unit)} | {plain_text(f.note)} |"
            for f in visible
        ] + [""]
    for table in tables(report) if report.rows else ():
        columns = [column for column in table.columns if column.shown]
        if not columns:
            continue
        lines += ["| " + " | ".join(plain_text(c.label) for c in columns) + " |"]
        numeric = [any(not isinstance(row.get(c.key), str | None) for row in table.rows) for c in columns]
        lines += ["| " + " | ".join("--:" if number else ":--" for number in numeric) + " |"]
        lines += ["| " + " | ".join(plain_text(shown(row.get(c.key), c.unit)) for c in columns) + " |" for row in table.rows] + [""]
    if report.explain and report.figures:
        from llmcalc.present.explain import lines as explained

        lines += ["```", *explained(report), "```", ""]
    lines += [f"- assumes {plain_text(line)}" for line in report.assumptions]
    lines += [f"- warning: {plain_text(line)}" for line in report.warnings]
    return "\n".join(lines).rstrip() + "\n"


def _indented(label: str) -> str:
    """A label whose leading spaces a table keeps."""
    return "&emsp;" * ((len(label) - len(label.lstrip())) // 2) + plain_text(label.lstrip())


def plain_text(text: str) -> str:
    """Foreign text as text: nothing in it becomes markup."""
    plain = printable(text, 1000)
    for mark in "\\`*_[]<>|#":
        plain = plain.replace(mark, f"\\{mark}" if mark not in "<>" else {"<": "&lt;", ">": "&gt;"}[mark])
    return plain
