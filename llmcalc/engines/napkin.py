"""The course notes' policy."""

from __future__ import annotations

from llmcalc.engines.row import Engine

ROWS = (
    Engine(
        name="napkin", kind=None, split="tensor", tensor=True, vendors=(), start=None, nominal=True, block_tokens=1, windows="ideal",
        batched=(1, 1), sequences=(1, 1), large=None, other_bytes=(0, 0, 0),
        source="the nominal size, no reserve: an upper bound that no engine reaches",
    ),
)  # fmt: skip
