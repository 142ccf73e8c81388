"""Names of quantities in the words of the command line: everything below says `batch`, a reader of a command types --batch."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from llmcalc.answers import Aside

if TYPE_CHECKING:
    from llmcalc.figures import Figure
    from llmcalc.present import Report

MOST_TOLD = 3
"""Lines of what was assumed that a terminal shows to those who did not ask."""
_NAMED = re.compile(r"`(?!why`)([a-z]\w*)(?:=([^`]*))?`")
"""`why` is a column's name, not a quantity's."""


def flags(text: str) -> str:
    """'`kv_dtype`, such as `kv_dtype=fp8`' as '--kv-dtype, such as --kv-dtype fp8'."""
    return _NAMED.sub(lambda name: f"--{name[1].replace('_', '-')}" + (f" {name[2]}" if name[2] else ""), text)


def figure(told: Figure) -> Figure:
    """A derivation whose origins are flags."""
    return replace(told, origin=flags(told.origin), inputs=tuple(map(figure, told.inputs)))


def report(said: Report) -> Report:
    """A report whose sentences, and origins where it explains, name flags; of what was assumed, the terminal gets a few lines."""
    assumed = tuple(map(flags, said.assumptions))
    plain = [text for text, given in zip(assumed, said.assumptions, strict=True) if not isinstance(given, Aside)]
    return replace(
        said,
        assumptions=assumed,
        told=tuple(plain[:MOST_TOLD]),
        warnings=tuple(map(flags, said.warnings)),
        remarks=tuple(map(flags, said.remarks)),
        parts=tuple(map(report, said.parts)),
        figures={name: figure(one) for name, one in said.figures.items()} if said.explain else said.figures,
    )
