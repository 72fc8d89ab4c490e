"""Reads suspect segments batch by batch, rebuilds their indexes, and ends the log at the first bad byte.

A segment is suspect if the broker stopped uncleanly and the segment is at or above the recovery point, or if its data
turned out to be bad.

The checksum does not cover the base offset. A flipped bit can move it forward, and then only the next batch looks
wrong. A gap alone proves nothing, because compaction leaves gaps. But if offsets fall back after a gap, the batch
behind the gap is wrong, and the log ends before it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import Fault
from headrace.kernel.ids import TopicPartition
from headrace.records.batch import BatchView
from headrace.storage.core.recovery import verdict
from headrace.storage.files import tolerated_no_space
from headrace.storage.leader_epochs import LeaderEpochs
from headrace.storage.producer_state import ProducerState
from headrace.storage.recovery.cuts import RecoveryCuts
from headrace.storage.segment.batch_scan import scan
from headrace.storage.segment.segment import Segment


@dataclass(frozen=True, slots=True)
class Progress:
    partition: TopicPartition
    segments_done: int
    segments_to_check: int
    logs: int = 1  # total number of logs to open


@dataclass(frozen=True, slots=True)
class Damage:
    """The first bad byte, and why it is bad. Recovery cut everything from there on. `kept` is the stray with the bytes,
    None for a torn last batch.
    """

    path: Path
    position: int
    reason: str
    size_bytes: int = 0
    kept: Path | None = None

    def __str__(self) -> str:
        where = "a torn last batch, not kept" if self.kept is None else f"kept in {self.kept}"
        return f"{self.path}: cut {self.size_bytes} bytes from byte {self.position} on ({self.reason}); {where}"


@dataclass(frozen=True, slots=True)
class _Gap:
    """A batch whose base offset is above the next offset of the batch before it."""

    segment: Segment
    position: int
    expected_offset: int


class SegmentCheck:
    """One pass over the suspect segments of a log; `segments` are all segments that remain."""

    def __init__(
        self,
        partition: TopicPartition,
        segments: list[Segment],
        leader_epochs: LeaderEpochs,
        producers: ProducerState,
        cuts: RecoveryCuts,
        *,
        on_progress: Callable[[Progress], None] | None,
        on_damage: Callable[[Damage], None] | None,
    ) -> None:
        self.segments = segments
        self._partition = partition
        self._leader_epochs = leader_epochs
        self._producers = producers
        self._cuts = cuts
        self._on_progress = on_progress
        self._on_damage = on_damage
        self._gap: _Gap | None = None

    def check_from(self, first: int) -> None:
        everything = self.segments
        base = expected = everything[first].base_offset
        self._gap = None
        self._begin_at(first, base)
        for at, segment in enumerate(everything[first:], start=first):
            if segment.base_offset < expected:
                goes_back = f"offsets go on at {segment.base_offset} after it"
                if self._cut_at_last_gap(segment.base_offset, goes_back, everything[at:]):
                    self.segments = everything[:at]
                    self.check_from(first)
                    return
                self._remove(everything[at:])
                break
            if at > first:
                self._save_producers(segment.base_offset)
            good_bytes, expected, reason, offset = self._check(segment)
            if reason is not None:
                later = everything[at + 1 :]
                if offset is not None and self._cut_at_last_gap(offset, reason, later):
                    self.segments = everything[: at + 1]
                    self.check_from(first)
                    return
                self._cut(segment, good_bytes, reason, later, is_end=not any(one.size_bytes for one in later))
            self.segments.append(segment)
            segment.seal()
            if self._on_progress is not None:
                self._on_progress(Progress(self._partition, at - first + 1, len(everything) - first))
            if reason is not None:
                break
        self._cuts.finish(expected)
        self._producers.remove_snapshots(each for each in self._producers.snapshot_offsets() if each > expected)
        self._save_producers(expected)

    def _save_producers(self, offset: int) -> None:
        """The snapshot saves the next start from reading these segments again, and knows their producers when retention
        has deleted them. If the disk is full, the next start reads them."""
        with tolerated_no_space():
            self._producers.take_snapshot(offset)

    def _begin_at(self, first: int, base: int) -> None:
        self.segments = self.segments[:first]
        # The snapshot at `base` also has producers whose records were deleted, even if no segment is before it.
        self._producers.rebuild(self.segments, base)
        self._leader_epochs.forget_from(base)
        if first:
            self._find_older_epochs()

    def _find_older_epochs(self) -> None:
        """Reads epochs of the trusted segments if the epoch file is older than they are. Otherwise the first checked
        batch would count as the start of its epoch."""
        epochs, last = self._leader_epochs, self.segments[-1].last_place()
        if last is not None and last.leader_epoch > epochs.latest:
            for segment in self.segments:
                for place in segment.places():
                    epochs.note(place.leader_epoch, place.base_offset)

    def _check(self, segment: Segment) -> tuple[int, int, str | None, int | None]:
        """(good bytes, next offset, what is wrong after them, the offset there if it fell back)."""
        epochs = self._leader_epochs
        segment.reset_indexes()
        segment.txn_index.reset()
        expected, position = segment.base_offset, 0
        try:
            for position, batch in scan(segment.file, segment.size_bytes):
                reason = verdict(batch, base_offset=segment.base_offset, expected_offset=expected)
                if reason is not None:
                    return position, expected, reason, batch.base_offset if batch.base_offset < expected else None
                if batch.base_offset > expected:
                    self._gap = _Gap(segment, position, expected)
                if batch.partition_leader_epoch > epochs.latest:
                    epochs.note(batch.partition_leader_epoch, batch.base_offset)
                index_again(segment, position, batch, self._producers)
                expected = batch.next_offset
                position += batch.size_bytes
        except Fault as torn:
            return position, expected, torn.message, None
        return position, expected, None, None

    def _cut_at_last_gap(self, offset: int, reason: str, later: list[Segment]) -> bool:
        """Cuts at the batch behind the last gap if `offset` would be valid without that batch. The caller must check
        the segments from there up to the `later` ones again.
        """
        gap = self._gap
        if gap is None or offset < gap.expected_offset:
            return False
        reason = f"a gap after offset {gap.expected_offset - 1}: {reason}"
        self._cut(gap.segment, gap.position, reason, later, is_end=False)
        return True

    def _cut(self, segment: Segment, position: int, reason: str, later: list[Segment], *, is_end: bool) -> None:
        """Keeps all bytes before it cuts any. Removes the `later` segments before it truncates this one: a crash in
        between must not leave them behind a gap, which would look like a gap from compaction.
        """
        kept = self._cuts.keep_tail(segment, position, reason, is_end=is_end)
        self._remove(later)
        self._tell(Damage(segment.path, position, reason, segment.size_bytes - position, kept))
        os.ftruncate(segment.file.fileno(), position)
        os.fsync(segment.file.fileno())
        segment.size_bytes = position

    def _remove(self, segments: list[Segment]) -> None:
        for segment in segments:
            reason = "follows a damaged batch"
            kept = self._cuts.keep_segment(segment, reason)
            self._tell(Damage(segment.path, 0, reason, segment.size_bytes, kept))
            segment.remove()

    def _tell(self, damage: Damage) -> None:
        if self._on_damage is not None:
            self._on_damage(damage)


def index_again(segment: Segment, position: int, batch: BatchView, producers: ProducerState) -> None:
    """Adds the index entries of a batch that is already in the file."""
    segment.index_batch(position, batch.size_bytes, batch.last_offset, batch.max_timestamp_ms)
    if batch.producer_id >= 0:
        completed = producers.replay(batch)
        if completed is not None and completed.aborted:
            segment.txn_index.append(producers.aborted(completed))


def repair_hints(segment: Segment, before: list[Segment]) -> None:
    """Rebuilds the index files of a segment whose data is trusted. Raises CorruptBatch if the data is bad after all."""
    producers = ProducerState(segment.path.parent)
    first_offset = before[0].base_offset if before else segment.base_offset
    offset = producers.load_latest(first_offset, segment.base_offset, discard_later=False)
    for earlier in before:
        producers.replay_segment(earlier, offset)
    segment.reset_indexes()
    segment.txn_index.reset()
    for place in segment.places():
        index_again(segment, place.position, segment.batch_at(place), producers)
    segment.seal()
    segment.close()
