"""Average, maximum and percentiles of the latencies of many operations, from a sample."""

from __future__ import annotations


class Latencies:
    """Keeps every n-th value so that a million operations fit in memory."""

    def __init__(self, expected: int, keep: int = 500_000) -> None:
        self._every = max(1, expected // keep)
        self._kept: list[float] = []
        self.count = 0
        self._total = 0.0
        self.maximum = 0.0

    def add(self, milliseconds: float) -> None:
        if self.count % self._every == 0:
            self._kept.append(milliseconds)
        self.count += 1
        self._total += milliseconds
        self.maximum = max(self.maximum, milliseconds)

    @property
    def average(self) -> float:
        return self._total / self.count if self.count else 0.0

    def percentiles(self, *fractions: float) -> list[float]:
        ordered = sorted(self._kept)
        return [
            ordered[min(len(ordered) - 1, int(fraction * len(ordered)))] if ordered else 0.0 for fraction in fractions
        ]
