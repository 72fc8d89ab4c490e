"""Records deleted from the front of one partition, until every live replica has let go of them.

DeleteRecords is answered once the *low watermark*, the smallest log start over the live replicas, reaches what was
asked: then no replica that may lead next can show those records again. Followers tell their log start with every fetch;
a broker that dies is waited for no more. Owned by the event loop, like the partition it belongs to.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.kernel.errors import ErrorCode, OffsetOutOfRange
from headrace.replication.core.isr import InSyncReplicas
from headrace.replication.waiters import CommitWaiters, answer_within


def deletion_target(name: str, offset: int, high_watermark: int) -> int:
    """What DeleteRecords asks for: up to `offset`, or with -1 everything committed. Raises OffsetOutOfRange."""
    target = high_watermark if offset == -1 else offset
    if target < 0 or target > high_watermark:
        raise OffsetOutOfRange(f"{name}: cannot delete up to {offset}, the high watermark is {high_watermark}")
    return target


def low_watermark(own_log_start: int, isr: InSyncReplicas | None, live_brokers: Mapping[int, int]) -> int:
    """The smallest log start over the live replicas: below it no replica holds anything any more."""
    if isr is None or not isr.followers:
        return own_log_start
    starts = [progress.log_start for broker, progress in isr.followers.items() if broker in live_brokers]
    return min([own_log_start, *starts])


class Deletions:
    """Who waits for a low watermark. Nearly always nobody: ask `waiting` before working the mark out."""

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
