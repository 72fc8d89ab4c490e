"""Replies that wait until an offset of a coordinator's log is committed, in the order of the log.

One task waits for commits, however many replies are queued: the first in the queue is always the next to be committed.
If records are committed as they are written (replication factor 1) there is no task. Owned by the event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from headrace.coordinators.runtime.log import CoordinatorLog, coordinator_error
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Refused

Reply = TypeVar("Reply")

Tell = Callable[[ErrorCode], None]


@dataclass(slots=True)
class _Waiting:
    """A reply that is due when the log is committed up to `end_offset`."""

    end_offset: int
    deadline: float
    tell: Tell


class CommitQueue:
    def __init__(self, log: CoordinatorLog, timeout_ms: int) -> None:
        self._log = log
        self._timeout_ms = timeout_ms
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Waiting] = deque()
        self._drain_task: asyncio.Task[None] | None = None

    @property
    def is_settled(self) -> bool:
        """Whether all written records are committed and all replies are sent."""
        return not self._waiting and self._log.is_committed

    def wait_for(self, end_offset: int, tell: list[Tell]) -> None:
        if self._log.committed_offset >= end_offset and not self._waiting:
            for each in tell:
                each(ErrorCode.none)
            return
        deadline = self._loop.time() + self._timeout_ms / 1000
        self._waiting.extend(_Waiting(end_offset, deadline, each) for each in tell)
        if self._drain_task is None or self._drain_task.done():
            self._drain_task = self._loop.create_task(self._drain())

    def abandon(self, error: ErrorCode) -> None:
        """Answers all waiting replies with `error`."""
        waiting, self._waiting = self._waiting, deque()
        for entry in waiting:
            entry.tell(error)

    async def _drain(self) -> None:
        while self._waiting:
            first = self._waiting[0]
            left_ms = max(round((first.deadline - self._loop.time()) * 1000), 1)
            error = await self._log.wait_committed(first.end_offset, left_ms)
            committed = self._log.committed_offset
            while self._waiting and self._waiting[0].end_offset <= committed:
                self._waiting.popleft().tell(ErrorCode.none)
            if error is ErrorCode.none:
                continue
            # The records are written and may be committed later; only these waits end (as in Kafka).
            timed_out = error is ErrorCode.request_timed_out
            now = self._loop.time()
            while self._waiting and (not timed_out or self._waiting[0].deadline <= now + 0.001):
                self._waiting.popleft().tell(error)


def settle(future: asyncio.Future[Reply], reply: Reply) -> Tell:
    """Sets the reply in `future` when the log is committed, or the error."""

    def tell(error: ErrorCode) -> None:
        if future.done():
            return
        if error is ErrorCode.none:
            future.set_result(reply)
        else:
            future.set_exception(Refused(coordinator_error(error), f"the write was not committed ({error.name})"))

    return tell
