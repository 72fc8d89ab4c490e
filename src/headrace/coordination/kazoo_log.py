"""kazoo's messages in our log: enough to see why the ensemble cannot be reached, at a limited rate.

The session itself logs when the connection is lost and restored. In between kazoo logs every attempt. This filter shows
the first reason, then one a minute with the number of suppressed messages. Other messages of kazoo have level DEBUG.
Called in kazoo's threads.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

KAZOO: Final = "headrace.coordination.kazoo"
AGAIN_AFTER_S: Final = 60.0


class RateLimitedLog(logging.Filter):
    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._monotonic_s = monotonic_s
        self._shown_at: float | None = None
        self._passed_over = 0
        self._silent = False

    def silence(self) -> None:
        """Drops all messages: a kazoo thread that logs while the process ends could make it crash."""
        self._silent = True

    def connected(self) -> None:
        """The next problem is logged as a new one."""
        self._shown_at = None

    def filter(self, record: logging.LogRecord) -> bool:
        if self._silent:
            return False
        if record.levelno >= logging.ERROR or logging.getLogger(record.name).isEnabledFor(logging.DEBUG):
            return True
        if record.levelno < logging.WARNING:
            return False
        now = self._monotonic_s()
        if self._shown_at is not None and now - self._shown_at < AGAIN_AFTER_S:
            self._passed_over += 1
            return False
        if self._shown_at is not None:
            record.msg = f"{record.msg} ({self._passed_over} lines like it were passed over)"
        self._shown_at, self._passed_over = now, 0
        return True


def rate_limited_logger(sparing: RateLimitedLog) -> logging.Logger:
    """kazoo's logger, with this filter instead of an earlier one."""
    logger = logging.getLogger(KAZOO)
    for old in [known for known in logger.filters if isinstance(known, RateLimitedLog)]:
        logger.removeFilter(old)
    logger.addFilter(sparing)
    return logger
