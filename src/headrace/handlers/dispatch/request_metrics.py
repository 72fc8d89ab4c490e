"""Requests per API: how many were served, how long they took, how many wait. Cheap enough for every request."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from headrace.net.replies import Answer
from headrace.telemetry.counters import Histogram


class RequestMetrics:
    def __init__(self) -> None:
        self.by_api: dict[int, Histogram] = {}
        self.waiting: Counter[int] = Counter()

    def served(self, api_key: int, seconds: float) -> None:
        latency = self.by_api.get(api_key)
        if latency is None:
            latency = self.by_api[api_key] = Histogram()
        latency.observe(seconds)


class Outstanding:
    """A pending answer (`net.replies.Keeper`): counted as waiting until it is settled, then as served."""

    __slots__ = ("_api_key", "_metrics", "_started", "explain")

    def __init__(
        self,
        metrics: RequestMetrics,
        api_key: int,
        started: float,
        explain: Callable[[Exception], Answer],
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
