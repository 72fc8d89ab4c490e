"""Probabilities and durations of faults. Healing returns to `CALM`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Faults:
    message_lost: float = 0.0
    message_doubled: float = 0.0
    delay_s: tuple[float, float] = (0.0005, 0.005)
    message_very_late: float = 0.0
    very_late_s: tuple[float, float] = (0.1, 8.0)
    store_lost_before: float = 0.0
    store_lost_after: float = 0.0
    store_stale_read: float = 0.0
    store_delay_s: tuple[float, float] = (0.001, 0.01)
    watch_delay_s: tuple[float, float] = (0.0, 0.2)


CALM: Final = Faults()
STORMY: Final = Faults(
    message_lost=0.02,
    message_doubled=0.02,
    delay_s=(0.0005, 0.05),
    message_very_late=0.01,
    store_lost_before=0.02,
    store_lost_after=0.02,
    store_stale_read=0.2,
    store_delay_s=(0.001, 0.1),
    watch_delay_s=(0.0, 1.0),
)
