"""DeleteRecords requests of one partition that wait until every live replica has deleted the records.

The leader answers DeleteRecords when the *low watermark*, the smallest log start of the live replicas, reaches the
requested offset: then no replica that may lead next can show the records again. Every fetch of a follower has its log
start. The leader does not wait for dead brokers. Owned by the event loop, like its partition.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.kernel.errors import ErrorCode, OffsetOutOfRange
from headrace.replication.core.isr import InSyncReplicas
from headrace.replication.waiters import CommitWaiters, answer_within


def deletion_target(name: str, offset: int, high_watermark: int) -> int:
    """The requested log start: `offset`, or the high watermark for -1. Raises OffsetOutOfRange."""
    target = high_watermark if offset == -1 else offset
    if target < 0 or target > high_watermark:
        raise OffsetOutOfRange(f"{name}: cannot delete up to {offset}, the high watermark is {high_watermark}")
    return target


def low_watermark(own_log_start: int, isr: InSyncReplicas | None, live_brokers: Mapping[int, int]) -> int:
    """The smallest log start of the live replicas: all of them have deleted the records below it."""
    if isr is None or not isr.followers:
        return own_log_start
    starts = [progress.log_start for broker, progress in isr.followers.items() if broker in live_brokers]
    return min([own_log_start, *starts])


class Deletions:
    """Requests that wait for a low watermark. There are rarely any: check `waiting` before computing it."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters = CommitWaiters()

    @property
    def waiting(self) -> bool:
        return len(self._waiters) > 0

    def reached(self, low_watermark: int) -> None:
        self._waiters.reached(low_watermark, ErrorCode.none)

    def fail_all(self, code: ErrorCode) -> None:
        self._waiters.fail_all(code)

    async def wait(self, offset: int, timeout_ms: int) -> ErrorCode:
        return await answer_within(timeout_ms, lambda answer: self._waiters.add(offset, answer))
