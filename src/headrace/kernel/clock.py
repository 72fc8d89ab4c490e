"""The time that a broker uses. One clock for each broker; tests give it one that they can turn.

The timers of the event loop are the third kind of time: `loop.time()` belongs to the loop that runs the broker.
"""

from __future__ import annotations

import time
from typing import Final


class Clock:
    """The clock of the machine."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """For the distance between two moments."""
        return time.monotonic_ns() // 1_000_000


SYSTEM_CLOCK: Final = Clock()
