"""Quantiles of a stream of times in constant memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import repeat

RESOLUTION = 400  # buckets per factor e of a quantile: 0.25% wide


HELD = 1024  # values that are counted at once


class Quantiles:
    """Quantiles of a stream in constant memory, 0.13% exact; the mean is exact."""

    __slots__ = ("_buckets", "_count", "_counts", "_highest", "_lowest", "_total", "_values")

    def __init__(self) -> None:
        self._buckets: dict[int, int] = {}
        self._values: list[float] = []
        self._counts: list[int] = []
        self._count = 0
        self._total = 0.0
        self._lowest, self._highest = math.inf, 0.0

    def add(self, value: float, count: int = 1) -> None:
        """One more value, or so many alike. [s]"""
        self.extend((value,), (count,))

    def extend(self, values: Sequence[float], counts: Sequence[int] | None = None) -> None:
        """More values, each so many times (None: once). [s]"""
        self._values.extend(values)
        self._counts.extend(counts if counts is not None else repeat(1, len(values)))
        if len(self._values) >= HELD:
            self._tally()

    def _tally(self) -> None:
        """Put what was added into its buckets."""
        if not self._values:
            return
        import numpy as np

        values, counts = np.array(self._values), np.array(self._counts)
        places = np.where(values > 1e-12, np.log(np.maximum(values, 1e-12)) * RESOLUTION + 1e6, 0).astype(int)
        names, where = np.unique(places, return_inverse=True)
        for place, number in zip(names.tolist(), np.bincount(where, counts).tolist(), strict=True):
            self._buckets[place] = self._buckets.get(place, 0) + round(number)
        self._count += int(counts.sum())
        self._total += float((values * counts).sum())
        self._lowest, self._highest = min(self._lowest, float(values.min())), max(self._highest, float(values.max()))
        self._values.clear()
        self._counts.clear()

    @property
    def mean(self) -> float | None:
        """The mean, or None of nothing."""
        self._tally()
        return self._total / self._count if self._count else None

    def at(self, share: float) -> float | None:
        """The value that this share of all does not exceed, or None of nothing."""
        self._tally()
        left = math.ceil(share * self._count)
        if not self._count:
            return None
        for place in sorted(self._buckets):
            left -= self._buckets[place]
            if left <= 0:
                middle = math.exp((place - 1e6 + 0.5) / RESOLUTION) if place else 0.0
                return min(self._highest, max(self._lowest, middle)) if place else 0.0
        return self._highest
