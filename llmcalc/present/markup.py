"""What every page has: its head and style, escaped text, and where the cells of a column stand."""

from __future__ import annotations

from html import escape

from llmcalc import __version__, data
from llmcalc.errors import printable
from llmcalc.present import Column, Report

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:80rem;margin:2rem auto;padding:0 1rem;color:#1b1b1b;background:#fff}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.2rem .8rem;border-bottom:1px solid #ddd;text-align:left}
td,th{white-space:pre}.scroll{overflow-x:auto}.d{color:#666;white-space:pre-wrap}.long{white-space:pre-wrap;min-width:20rem}
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:pre}pre{overflow-x:auto;background:#f6f6f6;padding:1rem}
tr.marked td{font-weight:600}svg.drawn{width:100%;min-width:22rem;max-width:44rem;height:auto;margin:1rem 0}
p.d{margin:.4rem 0}.facts td:empty{display:none}.facts td.d{white-space:pre-wrap}
@media(max-width:40rem){body{margin:1rem auto}td,th{padding:.2rem .35rem;font-size:13px}td:not(.n){white-space:pre-wrap}
h1{font-size:1.4rem}h2{font-size:1.2rem}
.facts,.facts tbody{display:block}.facts tr{display:flex;flex-wrap:wrap;border-bottom:1px solid #8884}.facts td{border:0}
.facts td:first-child{flex:1}.facts td.d:last-child{flex-basis:100%}}
@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#161616}td,th{border-color:#444}.d{color:#aaa}pre{background:#222}}
@media print{body{margin:0;max-width:none;font-size:10pt;color:#000;background:#fff}.scroll{overflow:visible}td,th{white-space:normal}
tr,svg{break-inside:avoid}}
"""


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
        f"<title>{text_of(title)}</title><style>{_STYLE}{style}</style></head>\n<body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def made(report: Report) -> str:
    """When, with what and by which command a page was made."""
    return f'<p class="d">llmcalc {__version__} · {data.today().isoformat()} · {text_of(report.typed or f"llmcalc {report.command}")}</p>'


def text_of(text: str) -> str:
    """Foreign text as text: nothing in it becomes markup."""
    return escape(printable(text, 1000))
