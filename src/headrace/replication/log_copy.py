"""Copies the current log of a moving replica into its future log, one step at a time.

    loop    next_step: what is missing?  ──►  thread: append or truncate the future log  ──►  loop again

The current log changes meanwhile: it grows, retention moves its start, and a follower may truncate it. So every step
first compares the leader epochs of both logs, as a follower does with its leader. The loop owns the current log and
reads from it only positions in files; the thread owns the future log during a step.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from headrace.kernel.errors import CorruptBatch
from headrace.replication.core.follower import truncation_point
from headrace.replication.core.leader import EpochEnd
from headrace.storage.leader_epochs import UNDEFINED_EPOCH
from headrace.storage.log import Log, Slice

PIECE_BYTES: Final = 1 << 20
# What the loop copies itself in the last moment: about a millisecond of work.
LAST_BYTES: Final = 256 * 1024
# What may be copied after the flush before the next one: the loop may have to sync it.
UNSYNCED_BYTES: Final = 4 << 20

Step = tuple[int, Callable[[], None]]


class LogCopy:
    def __init__(self, future: Log, wall_ms: Callable[[], int]) -> None:
        self.future = future
        self._wall_ms = wall_ms
        self._prepared_start = -1
        self._unsynced_bytes = 0

    def next_step(self, current: Log, max_bytes: int = PIECE_BYTES) -> Step | None:
        """The next step with its number of bytes, for a thread. None if the future log has everything. On the loop.

        Raises StorageFault and CorruptBatch.
        """
        future = self.future
        start, end = current.log_start_offset, current.log_end_offset
        if future.log_end_offset < start:
            return 0, lambda: future.truncate_fully_and_start_at(start, now_ms=self._wall_ms())
        cut = agreed_end(current, future)
        if cut < future.log_end_offset:
            if cut <= max(start, future.log_start_offset):
                return 0, lambda: future.truncate_fully_and_start_at(start, now_ms=self._wall_ms())
            return 0, lambda: future.truncate_to(cut, now_ms=self._wall_ms())
        future.advance_high_watermark(current.high_watermark)
        future.advance_log_start(min(start, future.high_watermark))
        if future.log_end_offset == end:
            return None
        # A thread gets the interpreter late while the loop is busy. So one step has more than one small segment.
        pieces = current.read_across(future.log_end_offset, max_bytes)
        if not pieces:
            return 0, lambda: future.skip_to(end, now_ms=self._wall_ms())
        return sum(piece.length for piece in pieces), lambda: self._append(pieces)

    def _append(self, pieces: list[Slice]) -> None:
        for piece in pieces:
            data = os.pread(piece.file.fileno(), piece.length, piece.position)
            if len(data) != piece.length:
                raise CorruptBatch(
                    f"{self.future.name}: {piece.file.path} ends before byte {piece.position + piece.length}"
                )
            self.future.append_as_follower(memoryview(data))
        # Syncs the segments that are complete: after a crash the move need not read them again.
        self.future.flush_if_due(self._wall_ms())

    def prepared(self) -> None:
        """The checkpoint of the target directory has the future log as it is now."""
        self._prepared_start = self.future.log_start_offset
        self._unsynced_bytes = 0

    def is_prepared(self, current: Log) -> bool:
        return self._prepared_start == current.log_start_offset

    def copied(self, size_bytes: int) -> None:
        self._unsynced_bytes += size_bytes
        if self._unsynced_bytes > UNSYNCED_BYTES:
            self._prepared_start = -1

    def catch_up(self, current: Log) -> bool:
        """Copies the last records on the loop. Returns whether the future log can replace the current one now."""
        if not self.is_prepared(current):
            return False
        step = self.next_step(current, LAST_BYTES)
        if step is not None and step[0] < LAST_BYTES:
            step[1]()
            self.copied(step[0])
            step = self.next_step(current, LAST_BYTES)
        # A truncation may have changed the log start.
        return step is None and self.future.log_start_offset == self._prepared_start == current.log_start_offset


def agreed_end(current: Log, future: Log) -> int:
    """The offset up to which both logs have the same records."""
    end = future.log_end_offset
    if end == future.log_start_offset:
        return min(end, current.log_end_offset)
    epoch = future.leader_epochs.epoch_of(end - 1)
    if epoch == UNDEFINED_EPOCH:
        return min(end, current.log_end_offset)  # records of an old format have no epochs
    theirs = EpochEnd(*current.leader_epochs.end_offset_for(epoch, current.log_end_offset))
    own = EpochEnd(*future.leader_epochs.end_offset_for(theirs.epoch, end))
    return truncation_point(theirs, own, end)
