"""A token bucket that refills at the limit, holds at most the tokens of the whole window, and may go below zero.

A rate does not suit changes of topics: one request may create a thousand partitions. A bucket accepts a burst while it
is not empty; then the client waits until it is no longer negative. Mirrors Kafka's TokenBucket (KIP-599).
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
        """The time until the bucket is no longer negative; 0 if it is not."""
        tokens = self.tokens(limit_per_second, now_ms)
        return 0 if tokens >= 0 else round(-tokens / limit_per_second * 1000)
