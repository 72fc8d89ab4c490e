"""Leader epochs of one partition: which epoch began at which offset.

Followers ask where an epoch ended, to find the offset up to which two logs agree. Truncation depends on that and never
on the high watermark. The file is `leader-epoch-checkpoint`; recovery finds missing epochs in the batches, each of
which has its epoch. Mirrors Kafka's LeaderEpochFileCache.

A new epoch is kept in memory. It is written to the file within a second after its first record (`Log.save_epochs`), not
by the append: when a broker fails or returns, hundreds of partitions begin an epoch at the same moment, and producers
wait for one event loop that handles them all. For the same reason, retention does not sync the file. A crash may
therefore leave an older file; recovery detects that from the batches (`recovery.segment_check`). Only a truncation at
the end of the log writes and syncs the file at once, because the data would not show that the file has too many epochs.

Invariant: epochs rise strictly, start offsets never fall.
"""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path
from typing import Final

from headrace.storage.dirs.checkpoints import CorruptFile, read_epochs, write_epochs

UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1


class LeaderEpochs:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._pairs: list[tuple[int, int]] = []
        self._in_file: list[tuple[int, int]] | None = []  # None: the file is damaged
        self.latest = UNDEFINED_EPOCH
        self.unsaved = False
        self._sync = False
        self._not_due_at: int | None = None  # the log end at which no epoch with records was missing in the file

    def load(self) -> bool:
        """Returns False if the file is damaged: the caller then rebuilds the epochs from the log."""
        try:
            self._pairs = self._in_file = read_epochs(self.path)
            sound = True
        except CorruptFile:
            self._pairs, self._in_file, sound = [], None, False
        self._remember_latest()
        return sound

    @property
    def entries(self) -> list[tuple[int, int]]:
        return list(self._pairs)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Records that `epoch` began at `start_offset`. Removes entries that contradict it. In memory only."""
        if epoch >= 0:
            self.note(epoch, start_offset)

    def note(self, epoch: int, start_offset: int) -> None:
        """Like `assign`, for a batch that was read from the log or from the leader."""
        if epoch > self.latest:
            self._pairs = [*(pair for pair in self._pairs if pair[1] < start_offset), (epoch, start_offset)]
            self.latest = epoch
            self.unsaved, self._not_due_at = True, None

    def forget_from(self, offset: int) -> None:
        """Removes the epochs that began at `offset` or later, because recovery will read them again. In memory only."""
        kept = [pair for pair in self._pairs if pair[1] < offset]
        if len(kept) != len(self._pairs):
            self.unsaved = self._sync = True
            self._not_due_at = None
        self._pairs = kept
        self._remember_latest()

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(the greatest epoch at or below `epoch`, its end offset), or (-1, -1) if it is not known.

        The latest epoch ends at the log end offset.
        """
        if epoch == UNDEFINED_EPOCH or not self._pairs:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        at = bisect_right(self._pairs, epoch, key=_epoch)
        if at == len(self._pairs):
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        # `epoch` is older than all known epochs: every record in the log is later.
        return (self._pairs[at - 1][0] if at else epoch), self._pairs[at][1]

    def epoch_of(self, offset: int) -> int:
        """The epoch in which `offset` was written, or -1 if it is before the first known epoch."""
        at = bisect_right(self._pairs, offset, key=_start)
        return self._pairs[at - 1][0] if at else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """Removes the epochs that began at or after `end_offset`, where the log was truncated."""
        kept = [pair for pair in self._pairs if pair[1] < end_offset]
        if len(kept) != len(self._pairs):
            self._replace(kept)

    def truncate_from_start(self, start_offset: int) -> None:
        """Moves the first epoch to `start_offset`, the new log start, and removes the epochs before it."""
        at = bisect_right(self._pairs, start_offset, key=_start)
        if at and self._pairs[0] != (self._pairs[at - 1][0], start_offset):
            self._replace([(self._pairs[at - 1][0], start_offset), *self._pairs[at:]], durable=self._sync)

    def adopt(self, other: LeaderEpochs) -> None:
        """Takes the epochs of a log with the same records; it may have one that has no records yet."""
        if self._pairs != other._pairs:
            self._replace(list(other._pairs), durable=False)

    def clear(self) -> None:
        self._replace([])

    def is_due(self, log_end_offset: int) -> bool:
        """Whether the file lacks an epoch that has records. An epoch without records need not be in the file, which
        saves a broker with thousands of partitions many writes at start and stop."""
        # Asked for every log each second: as long as the log has no new records, the answer stays the same.
        if not self.unsaved or log_end_offset == self._not_due_at:
            return False
        is_due = self._with_records(log_end_offset) != self._in_file
        self._not_due_at = None if is_due else log_end_offset
        return is_due

    def save_with_records(self, log_end_offset: int) -> None:
        """Writes the epochs that have records. The next start would remove the others, and sync each file."""
        self._write(self._with_records(log_end_offset), durable=self._sync)
        self.unsaved = self._pairs != self._in_file  # an epoch without records is due when it gets one

    def save_if_changed(self) -> None:
        if not self.unsaved:
            return
        if self._pairs != self._in_file:
            self._write(self._pairs, durable=self._sync)
        else:  # recovery has found the same epochs again, as after nearly every crash
            self.unsaved = self._sync = False

    def _replace(self, pairs: list[tuple[int, int]], *, durable: bool = True) -> None:
        # The log is already truncated, so memory changes even if the write fails; `unsaved` makes it try again.
        self._pairs = pairs
        self._remember_latest()
        self.unsaved, self._sync, self._not_due_at = True, durable, None
        self._write(pairs, durable=durable)

    def _write(self, pairs: list[tuple[int, int]], *, durable: bool) -> None:
        write_epochs(self.path, pairs, durable=durable)
        self._in_file = list(pairs)
        self.unsaved = self._sync = False

    def _with_records(self, log_end_offset: int) -> list[tuple[int, int]]:
        return [pair for pair in self._pairs if pair[1] < log_end_offset]

    def _remember_latest(self) -> None:
        self.latest = self._pairs[-1][0] if self._pairs else UNDEFINED_EPOCH


def _epoch(pair: tuple[int, int]) -> int:
    return pair[0]


def _start(pair: tuple[int, int]) -> int:
    return pair[1]
