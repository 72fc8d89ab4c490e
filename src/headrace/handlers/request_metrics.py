"""How many requests of each API were served, how long they took and how many wait; cheap enough for every request."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from headrace.net.replies import Bytes, Close
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


class Outstanding:
    """A promised answer (`net.replies.Keeper`): counted as waiting until it is settled, then as served."""

    __slots__ = ("_api_key", "_metrics", "_started", "explain")

    def __init__(
        self,
        metrics: RequestMetrics,
        api_key: int,
        started: float,
        explain: Callable[[Exception], Bytes | Close],
    ) -> None:
        self._metrics = metrics
        self._api_key = api_key
        self._started = started
        self.explain = explain
        metrics.waiting[api_key] += 1

    def settled(self) -> None:
        metrics = self._metrics
        metrics.waiting[self._api_key] -= 1
        metrics.served(self._api_key, time.perf_counter() - self._started)
