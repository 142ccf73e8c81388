"""The table of engine memory policies: what share of a device an engine uses and how it rounds.

`napkin` is the course notes' policy: the nominal size in decimal bytes, all of it, nothing rounded.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmcalc.errors import UsageError, close_matches, printable


@dataclass(frozen=True, slots=True)
class Engine:
    """One policy. `block_tokens`: a sequence's cache is rounded up to it. `nominal`: decimal size instead of the driver's."""

    name: str
    nominal: bool = True
    utilization: float = 1.0
    block_tokens: int = 1
    source: str = ""


ENGINES: dict[str, Engine] = {
    "napkin": Engine("napkin", source="the nominal size, no reserve: an upper bound that no engine reaches"),
}


def find(name: str) -> Engine:
    """The policy of that name. Errors: unknown-engine."""
    row = ENGINES.get(name.strip().lower())
    if row is None:
        near = close_matches(name, ENGINES)
        raise UsageError(
            "unknown-engine",
            f"{printable(name, 40)!r} is not an engine that llmcalc knows",
            f"did you mean {near[0]}?" if near else f"known: {', '.join(ENGINES)}",
        )
    return row
