"""A derivation in words: each figure's formula, the substituted values, and where every input was read."""

from __future__ import annotations

from collections.abc import Iterator

from llmcalc.figures import Figure, plain, substituted
from llmcalc.present import Report, exact, shown


def lines(report: Report) -> list[str]:
    """Every figure of the report, worked."""
    found: list[str] = []
    told: set[int] = set()
    for figure in report.figures.values():
        if found:
            found.append("")
        found += list(_tell(figure, 0, told))
    return found


def _value(figure: Figure) -> str:
    short = shown(figure.value, figure.unit)
    precise = exact(figure.value, figure.unit)
    if precise:
        return f"{precise} = {short}"
    bare = plain(figure.value)
    return short if figure.unit in ("s", "usd", "B/s", "FLOP/s") else f"{bare} {figure.unit}".rstrip()


def _tell(figure: Figure, depth: int, told: set[int]) -> Iterator[str]:
    pad = "  " * depth
    if figure.formula is None and not figure.inputs:
        yield f"{pad}{figure.name} = {_value(figure)}" + (f"   [{figure.origin}]" if figure.origin else "")
        return
    if id(figure) in told:
        yield f"{pad}{figure.name} = {_value(figure)}   [above]"
        return
    told.add(id(figure))
    origins = {part.origin for part in figure.inputs}
    if figure.formula and len(origins) == 1 and not any(part.inputs for part in figure.inputs):
        (origin,) = origins  # one line says it all: every factor was read in the same place
        yield f"{pad}{figure.name} = {figure.formula.expression} = {substituted(figure)} = {_value(figure)}   [{origin}]"
        return
    expression = figure.formula.expression if figure.formula else " + ".join(part.name for part in figure.inputs)
    if figure.formula is None and len(figure.inputs) == 1:
        yield f"{pad}{figure.name} = {_value(figure)}"
    else:
        yield f"{pad}{figure.name} = {_short(expression)}"
        yield f"{pad}  = {_short(substituted(figure))} = {_value(figure)}"
    if figure.formula and figure.formula.ref:
        yield f"{pad}  ({figure.formula.ref})"
    for part in figure.inputs:
        yield from _tell(part, depth + 1, told)


def _short(text: str) -> str:
    """A sum of a hundred matrices is not read by anybody: its ends are."""
    terms = text.split(" + ")
    return " + ".join([*terms[:4], "…", terms[-1]]) if len(terms) > 8 else text
