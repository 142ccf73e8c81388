"""A derivation in words: each figure's formula, the substituted values, and where every input was read.

What was told once is not told again: a later line shows its value, and that is all.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import Any

from llmcalc.figures import Figure
from llmcalc.present import Report, exact, shown
from llmcalc.units import decimal_size

_STICK = "\u00a0"  # a value and its unit stay on one line


def lines(report: Report, width: int | None = None) -> list[str]:
    """Every figure of the report, worked; wrapped between words where there is a width."""
    found: list[str] = []
    told: set[Any] = set()
    for figure in report.figures.values():
        if found:
            found.append("")
        found += list(_tell(figure, 0, told))
    if width is not None:
        found = [part for line in found for part in _wrapped(line, width)]
    return [line.replace(_STICK, " ") for line in found]


def _wrapped(line: str, width: int) -> list[str]:
    pad = line[: len(line) - len(line.lstrip(" "))]
    return textwrap.wrap(line, max(width, 40), subsequent_indent=pad + "    ", break_long_words=False, break_on_hyphens=False) or [""]


def _key(figure: Figure) -> Any:
    """What makes two figures the same to a reader: how they came about, not what a formula calls them."""
    if figure.formula is None and not figure.inputs:
        return figure.name, str(figure.value), figure.origin
    return figure.formula, str(figure.value), tuple(_key(part) for part in figure.inputs)


def _result(figure: Figure) -> str:
    """A value in full, and as it is spoken of."""
    short = shown(figure.value, figure.unit)
    precise = exact(figure.value, figure.unit)
    if precise:
        precise += " params" if figure.unit == "params" else ""
        words = [precise, *([decimal_size(figure.value)] if figure.unit == "B" else []), short]
        return " = ".join(word.replace(" ", _STICK) for word in words)
    return _operand(figure)


def _operand(figure: Figure) -> str:
    """A value as it stands in a line of arithmetic: bytes decimal, as bandwidths are."""
    value, unit = figure.value, figure.unit
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if value == 0:
        text = "0"
    elif unit in ("s", "usd", "usd/h", "B/s", "FLOP/s", "FLOP"):
        text = shown(value, unit) + ("/h" if unit == "usd/h" else "")
    elif unit == "B" and abs(value) >= 10**6:
        text = decimal_size(value)
    elif unit == "params" and abs(value) >= 10**6:
        text = f"{value:.3g} params".replace("e+0", "e").replace("e+", "e")
    else:
        text = f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
        text += f" {unit}" if unit in ("tokens", "sequences", "tokens/s", "B/token", "W", "J", "bit", "experts", "FLOP/B", "layers") else ""
    return text.replace(" ", _STICK)


def _formula(expression: str) -> str:
    """Source text, with the two words that are not mathematics put right."""
    text = re.sub(r"\blarger\(", "max(", re.sub(r"\bsmaller\(", "min(", expression))
    return text.replace("1000000.0", "1e6")


def _substituted(figure: Figure) -> str:
    assert figure.formula is not None
    values = {part.name: _operand(part) for part in figure.inputs}
    text = re.sub(r"[A-Za-z_]\w*", lambda word: values.get(word[0], word[0]), _formula(figure.formula.expression))
    text = re.sub(r" [*/] 1(?=[) ]|$)", "", text)  # one device, one copy: nothing to see
    return re.sub(r"(?<![a-z])\(([^() ]+)\)", r"\1", text)


def _tell(figure: Figure, depth: int, told: set[Any]) -> Iterator[str]:
    pad = "  " * depth
    key = _key(figure)
    if key in told:
        if depth == 0:
            yield f"{figure.name} = {_result(figure)}"
        return
    told.add(key)
    if figure.formula is None and not figure.inputs:
        yield f"{pad}{figure.name} = {_result(figure)}" + (f"   [{figure.origin}]" if figure.origin else "")
        return
    if figure.formula is None:
        (first, *rest) = figure.inputs
        if rest:
            yield f"{pad}{figure.name} = {_ends([part.name for part in figure.inputs])}"
            yield f"{pad}  = {_ends([_operand(part) for part in figure.inputs])} = {_result(figure)}"
        else:
            yield f"{pad}{figure.name} = {first.name} = {_result(figure)}"
    else:
        source = f"   [{figure.formula.ref}]" if figure.formula.ref not in ("", "definition") else ""
        worked = f"{_formula(figure.formula.expression)} = {_substituted(figure)} = {_result(figure)}"
        origins = {part.origin for part in figure.inputs}
        if len(origins) == 1 and not any(part.inputs for part in figure.inputs):
            (origin,) = origins  # one line says it all: every factor was read in the same place
            yield f"{pad}{figure.name} = {worked}" + (f"   [{origin}]" if origin else "")
            return
        yield f"{pad}{figure.name} = {_formula(figure.formula.expression)}{source}"
        yield f"{pad}  = {_substituted(figure)} = {_result(figure)}"
    for part in figure.inputs:
        yield from _tell(part, depth + 1, told)


def _ends(terms: list[str]) -> str:
    """A sum of a hundred matrices is not read by anybody: its ends are."""
    return " + ".join([*terms[:4], "…", terms[-1]] if len(terms) > 8 else terms)
