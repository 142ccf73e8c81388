"""An interactive page to send to somebody: one file with everything in it, and no request to anywhere.

The chart is Vega's, bundled by vl-convert: a point under the pointer tells its configuration, the legend filters, the wheel
zooms. The table sorts by a click on its head. Needs the extra `plots`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from llmcalc.present import Column, Report, shown, vega
from llmcalc.present.markup import cell_class, column_class, document, made, text_of

_STYLE = """
#chart{width:100%;min-height:420px;background:#fff}th button{all:unset;cursor:pointer}th button:focus-visible{outline:2px solid #3569b2}
th[aria-sort=ascending] button::after{content:" ▲"}th[aria-sort=descending] button::after{content:" ▼"}
#vg-tooltip-element{font:13px/1.4 system-ui,sans-serif}
"""
_DRAW = """
vegaEmbed("#chart", SPEC, {actions: false, renderer: "svg"}).then(function (made) { window.view = made.view; });
"""
_SORT = """
document.querySelectorAll("#rows th button").forEach(function (button) {
  button.addEventListener("click", function () {
    var head = button.parentNode, body = document.querySelector("#rows tbody"), index = head.cellIndex;
    var up = head.getAttribute("aria-sort") !== "ascending";
    document.querySelectorAll("#rows th").forEach(function (other) { other.removeAttribute("aria-sort"); });
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    var value = function (row) {
      var text = row.cells[index].dataset.v;
      return text === "" || isNaN(text) ? text : Number(text);
    };
    Array.from(body.rows).sort(function (a, b) {
      var x = value(a), y = value(b);
      if (x === "" || y === "") return (x === "") - (y === "");
      return (x < y ? -1 : x > y ? 1 : 0) * (up ? 1 : -1);
    }).forEach(function (row) { body.appendChild(row); });
  });
});
"""


def render(report: Report) -> str:
    """One HTML document."""
    spec = vega.chart(report, interactive=True).to_dict()
    import vl_convert

    # The bundle makes `vegaEmbed` a global and draws nothing by itself.
    library: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    columns = [column for column in report.columns if column.shown and any(row.get(column.key) not in (None, "") for row in report.rows)]
    parts = [
        f"<h1>{text_of(report.title)}</h1>",
        *(f'<p class="d">{text_of(line)}</p>' for line in report.header),
        *(f"<p>{text_of(line)}</p>" for line in report.remarks),
        *(f"<p><b>{text_of(mark.label)}</b></p>" for mark in (report.chart.marks if report.chart else ())),
        '<p class="d">Point at a mark for its configuration. Click the legend to filter (shift adds), double-click to see all; '
        "scroll to zoom, drag to move. Click a heading to sort.</p>",
        '<div id="chart"></div>',
        '<div class="scroll"><table id="rows"><thead><tr>',
        *(_head(report, column) for column in columns),
        "</tr></thead><tbody>",
        *(_row(report, columns, row) for row in report.rows),
        "</tbody></table></div>",
        *(f'<p class="d">assumes {text_of(line)}</p>' for line in report.assumptions),
        *(f"<p>warning: {text_of(line)}</p>" for line in report.warnings),
        made(report),
        "<script>(function () {" + library.replace("</script", "<\\/script") + "})();</script>",
        f"<script>const SPEC = {_data(spec)};</script>",
        f"<script>{_DRAW}{_SORT}</script>",
    ]
    return document(report.title, parts, _STYLE)


def _head(report: Report, column: Column) -> str:
    return f'<th scope="col"{column_class(report, column)}><button type="button">{text_of(column.label or column.key)}</button></th>'


def _row(report: Report, columns: list[Column], row: Mapping[str, Any]) -> str:
    cells = []
    for column in columns:
        value = row.get(column.key)
        raw = "" if value is None else escape(str(value))
        kind = column_class(report, column) or cell_class(value)
        cells.append(f'<td{kind} data-v="{raw}">{text_of(shown(value, column.unit))}</td>')
    return f"<tr{' class=marked' if row.get('marks') else ''}>{''.join(cells)}</tr>"


def _data(value: object) -> str:
    """JSON that cannot end the script it stands in."""
    return json.dumps(value).replace("<", "\\u003c")
