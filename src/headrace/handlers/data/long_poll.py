"""A request that waits until it can be answered, or until its time is over.

It does not poll: the partition it waits for calls `wake`, and the next turn of the event loop checks it. So everything
that one round of requests appends is in one answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headrace.net.replies import Parts, Pending

# Ends a watch.
Stop = Callable[[], None]
# Takes (whether the time is over, the wake callback). Returns the answer, or a function that ends the new watch.
Look = Callable[[bool, Callable[[], None]], Parts | Stop]


class LongPoll:
    __slots__ = ("_look", "_loop", "_stop", "_timer", "_woken", "pending")

    def __init__(self, look: Look, max_wait_ms: int) -> None:
        self._look = look
        self._loop = asyncio.get_running_loop()
        self._stop: Stop | None = None
        self._woken = False
        self._timer = self._loop.call_later(max_wait_ms / 1000, self._late)
        self.pending = Pending(at_once=True, dropped=self._end)

    def wait(self, stop: Stop) -> None:
        self._stop = stop

    def wake(self) -> None:
        if not self._woken:
            self._woken = True
            self._loop.call_soon(self._again)

    def _late(self) -> None:
        self._again(is_late=True)

    def _again(self, is_late: bool = False) -> None:
        pending = self.pending
        if pending.ready:
            return
        self._woken = False
        self._end_watch()
        try:
            found = self._look(is_late, self.wake)
        except (
            Exception
        ) as error:  # boundary of a check: the event loop calls it, so the waiting client must get the error
            self._timer.cancel()
            pending.fail(error)
            return
        if isinstance(found, list):
            self._timer.cancel()
            pending.give(found)
        else:
            self._stop = found

    def _end_watch(self) -> None:
        stop, self._stop = self._stop, None
        if stop is not None:
            stop()

    def _end(self) -> None:
        self._timer.cancel()
        self._end_watch()
