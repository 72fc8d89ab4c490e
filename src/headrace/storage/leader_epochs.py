"""The history of leaderships of one partition: which epoch began at which offset.

Followers ask it where an epoch ended, to find the point up to which two logs agree; that question, and never the high
watermark, decides what is cut. Kept in `leader-epoch-checkpoint`; what is missing there is found again in the batches,
each of which carries its epoch. Mirrors Kafka's LeaderEpochFileCache.

An epoch that begins is kept in memory and written down within a second (`Log.save_epochs`), not by the append that
brings it: when a broker dies or comes back, hundreds of partitions begin one at the same moment, writers wait for each
of them, and one event loop does it all. Nor does anyone wait for the disk when hundreds of logs lose their oldest
segments. So a crash may leave an older file, which a start finds out by the batches (`recovery`, `checking`). Only
what a cut at the end took away is written at once, and forced: nothing in the data would tell that it is too much.

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
        self._in_file: list[tuple[int, int]] | None = None
        self.latest = UNDEFINED_EPOCH
        self.unsaved = False
        self._sync = False

    def load(self) -> bool:
        """False when the file was damaged: the caller then finds the epochs in the log."""
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
        """`epoch` began at `start_offset`. Later knowledge wins over what contradicts it. In memory only."""
        if epoch >= 0:
            self.note(epoch, start_offset)

    def note(self, epoch: int, start_offset: int) -> None:
        """As `assign`, of a batch that was read, whoever wrote it."""
        if epoch > self.latest:
            self._pairs = [*(pair for pair in self._pairs if pair[1] < start_offset), (epoch, start_offset)]
            self.latest = epoch
            self.unsaved = True

    def forget_from(self, offset: int) -> None:
        """Epochs that began at `offset` or later will be found again in the data; in memory only."""
        kept = [pair for pair in self._pairs if pair[1] < offset]
        if len(kept) != len(self._pairs):
            self.unsaved = self._sync = True
        self._pairs = kept
        self._remember_latest()

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(the greatest epoch at or below `epoch`, the offset where it ended), or (-1, -1) when that cannot be told.

        The latest epoch ends where the log ends.
        """
        if epoch == UNDEFINED_EPOCH or not self._pairs:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        at = bisect_right(self._pairs, epoch, key=_epoch)
        if at == len(self._pairs):
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        # Older than all we know: everything that we hold began after it.
        return (self._pairs[at - 1][0] if at else epoch), self._pairs[at][1]

    def epoch_of(self, offset: int) -> int:
        """The epoch in which `offset` was written, -1 when it is before all that is known."""
        at = bisect_right(self._pairs, offset, key=_start)
        return self._pairs[at - 1][0] if at else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """The log was cut at `end_offset`: epochs that began there or later never happened."""
        kept = [pair for pair in self._pairs if pair[1] < end_offset]
        if len(kept) != len(self._pairs):
            self._replace(kept)

    def truncate_from_start(self, start_offset: int) -> None:
        """The log begins at `start_offset` now: the epoch in which that was written is the first one known."""
        at = bisect_right(self._pairs, start_offset, key=_start)
        if at and self._pairs[0] != (self._pairs[at - 1][0], start_offset):
            self._replace([(self._pairs[at - 1][0], start_offset), *self._pairs[at:]], durable=self._sync)

    def clear(self) -> None:
        self._replace([])

    def is_due(self, log_end_offset: int) -> bool:
        """Whether the file lacks something that has records. Until there is one, who reads the file misses nothing; by
        that a broker that leads thousands of partitions starts and stops in time."""
        if not self.unsaved:
            return False
        return [pair for pair in self._pairs if pair[1] < log_end_offset] != self._in_file

    def save_if_changed(self) -> None:
        if not self.unsaved:
            return
        if self._pairs != self._in_file:
            self._write(self._pairs, durable=self._sync)
        else:  # all that recovery forgot was found again, as after nearly every crash
            self.unsaved = self._sync = False

    def _replace(self, pairs: list[tuple[int, int]], *, durable: bool = True) -> None:
        # The log was cut already, so memory follows whether or not the file can: `unsaved` asks for another try.
        self._pairs = pairs
        self._remember_latest()
        self.unsaved, self._sync = True, durable
        self._write(pairs, durable=durable)

    def _write(self, pairs: list[tuple[int, int]], *, durable: bool) -> None:
        write_epochs(self.path, pairs, durable=durable)
        self._in_file = list(pairs)
        self.unsaved = self._sync = False

    def _remember_latest(self) -> None:
        self.latest = self._pairs[-1][0] if self._pairs else UNDEFINED_EPOCH


def _epoch(pair: tuple[int, int]) -> int:
    return pair[0]


def _start(pair: tuple[int, int]) -> int:
    return pair[1]
