"""Timers of one shard, by key.

A heartbeat moves its member's deadline every few seconds, and the deadline rarely passes. Cancelling and arming an
event-loop timer each time would be the most expensive part of a heartbeat. So a later deadline is only stored. When the
armed timer fires, it checks the deadline and arms itself again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable

from headrace.coordinators.runtime.result import Timer
from headrace.kernel.dataclass import dataclass


@dataclass(slots=True)
class _Armed:
    deadline: float
    timer: Timer
    handle: asyncio.TimerHandle
    armed_for: float


class Timers:
    def __init__(self, loop: asyncio.AbstractEventLoop, run: Callable[[Timer], None]) -> None:
        self._loop = loop
        self._run = run
        self._armed: dict[Hashable, _Armed] = {}

    def __len__(self) -> int:
        return len(self._armed)

    def apply(self, timer: Timer, *, in_ms: int | None = None) -> None:
        """Sets or cancels a timer. `in_ms`: fires then, instead of after its delay."""
        if timer.fire is None:
            armed = self._armed.pop(timer.key, None)
            if armed is not None:
                armed.handle.cancel()
            return
        deadline = self._loop.time() + (timer.delay_ms if in_ms is None else in_ms) / 1000
        armed = self._armed.get(timer.key)
        if armed is not None and deadline >= armed.armed_for:
            armed.deadline = deadline
            armed.timer = timer
            return
        if armed is not None:
            armed.handle.cancel()
        handle = self._loop.call_at(deadline, self._wake, timer.key)
        self._armed[timer.key] = _Armed(deadline, timer, handle, deadline)

    def clear(self) -> None:
        for armed in self._armed.values():
            armed.handle.cancel()
        self._armed.clear()

    def _wake(self, key: Hashable) -> None:
        armed = self._armed[key]
        # A millisecond of grace: an event loop may call a little before the exact time.
        if armed.deadline > self._loop.time() + 0.001:
            armed.armed_for = armed.deadline
            armed.handle = self._loop.call_at(armed.deadline, self._wake, key)
            return
        del self._armed[key]
        self._run(armed.timer)
