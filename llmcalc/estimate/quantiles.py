"""Quantiles of a stream of times in constant memory."""

from __future__ import annotations

import math

RESOLUTION = 400  # buckets per factor e of a quantile: 0.25% wide


class Quantiles:
    """Quantiles of a stream in constant memory, 0.13% exact; the mean is exact."""

    __slots__ = ("buckets", "count", "highest", "lowest", "total")

    def __init__(self) -> None:
        self.buckets: dict[int, int] = {}
        self.count = 0
        self.total = 0.0
        self.lowest, self.highest = math.inf, 0.0

    def add(self, value: float, count: int = 1) -> None:
        """One more value, or so many alike. [s]"""
        place = int(math.log(value) * RESOLUTION + 1e6) if value > 1e-12 else 0
        self.buckets[place] = self.buckets.get(place, 0) + count
        self.count += count
        self.total += value * count
        if value > self.highest:
            self.highest = value
        if value < self.lowest:
            self.lowest = value

    @property
    def mean(self) -> float | None:
        """The mean, or None of nothing."""
        return self.total / self.count if self.count else None

    def at(self, share: float) -> float | None:
        """The value that this share of all does not exceed, or None of nothing."""
        left = math.ceil(share * self.count)
        if not self.count:
            return None
        for place in sorted(self.buckets):
            left -= self.buckets[place]
            if left <= 0:
                return min(self.highest, max(self.lowest, math.exp((place - 1e6 + 0.5) / RESOLUTION))) if place else 0.0
        return self.highest
