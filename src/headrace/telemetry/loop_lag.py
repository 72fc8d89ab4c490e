"""Measures event-loop lag, the best single indicator of an overloaded broker.

All work of a broker shares one event loop, so a slow call (a huge request, a blocking disk access) delays all requests.
A timer that should fire every quarter of a second measures the delay.
"""

from __future__ import annotations

import asyncio
from typing import Final

from headrace.telemetry.counters import Histogram

_INTERVAL_S: Final = 0.25


class LoopLag:
    def __init__(self) -> None:
        self.histogram = Histogram()
        self._timer: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._wait(loop)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        due = loop.time() + _INTERVAL_S
        self._timer = loop.call_at(due, self._ran, loop, due)

    def _ran(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self.histogram.observe(max(loop.time() - due, 0.0))
        self._wait(loop)
