"""How many requests of each API were served and how long they took; cheap enough for every request.

Latencies fall into fixed buckets, so that a scrape adds nothing to the cost of serving.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

BUCKETS_S: Final = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
)


class ApiLatency:
    __slots__ = ("buckets", "count", "total_s")

    def __init__(self) -> None:
        self.count = 0
        self.total_s = 0.0
        self.buckets = [0] * (len(BUCKETS_S) + 1)


class RequestMetrics:
    def __init__(self) -> None:
        self.by_api: dict[int, ApiLatency] = {}

    def served(self, api_key: int, seconds: float) -> None:
        latency = self.by_api.get(api_key)
        if latency is None:
            latency = self.by_api[api_key] = ApiLatency()
        latency.count += 1
        latency.total_s += seconds
        latency.buckets[bisect_left(BUCKETS_S, seconds)] += 1

    async def timed(self, api_key: int, started: float, answer: Coroutine[Any, Any, T]) -> T:
        try:
            return await answer
        finally:
            self.served(api_key, time.perf_counter() - started)
