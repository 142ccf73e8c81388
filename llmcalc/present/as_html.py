"""A page to send to somebody: self-contained, no script, no request; a picture where there is something to draw."""

from __future__ import annotations

from html import escape

from llmcalc.present import Carries, Report, drawn, exact, page, shown, tables, vega
from llmcalc.present.markup import cell_class, column_class, document, made, text_of

CARRIES = Carries(endings=(".html", ".htm"), facts=True, rows=True, warnings=True, chart=True)


def render(report: Report) -> str:
    """One HTML document; a chart is interactive where the extra `plots` is installed."""
    if report.chart is not None and vega.missing() == ():
        return page.render(report)
    body = _body(report, "h1")
    for part in report.parts:
        body += ["<hr>", *_body(part, "h2")]
    return document(report.title, body)


def _body(report: Report, head: str) -> list[str]:
    """What a report has to say, below a heading."""
    body = [f"<{head}>{text_of(report.title)}</{head}>"]
    body += [f'<p class="d">{text_of(line)}</p>' for line in report.header]
    body += [made(report)] if head == "h1" else []
    body += [f"<p>{text_of(line)}</p>" for line in report.remarks]
    body += [f"<p><b>{text_of(mark.label)}</b></p>" for mark in (report.chart.marks if report.chart else ())]
    body.append(drawn.picture(report))
    visible = [fact for fact in report.facts if fact.shown]
    if visible:
        body.append('<table class="facts">')
        body += [
            f'<tr><td>{text_of(f.label)}</td><td class="n"><b>{text_of(shown(f.value, f.unit))}</b></td>'
            f'<td class="n d">{exact(f.value, f.unit)}</td><td class="d">{text_of(f.note)}</td></tr>'
            for f in visible
        ]
        body.append("</table>")
    for table in tables(report) if report.rows else ():
        columns = [column for column in table.columns if column.shown]
        if not columns:
            continue
        body.append(
            '<div class="scroll"><table><tr>' + "".join(f"<th{column_class(table, c)}>{text_of(c.label)}</th>" for c in columns) + "</tr>"
        )
        for row in table.rows:
            cells = "".join(f"<td{cell_class(row.get(c.key))}>{text_of(shown(row.get(c.key), c.unit))}</td>" for c in columns)
            body.append(f"<tr{' class=marked' if row.get('marks') or row.get('chosen') is True else ''}>{cells}</tr>")
        body.append("</table></div>")
    if report.explain and report.figures:
        from llmcalc.present.explain import lines

        body.append("<pre>" + escape("\n".join(lines(report))) + "</pre>")
    body += [f'<p class="d">assumes {text_of(line)}</p>' for line in report.assumptions]
    body += [f"<p>warning: {text_of(line)}</p>" for line in report.warnings]
    return body
