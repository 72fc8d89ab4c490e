"""Replication throttles: a byte rate limit for the replicas that are configured as throttled. Pure.

Operators use throttles while a reassignment copies whole partitions, so that clients keep their bandwidth. They apply
only to replicas that are not in sync: a throttle must never push a replica out of the ISR. The rate is measured over a
sliding second.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

UNLIMITED: Final = (1 << 63) - 1
_WINDOW_MS: Final = 1000


class ThrottledReplicas:
    """`leader.` or `follower.replication.throttled.replicas` of one topic: `0:101,1:102` or `*`."""

    __slots__ = ("_all", "_pairs")

    def __init__(self, setting: str | Iterable[str]) -> None:
        items = setting.split(",") if isinstance(setting, str) else list(setting)
        words = [item.strip() for item in items if item.strip()]
        self._all = "*" in words
        self._pairs = frozenset(
            (int(partition), int(broker)) for word in words if word != "*" for partition, broker in [word.split(":")]
        )

    def holds(self, partition: int, broker: int) -> bool:
        return self._all or (partition, broker) in self._pairs


class RateLimit:
    """Bytes per second over a sliding window. Use is recorded afterwards, so only the next use waits."""

    __slots__ = ("_since_ms", "_spent", "rate")

    def __init__(self, rate: int = UNLIMITED) -> None:
        self.rate = rate
        self._spent = 0.0
        self._since_ms = 0

    def spent(self, size_bytes: int, now_ms: int) -> None:
        self._leak(now_ms)
        self._spent += size_bytes

    def exceeded(self, now_ms: int) -> bool:
        if self.rate >= UNLIMITED:
            return False
        self._leak(now_ms)
        return self._spent > self.rate * _WINDOW_MS / 1000

    def _leak(self, now_ms: int) -> None:
        elapsed = max(0, now_ms - self._since_ms)
        self._since_ms = max(self._since_ms, now_ms)
        self._spent = max(0.0, self._spent - self.rate * elapsed / 1000)
