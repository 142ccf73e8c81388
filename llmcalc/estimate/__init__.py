"""Nouns in, Answered out: no input, no output, no formatting."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from llmcalc.answers import Answer
from llmcalc.figures import Figure

R = TypeVar("R", bound=Answer, covariant=True)
Row = TypeVar("Row", bound=Answer, covariant=True)


@dataclass(frozen=True, slots=True)
class Answered(Generic[R, Row]):
    """A command's answer with the Figures behind it, rows, and what was assumed."""

    results: R
    figures: dict[str, Figure]
    rows: tuple[Row, ...] = ()
    inputs: dict[str, Any] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
