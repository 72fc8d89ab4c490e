"""Who waits for a partition's progress: fetches that want more bytes, produce requests that want their commit.

Nothing here polls. A partition keeps its waiters in plain containers and tells them when something moved:

- `FetchWaiter`: one long poll over any number of partitions. It is told how many bytes became readable (an estimate
  that is never too low), and wakes its owner once they may suffice, or at once when a partition changed hands.
  Leaving all partitions costs one dictionary removal each.
- `CommitWaiters`: the produce requests of one partition, ordered by the offset they wait for.

All of it belongs to the event loop that owns the partition.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from itertools import count
from typing import Protocol

from headrace.kernel.errors import ErrorCode


class Waiter(Protocol):
    def grew(self, size_bytes: int) -> None:
        """So much may have become readable."""

    def marked(self) -> None:
        """A mark moved that is worth telling, but not worth waking anybody for."""

    def wake(self) -> None:
        """Whoever waits must look again."""


class FetchWaiter:
    """Wakes its owner once, when `missing_bytes` may have become readable over the places it watches."""

    __slots__ = ("_missing_bytes", "_places", "_wake")

    def __init__(self, missing_bytes: int, wake: Callable[[], None]) -> None:
        self._missing_bytes = missing_bytes
        self._wake: Callable[[], None] | None = wake
        self._places: list[ReaderSet] = []

    def watch(self, place: ReaderSet) -> None:
        place.waiting[self] = None
        self._places.append(place)

    def grew(self, size_bytes: int) -> None:
        self._missing_bytes -= size_bytes
        if self._missing_bytes <= 0:
            self.wake()

    def marked(self) -> None:
        pass

    def wake(self) -> None:
        wake = self._wake
        if wake is not None:
            self.cancel()
            wake()

    def cancel(self) -> None:
        """Leave every place; the owner is not woken any more."""
        self._wake = None
        for place in self._places:
            place.waiting.pop(self, None)
        self._places.clear()


class ReaderSet:
    """The long polls that wait at one mark of one partition (its high watermark, or its log end for followers)."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: dict[Waiter, None] = {}

    def grew(self, size_bytes: int) -> None:
        # A waiter that has enough leaves while we tell the others, so the telling goes over a copy.
        for waiter in tuple(self.waiting):
            waiter.grew(size_bytes)

    def marked(self) -> None:
        for waiter in tuple(self.waiting):
            waiter.marked()

    def wake_all(self) -> None:
        for waiter in tuple(self.waiting):
            waiter.wake()


class CommitWaiters:
    """Callbacks by the (exclusive) offset that must be committed before they are called."""

    __slots__ = ("_heap", "_numbers")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Callable[[ErrorCode], None]]] = []
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, offset: int, answer: Callable[[ErrorCode], None]) -> None:
        heapq.heappush(self._heap, (offset, next(self._numbers), answer))

    def reached(self, high_watermark: int, code: ErrorCode) -> None:
        heap = self._heap
        while heap and heap[0][0] <= high_watermark:
            heapq.heappop(heap)[2](code)

    def fail_all(self, code: ErrorCode) -> None:
        waiting, self._heap = self._heap, []
        for _, _, answer in waiting:
            answer(code)


async def answer_within(timeout_ms: int, register: Callable[[Callable[[ErrorCode], None]], None]) -> ErrorCode:
    """The answer given to the registered callback, or REQUEST_TIMED_OUT."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[ErrorCode] = loop.create_future()

    def answer(code: ErrorCode) -> None:
        if not future.done():
            future.set_result(code)

    timer = loop.call_later(max(0, timeout_ms) / 1000, answer, ErrorCode.request_timed_out)
    register(answer)
    try:
        return await future
    finally:
        timer.cancel()
