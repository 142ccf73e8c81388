"""Nouns in, Estimate out: no input, no output, no formatting."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from llmcalc.figures import Figure


@dataclass(frozen=True, slots=True)
class Estimate:
    """Named results with the Figures behind them, rows, and what was assumed."""

    results: dict[str, Any]
    figures: dict[str, Figure]
    rows: tuple[dict[str, Any], ...] = ()
    inputs: dict[str, Any] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
