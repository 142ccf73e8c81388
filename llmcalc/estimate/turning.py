"""From which whole number on something holds."""

from __future__ import annotations

from collections.abc import Callable


def turning_point(holds: Callable[[int], bool], low: int, high: int) -> int | None:
    """The smallest number above `low` at which `holds`, which then holds for all that are larger; None where not even `high` does."""
    if not holds(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
