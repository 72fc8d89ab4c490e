"""Requests that wait for a partition's progress: fetches for more bytes, produce requests for their commit.

Nothing polls. A partition has its waiters in plain containers and notifies them of changes:

- `FetchWaiter`: one long poll over any number of partitions. Partitions report how many bytes became readable (an
  estimate that is never too low). It wakes its owner when they may suffice, or at once when a partition has a new
  leader. Leaving a partition costs one dictionary removal. A `read_committed` reader is also woken by the end of a
  transaction: all records behind its first one become readable, and were reported before, when they were not.
- `CommitWaiters`: the produce requests of one partition, ordered by the offset they wait for.

Owned by the event loop, like the partition.
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
        """Up to `size_bytes` became readable."""

    def marked(self) -> None:
        """An offset moved that the next answer should contain, but that is no reason to wake the waiter."""

    def transaction_ended(self) -> None:
        """The last stable offset may have passed records that `grew` has reported before."""

    def wake(self) -> None:
        """Makes the waiter check its partitions again."""


class FetchWaiter:
    """Wakes its owner once, when `missing_bytes` may have become readable in the partitions that it watches."""

    __slots__ = ("_missing_bytes", "_places", "_reads_committed", "_wake")

    def __init__(self, missing_bytes: int, wake: Callable[[], None], *, reads_committed: bool = False) -> None:
        self._missing_bytes = missing_bytes
        self._reads_committed = reads_committed
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

    def transaction_ended(self) -> None:
        if self._reads_committed:
            self.wake()

    def wake(self) -> None:
        wake = self._wake
        if wake is not None:
            self.cancel()
            wake()

    def cancel(self) -> None:
        """Leaves every partition. The owner is not woken any more."""
        self._wake = None
        for place in self._places:
            place.waiting.pop(self, None)
        self._places.clear()


class ReaderSet:
    """The long polls that wait for one offset of a partition (the high watermark, or the log end for followers)."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: dict[Waiter, None] = {}

    def grew(self, size_bytes: int) -> None:
        # A waiter that has enough bytes removes itself during the loop, so iterate over a copy.
        for waiter in tuple(self.waiting):
            waiter.grew(size_bytes)

    def marked(self) -> None:
        for waiter in tuple(self.waiting):
            waiter.marked()

    def transaction_ended(self) -> None:
        for waiter in tuple(self.waiting):
            waiter.transaction_ended()

    def wake_all(self) -> None:
        for waiter in tuple(self.waiting):
            waiter.wake()


class CommitWaiters:
    """Callbacks, ordered by the (exclusive) offset that must be committed before the call."""

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
