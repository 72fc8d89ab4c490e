"""How many requests of each API were served, how long they took and how many wait; cheap enough for every request."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Coroutine
from typing import Any, TypeVar

from headrace.telemetry.counters import Histogram

T = TypeVar("T")


class RequestMetrics:
    def __init__(self) -> None:
        self.by_api: dict[int, Histogram] = {}
        self.waiting: Counter[int] = Counter()

    def served(self, api_key: int, seconds: float) -> None:
        latency = self.by_api.get(api_key)
        if latency is None:
            latency = self.by_api[api_key] = Histogram()
        latency.observe(seconds)

    async def timed(self, api_key: int, started: float, answer: Coroutine[Any, Any, T]) -> T:
        """An answer that is waited for: counted as waiting until it is there, then as served."""
        self.waiting[api_key] += 1
        try:
            return await answer
        finally:
            self.waiting[api_key] -= 1
            self.served(api_key, time.perf_counter() - started)
