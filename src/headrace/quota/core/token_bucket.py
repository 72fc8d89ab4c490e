"""An allowance that refills at the limit, holds at most the whole window's worth, and may go below zero.

For changes of topics a rate is too blunt: one request may create a thousand partitions. A bucket lets a burst through
as long as the bucket is not empty and then asks for the time until it is no longer in debt. Mirrors Kafka's TokenBucket
(KIP-599).
"""

from __future__ import annotations


class TokenBucket:
    __slots__ = ("_tokens", "_updated_ms", "burst_seconds", "last_used_ms")

    def __init__(self, burst_seconds: float) -> None:
        self.burst_seconds = burst_seconds
        self.last_used_ms = 0
        self._tokens: float | None = None  # full at first use
        self._updated_ms = 0

    def tokens(self, limit_per_second: float, now_ms: int) -> float:
        burst = limit_per_second * self.burst_seconds
        if self._tokens is None:
            self._tokens = burst
        else:
            elapsed_ms = max(now_ms - self._updated_ms, 0)
            self._tokens = min(self._tokens + elapsed_ms * limit_per_second / 1000, burst)
        self._updated_ms = now_ms
        return self._tokens

    def take(self, amount: float, limit_per_second: float, now_ms: int) -> None:
        self.last_used_ms = now_ms
        self._tokens = self.tokens(limit_per_second, now_ms) - amount

    def wait_ms(self, limit_per_second: float, now_ms: int) -> int:
        """How long until the debt is paid; 0 when there is none."""
        tokens = self.tokens(limit_per_second, now_ms)
        return 0 if tokens >= 0 else round(-tokens / limit_per_second * 1000)
