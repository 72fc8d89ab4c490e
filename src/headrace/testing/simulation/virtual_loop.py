"""An asyncio event loop on virtual time: when nothing is ready, the clock jumps to the next timer.

All code runs in one thread, in an order that depends only on the program, so a run can be replayed. There is no I/O:
code that waits for a socket or a thread gets `Deadlock`.

Code whose context names an `OWNER` (a broker process) can be frozen, as with SIGSTOP: none of it runs until it is
thawed. Then the calls that became due meanwhile run in order, and find that the clock has jumped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Final, TypeVar

T = TypeVar("T")

# Broker process that the running code belongs to. None for network, store and clients.
OWNER: ContextVar[int | None] = ContextVar("OWNER", default=None)
# Some tasks send a last request when they are cancelled, and wait for the answer.
_ROUNDS_TO_END: Final = 5
_END_WITHIN_S: Final = 30.0


def context_of(owner: int | None) -> Context:
    context = copy_context()
    context.run(OWNER.set, owner)
    return context


class Deadlock(AssertionError):
    """Nothing is ready and no timer is set: the program waits for something that cannot come."""


class _Jump:
    """Replaces the selector: waiting advances virtual time only."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[object]:
        if timeout is None:
            raise Deadlock("nothing is ready and no timer is set")
        if timeout > 0:
            self._loop.now += timeout
        return []

    def close(self) -> None:
        pass


class _Held:
    """A call of a process that can be frozen. Its handle says whether it was cancelled meanwhile."""

    __slots__ = ("args", "callback", "context", "handle")

    def __init__(self, callback: Callable[..., object], args: tuple[object, ...], context: Context) -> None:
        self.callback = callback
        self.args = args
        self.context = context
        self.handle: asyncio.Handle | None = None


class VirtualLoop(asyncio.BaseEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._selector = _Jump(self)
        self._clock_resolution = 1e-9
        self._frozen: dict[int, list[_Held]] = {}

    def freeze(self, owner: int) -> None:
        self._frozen.setdefault(owner, [])

    def thaw(self, owner: int) -> None:
        for held in self._frozen.pop(owner, ()):
            super().call_soon(self._run_owned, held, context=held.context)

    def end_all(self) -> None:
        """Ends all tasks that still run. If the garbage collector ended them, it would disturb the next run."""
        for owner in tuple(self._frozen):
            self.thaw(owner)
        for _ in range(_ROUNDS_TO_END):
            tasks = asyncio.all_tasks(self)
            if not tasks:
                return
            for task in tasks:
                task.cancel()
            self.run_until_complete(asyncio.wait(tasks, timeout=_END_WITHIN_S))

    def call_soon(
        self, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.Handle:
        context = context or copy_context()
        if context.get(OWNER) is None:
            return super().call_soon(callback, *args, context=context)
        held = _Held(callback, args, context)
        held.handle = super().call_soon(self._run_owned, held, context=context)
        return held.handle

    def call_at(
        self, when: float, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.TimerHandle:
        context = context or copy_context()
        if context.get(OWNER) is None:
            return super().call_at(when, callback, *args, context=context)
        held = _Held(callback, args, context)
        held.handle = timer = super().call_at(when, self._run_owned, held, context=context)
        return timer

    def _run_owned(self, held: _Held) -> None:
        waiting = self._frozen.get(held.context[OWNER] or 0)
        if waiting is not None:
            waiting.append(held)
        elif held.handle is None or not held.handle.cancelled():
            held.callback(*held.args)

    def time(self) -> float:
        return self.now

    def _process_events(self, event_list: list[object]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


def run(main: Callable[[], Coroutine[None, None, T]]) -> T:
    """Runs `main()` to its end on a new loop."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(main())
    finally:
        loop.end_all()
        loop.close()
