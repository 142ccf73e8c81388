"""The picture as SVG, for a document: of a chart (needs the extra `plots`), else of what a terminal shows."""

from __future__ import annotations

import re

from llmcalc.present import Carries, Report

WIDTH, HEIGHT = 8.43, 19  # pixels of a character of 14 pixels, and of a line
COLOURS = re.compile(r"\x1b\[[0-9;]*m")

CARRIES = Carries(endings=(".svg",), facts=True, rows=True, warnings=False, chart=True)


def render(report: Report) -> str:
    """One SVG document."""
    if report.chart is None:
        return _text(report)
    from llmcalc.present import vega

    spec = vega.chart(report).to_dict()
    import vl_convert

    made: str = vl_convert.vegalite_to_svg(spec)
    return made if made.endswith("\n") else made + "\n"


def _text(report: Report) -> str:
    """The lines of a terminal, in black on white."""
    from html import escape

    from llmcalc.present import terminal

    lines = COLOURS.sub("", terminal.render(report)).splitlines()
    wide, high = round(max(map(len, lines)) * WIDTH + 32), len(lines) * HEIGHT + 32
    drawn = "\n".join(
        f'<text x="16" y="{number * HEIGHT + 30}" xml:space="preserve">{escape(line)}</text>' for number, line in enumerate(lines) if line
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" '
        f'font-family="Menlo, Consolas, monospace" font-size="14">\n<title>{escape(report.title)}</title>\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{drawn}\n</svg>\n'
    )
