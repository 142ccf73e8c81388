"""The picture as PNG, for a slide or a chat. Needs the extra `plots`."""

from __future__ import annotations

from llmcalc.present import Carries, Report, vega

CARRIES = Carries(endings=(".png",), facts=False, rows=False, warnings=False, chart=True)


def render(report: Report) -> bytes:
    """One PNG image at twice the resolution of a screen."""
    spec = vega.chart(report).to_dict()
    import vl_convert

    made: bytes = vl_convert.vegalite_to_png(spec, scale=2)
    return made
