"""A page to send to somebody: self-contained, no script, no request."""

from __future__ import annotations

from html import escape

from llmcalc.errors import printable
from llmcalc.present import Column, Report, exact, shown

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:80rem;margin:2rem auto;padding:0 1rem;color:#1b1b1b;background:#fff}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.2rem .8rem;border-bottom:1px solid #ddd;text-align:left}
td,th{white-space:pre}.scroll{overflow-x:auto}.d{color:#666;white-space:pre-wrap}.long{white-space:pre-wrap;min-width:20rem}
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:pre}pre{overflow-x:auto;background:#f6f6f6;padding:1rem}
@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#161616}td,th{border-color:#444}.d{color:#aaa}pre{background:#222}}
"""


def render(report: Report) -> str:
    """One HTML document; with a picture, an interactive one."""
    if report.chart is not None:
        from llmcalc.present import page

        return page.render(report)
    body = [f"<h1>{_text(report.title)}</h1>"]
    body += [f'<p class="d">{_text(line)}</p>' for line in report.header]
    body += [f"<p>{_text(line)}</p>" for line in report.remarks]
    visible = [fact for fact in report.facts if fact.shown]
    if visible:
        body.append('<div class="scroll"><table>')
        body += [
            f'<tr><td>{_text(f.label)}</td><td class="n"><b>{_text(shown(f.value, f.unit))}</b></td>'
            f'<td class="n d">{exact(f.value, f.unit)}</td><td class="d">{_text(f.note)}</td></tr>'
            for f in visible
        ]
        body.append("</table></div>")
    columns = [column for column in report.columns if column.shown]
    if report.rows and columns:
        body.append(
            '<div class="scroll"><table><tr>' + "".join(f"<th{column_class(report, c)}>{_text(c.label)}</th>" for c in columns) + "</tr>"
        )
        for row in report.rows:
            cells = "".join(f"<td{cell_class(row.get(c.key))}>{_text(shown(row.get(c.key), c.unit))}</td>" for c in columns)
            body.append(f"<tr>{cells}</tr>")
        body.append("</table></div>")
    if report.explain and report.figures:
        from llmcalc.present.explain import lines

        body.append("<pre>" + escape("\n".join(lines(report))) + "</pre>")
    body += [f'<p class="d">assumes {_text(line)}</p>' for line in report.assumptions]
    body += [f"<p>warning: {_text(line)}</p>" for line in report.warnings]
    return document(report.title, body)


def cell_class(value: object) -> str:
    """Numbers stand right; only a sentence may go on in a second line."""
    if isinstance(value, str | None):
        return " class=long" if value and len(value) > 40 else ""
    return " class=n"


def column_class(report: Report, column: Column) -> str:
    """Heads stand where their numbers do."""
    return "" if all(isinstance(row.get(column.key), str | None) for row in report.rows) else " class=n"


def document(title: str, body: list[str], style: str = "") -> str:
    """The parts of a body as one page."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{_text(title)}</title><style>{_STYLE}{style}</style></head>\n<body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def _text(text: str) -> str:
    return escape(printable(text, 1000))
