"""The only clock that tests read: conditions that a test awaits, and durations that it compares.

    wait_for(lambda: broker.is_up, "the broker to serve")       # fails with that sentence after PATIENCE_S
    watch = Stopwatch()
    watch.at_least(0.1)                                         # a lower bound, minus the grain of the clocks
    watch.at_most(30, because="the request waits for nothing")  # an upper bound has a reason

A busy machine stops any process for seconds. So a test awaits a condition for far longer than it ever takes, and
compares a duration from above only where the alternative is several times longer. No test reads another clock
(`tests/unit/tools/test_clocks_of_tests.py`).

The time-out of a program also covers its first metadata. If it is below METADATA_S, the test must expect a failure, or
no record.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, Literal, TypeVar

T = TypeVar("T")

# Longer than any condition takes beside a load of ten times the processors, and well below pytest's limit for a test.
PATIENCE_S: Final = 120.0
# Beside such a load a program may have no metadata before.
METADATA_S: Final = 5.0
# Timers of uvloop and of the JVM count whole milliseconds and round their start time. So a timer may fire up to one
# millisecond early on each side's clock.
GRAIN_S: Final = 0.005
_POLL_S: Final = 0.05


def wait_for(
    condition: Callable[[], T | Literal[False] | None],
    what: str | Callable[[], str],
    *,
    within: float = PATIENCE_S,
    poll: float = _POLL_S,
) -> T:
    """Returns the first true value of `condition`. `what` completes the message "waited for …", or returns it
    when the test fails. `within` is shorter only if the condition would become true later for another reason.
    """
    watch = Stopwatch()
    while not (found := condition()):
        if watch.seconds > within:
            raise AssertionError(_failure(what, within))
        time.sleep(poll)
    return found


async def wait_on_loop(
    condition: Callable[[], T | Literal[False] | None], what: str, *, within: float = PATIENCE_S
) -> T:
    """The same for a test on an event loop, which continues to run meanwhile."""
    watch = Stopwatch()
    while not (found := condition()):
        if watch.seconds > within:
            raise AssertionError(_failure(what, within))
        await asyncio.sleep(0.001)
    return found


def _failure(what: str | Callable[[], str], within: float) -> str:
    return f"waited {within:g} s for {what if isinstance(what, str) else what()}"


class Stopwatch:
    """Starts when it is constructed."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """For pacing and for figures that a test prints. To compare, a test uses `at_least` and `at_most`."""
        return time.monotonic() - self._began

    def restart(self) -> None:
        self._began = time.monotonic()

    def has_run(self, seconds: float) -> bool:
        """For loops that run for a given time."""
        return self.seconds >= seconds

    def at_least(self, seconds: float) -> None:
        passed = self.seconds
        assert passed >= seconds - GRAIN_S, f"{passed:.4f} s passed, and not {seconds:g} s"

    def at_most(self, seconds: float, *, because: str) -> None:
        took_at_most(self.seconds, seconds, because=because)


def took_at_most(took_s: float, limit_s: float, *, because: str) -> None:
    """For a duration that something else measured."""
    assert took_s <= limit_s, f"{took_s:.1f} s passed, and not at most {limit_s:g} s: {because}"
