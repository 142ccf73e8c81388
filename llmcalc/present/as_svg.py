"""The picture as SVG, for a document. Needs the extra `plots`."""

from __future__ import annotations

from llmcalc.present import Report, vega


def render(report: Report) -> str:
    """One SVG document."""
    spec = vega.chart(report).to_dict()
    import vl_convert

    made: str = vl_convert.vegalite_to_svg(spec)
    return made if made.endswith("\n") else made + "\n"
