"""Logs the progress of the recovery after an unclean stop.

With thousands of replicas, or large segments, recovery takes minutes in which the broker does not serve.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from headrace.kernel.plurals import counted
from headrace.storage.recovery.recovery import Progress

log = logging.getLogger("headrace.broker")

_EVERY_S: Final = 5.0


class RecoveryProgress:
    """Called by the recovery threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._checked = 0
        self._next_at: float | None = None

    def progressed(self, step: Progress) -> None:
        with self._lock:
            now = self._clock()
            if self._next_at is None:
                log.info("checking %s after an unclean stop", counted(step.logs, "log"))
                self._next_at = now + _EVERY_S
            is_done = step.segments_done == step.segments_to_check
            self._checked += is_done
            if now < self._next_at:
                return
            self._next_at = now + _EVERY_S
            rest = "" if is_done else f"; {step.partition}: segment {step.segments_done} of {step.segments_to_check}"
            log.info("%d of %d logs are checked%s", self._checked, step.logs, rest)
