"""An asyncio event loop on virtual time: when nothing is ready, the clock jumps to the next timer.

Everything on it runs in one thread and in an order that only depends on what the program does, so a run can be
replayed. There is no I/O: code that waits for a socket or a thread would wait for ever, and is told so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Stuck(AssertionError):
    """Nothing is ready and no timer is set: the program waits for something that cannot come."""


class _Jump:
    """In the place of a selector: waiting costs virtual time only."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise Stuck("nothing is ready and no timer is set")
        if timeout > 0:
            self._loop.now += timeout
        return []

    def close(self) -> None:
        pass


class VirtualLoop(asyncio.BaseEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._selector = _Jump(self)
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self.now

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run `main()` to its end on a loop of its own."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(main())
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
