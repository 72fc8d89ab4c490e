"""Event times: a base rate, a curve over the day, and bursts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

_DAY_S: Final = 86_400.0


@dataclass(frozen=True)
class Burst:
    """The rate is `times` as high from `at_s` on, for `for_s` seconds."""

    at_s: float
    for_s: float
    times: float


@dataclass(frozen=True)
class Arrivals:
    """Records per second at a moment of event time, counted from the start."""

    rate: float
    night: float = 1.0
    """The share of the rate at the quietest moment of a period; 1 means a flat curve."""
    period_s: float = _DAY_S
    bursts: tuple[Burst, ...] = ()

    def rate_at(self, second: float) -> float:
        middle, height = (1 + self.night) / 2, (1 - self.night) / 2
        factor = middle - height * math.cos(2 * math.pi * second / self.period_s)
        for burst in self.bursts:
            if burst.at_s <= second < burst.at_s + burst.for_s:
                factor *= burst.times
        return self.rate * max(factor, 1e-6)

    def times_after(self, second: float, count: int) -> list[float]:
        """The next `count` event times, in seconds from the start."""
        found = []
        if self.night == 1.0 and not self.bursts:
            step = 1 / self.rate
            return [second + step * n for n in range(1, count + 1)]
        for _ in range(count):
            second += 1 / self.rate_at(second)
            found.append(second)
        return found
