"""A clock that tests can turn: the time of a broker that runs in this process.

    clock.advance(days=8)       # retention, timeouts, expiry: every timer that is due fires, in the order of its time

A broker knows three kinds of time: milliseconds since 1970, monotonic milliseconds, and the timers of its event loop.
`TurnedClock` turns the first two, `TurnedLoop` the third. Clients keep their own time: a consumer whose session
ended on the broker notices at its next heartbeat, as after a long pause.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import Context
from typing import Final, TypeVar

import uvloop

from headrace.kernel.clock import Clock

T = TypeVar("T")

# Turns of the event loop after which the work of the fired timers has begun, and what it started has run.
_SETTLING_TURNS: Final = 30


class ClockError(ValueError):
    """The clock cannot be turned so."""


class TurnedClock(Clock):
    """The machine's clock plus the time by which it was turned."""

    def __init__(self) -> None:
        self.turned_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.turned_ms

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.turned_ms


class _Timer(asyncio.TimerHandle):
    """Timer that fires by real time, or earlier because the clock was turned."""

    real: asyncio.TimerHandle


class TurnedLoop(uvloop.Loop):  # type: ignore[misc]
    """Event loop whose timers follow the clock of its broker."""

    def __init__(self, clock: TurnedClock) -> None:
        super().__init__()
        self._clock = clock
        self._timers: set[_Timer] = set()
        self._jobs = 0

    def time(self) -> float:
        return float(super().time()) + self._clock.turned_ms / 1000

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = _Timer(when, callback, args, self, context)
        timer.real = super().call_later(max(0.0, when - self.time()), self._fire, timer)
        self._timers.add(timer)
        return timer

    def _timer_handle_cancelled(self, timer: _Timer) -> None:
        timer.real.cancel()
        self._timers.discard(timer)

    def _fire(self, timer: _Timer) -> None:
        self._timers.discard(timer)
        if not timer.cancelled():
            timer._run()

    def run_in_executor(
        self, executor: Executor | None, function: Callable[..., T], *args: object
    ) -> asyncio.Future[T]:
        self._jobs += 1
        job: asyncio.Future[T] = super().run_in_executor(executor, function, *args)
        job.add_done_callback(self._job_ended)
        return job

    def _job_ended(self, _: object) -> None:
        self._jobs -= 1

    async def turned(self) -> None:
        """Fires the timers that are due after the clock was turned, and waits until their work is done."""
        now = self.time()
        for timer in sorted((one for one in self._timers if one.when() <= now), key=asyncio.TimerHandle.when):
            timer.real.cancel()
            self.call_soon(self._fire, timer)
        quiet = 0
        while quiet < _SETTLING_TURNS:
            await asyncio.sleep(0)
            quiet = quiet + 1 if not self._jobs else 0


class BrokerClock:
    """The clock of a broker as a test sees it. `turn` tells the broker that its clock was turned."""

    def __init__(self, clock: TurnedClock, turn: Callable[[], None]) -> None:
        self._clock = clock
        self._turn = turn

    @property
    def now(self) -> datetime.datetime:
        """The broker's time, in UTC."""
        return datetime.datetime.fromtimestamp(self._clock.wall_ms() / 1000, datetime.UTC)

    @property
    def now_ms(self) -> int:
        """The broker's time in milliseconds since 1970: the unit of timestamps."""
        return self._clock.wall_ms()

    def advance(
        self,
        *,
        weeks: float = 0,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        milliseconds: float = 0,
    ) -> None:
        """Turns the clock forward. Returns when every timer that is due has run. Raises ClockError for a step back."""
        step = datetime.timedelta(
            weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds
        )
        if step < datetime.timedelta():
            raise ClockError(f"advance by {step}: a broker's clock only goes forward; give a positive time")
        self._clock.turned_ms += round(step.total_seconds() * 1000)
        self._turn()

    def advance_to(self, moment: datetime.datetime) -> None:
        """Turns the clock forward to a moment, which must have a time zone."""
        if moment.tzinfo is None:
            raise ClockError(f"{moment.isoformat()} has no time zone: use for example tzinfo=datetime.UTC")
        left = moment - self.now
        if left < datetime.timedelta():
            raise ClockError(
                f"{moment.isoformat()} is before {self.now.isoformat()}: a broker's clock only goes forward"
            )
        self.advance(milliseconds=left.total_seconds() * 1000)
