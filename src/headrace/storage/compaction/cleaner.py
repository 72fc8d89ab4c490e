"""Compaction of one log in a thread: maps the keys of the dirty part, and copies segments without outdated records.

Offsets never change: a batch that loses records keeps its first and last offset. If it loses all of them and is the
last batch of its producer, it stays as an empty batch; otherwise the next start would lose the sequence numbers.
The first round that has a tombstone in its map, or reads a transaction marker without data, sets its delete horizon. A
round after the horizon removes it if every assigned replica has passed it: a replica that never got the tombstone would
keep the key.

A round copies all batches from the end of its map on unchanged, also in the middle of a segment. A tombstone that is
not in the map has not removed the older values of its key, so without it they would come back.

The batches of a read are decoded together with numpy. No Python object is made for a record. Batches that keep all
their records are copied as bytes.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from headrace.kernel.errors import CorruptBatch
from headrace.records import raw
from headrace.records.batch import HEADER_BYTES, BatchView, TimestampType
from headrace.records.control import ControlType, control_type
from headrace.storage.compaction.job import Cleaned, CompactionJob, discard
from headrace.storage.compaction.key_hashes import KeyHasher
from headrace.storage.compaction.offset_map import OffsetMap
from headrace.storage.compaction.record_group import RecordGroup
from headrace.storage.core.cleaned_transactions import CleanedTransactions
from headrace.storage.files import CLEANED_SUFFIX
from headrace.storage.producer_state import SnapshotsInTransactions
from headrace.storage.segment.batch_scan import scan_chunks
from headrace.storage.segment.segment import AppendedBatch, Segment

# Precision of the rate limit, and the longest time until a waiting thread notices that it must stop.
_RATE_PRECISION_S: Final = 0.01
_LOOKS_UP_EVERY_S: Final = 0.1

# A batch as it goes to the new segment: unchanged, with fewer records, or None if it is dropped.
Kept = bytes | memoryview | None


class Cleaner:
    """Executes rounds in one cleaning thread."""

    def __init__(self, memory_bytes: int, bytes_per_second: float | None = None) -> None:
        self._memory_bytes = memory_bytes
        self._bytes_per_second = bytes_per_second
        self._began = time.monotonic()
        self._moved = 0
        self._mapped = self._met = 0  # records of the dirty part that have a key: in the map, and in the copy
        self._stopped: Callable[[], bool] = lambda: False
        self._hasher = KeyHasher()

    def clean(self, job: CompactionJob, stopped: Callable[[], bool] = lambda: False) -> Cleaned:
        """Runs in a thread. It leaves `.cleaned` files only if the process is killed; recovery removes them."""
        self._began, self._moved, self._stopped = time.monotonic(), 0, stopped
        self._mapped = self._met = 0
        done = Cleaned()
        offsets = self._map(job, done)
        done.clean_up_to = max(offsets.end_offset, job.dirt.first_dirty_offset)
        done.keys = len(offsets)
        if done.clean_up_to <= job.dirt.first_dirty_offset:
            return done
        by_base = {segment.base_offset: segment for segment in job.segments}
        transactions = CleanedTransactions(job.aborted)
        snapshots = SnapshotsInTransactions(job.directory, done.clean_up_to)
        try:
            for members in job.groups:
                if members[0].base_offset >= done.clean_up_to:
                    break
                old = [by_base[facts.base_offset] for facts in members]
                done.replacements.append((old, self._copy(job, old, offsets, transactions, snapshots, done)))
            # The copy drops a dirty record whose offset is not in the map, so the map must have seen each of them.
            if self._met != self._mapped:
                raise CorruptBatch(
                    f"the first pass found {self._mapped} records with a key in the dirty part, the copy {self._met}"
                )
            done.outdated_snapshots = snapshots.replacements()
        except BaseException:  # also a round that was stopped: its files must not stay
            discard(done)
            raise
        return done

    # The map

    def _map(self, job: CompactionJob, done: Cleaned) -> OffsetMap:
        offsets = OffsetMap(self._memory_bytes)
        transactions = CleanedTransactions(job.aborted)
        end = job.dirt.first_uncleanable_offset
        for batches in self._dirty_batches(job):
            read, cleanable = 0, bisect_left(batches, end, key=lambda batch: batch.last_offset)
            while read < cleanable:
                room = offsets.room()
                if not room:
                    return offsets
                # The map must not become full inside a group: the round ends at a batch.
                group: list[BatchView] = []
                while read < cleanable and room > 0:
                    batch = batches[read]
                    read += 1
                    self._limit_rate(batch.size_bytes)
                    done.bytes_read += batch.size_bytes
                    if _has_keys(batch, transactions) and batch.last_offset >= job.dirt.first_dirty_offset:
                        group.append(batch)
                        room -= batch.record_count
                self._note(group, offsets, job.dirt.first_dirty_offset)
                offsets.end_offset = batches[read - 1].last_offset + 1
            if cleanable < len(batches):
                end = min(end, batches[cleanable].base_offset)
                break
        # Not only up to the last batch: the offsets after it may be missing, because compaction has removed their
        # records, also on the leader of a new replica. Every later round would find them dirty.
        offsets.end_offset = end
        return offsets

    @staticmethod
    def _dirty_batches(job: CompactionJob) -> Iterator[list[BatchView]]:
        """The batches of the segments with dirty records, in pieces."""
        for at, segment in enumerate(job.segments):
            following = job.segments[at + 1].base_offset if at + 1 < len(job.segments) else None
            if following is not None and following <= job.dirt.first_dirty_offset:
                continue
            for _, batches in scan_chunks(segment.file, segment.size_bytes):
                yield batches

    def _note(self, batches: Sequence[BatchView], offsets: OffsetMap, first_dirty: int) -> None:
        if not batches:
            return
        group = RecordGroup(batches)
        rows = np.flatnonzero((group.key_lengths >= 0) & (group.offsets >= first_dirty))
        keys = self._hasher.hashes(group.data, group.key_at[rows], group.key_lengths[rows])
        offsets.note(keys, group.offsets[rows])
        self._mapped += len(rows)

    # The copy

    def _copy(
        self,
        job: CompactionJob,
        old: Sequence[Segment],
        offsets: OffsetMap,
        transactions: CleanedTransactions,
        snapshots: SnapshotsInTransactions,
        done: Cleaned,
    ) -> Segment:
        fresh = Segment.create(
            job.directory, old[0].base_offset, job.config, now_ms=old[-1].created_ms, suffix=CLEANED_SUFFIX
        )
        try:
            for segment in old:
                for _, batches in scan_chunks(segment.file, segment.size_bytes):
                    kept = self._kept(job, batches, offsets, transactions)
                    for batch, rest in zip(batches, kept, strict=True) if snapshots.have_open else ():
                        if batch.is_control:
                            is_removed = rest is None or len(rest) == HEADER_BYTES
                            snapshots.passed(batch.producer_id, batch.base_offset, is_removed=is_removed)
                    self._write(fresh, batches, kept, done)
            for entry in transactions.kept_aborted:
                fresh.txn_index.append(entry)
            transactions.kept_aborted.clear()
            fresh.seal()
            fresh.sync()
            # If records have no timestamp, retention by time uses the file's modification time.
            stamp = old[-1].path.stat().st_mtime_ns
            os.utime(fresh.path, ns=(stamp, stamp))
        except BaseException:  # also a round that was stopped: its file must not stay
            fresh.remove()
            raise
        return fresh

    def _write(self, fresh: Segment, batches: Sequence[BatchView], kept: Sequence[Kept], done: Cleaned) -> None:
        """Writes what stays of the batches of one read, with one write."""
        stay: list[bytes | memoryview] = []
        places: list[AppendedBatch] = []
        for batch, rest in zip(batches, kept, strict=True):
            size = 0
            if rest is not None:
                size = len(rest)
                stay.append(rest)
                places.append(AppendedBatch(size, batch.base_offset, batch.last_offset, raw.max_timestamp_of(rest)))
            self._limit_rate(batch.size_bytes + size)
            done.bytes_read += batch.size_bytes
            done.bytes_written += size
        if stay:
            fresh.append_many(memoryview(b"".join(stay)), places)

    def _kept(
        self,
        job: CompactionJob,
        batches: Sequence[BatchView],
        offsets: OffsetMap,
        transactions: CleanedTransactions,
    ) -> list[Kept]:
        """What stays of each batch."""
        kept: list[Kept] = [None] * len(batches)
        by_records: list[int] = []
        for number, batch in enumerate(batches):
            batch.check_crc()
            if batch.is_control:
                kept[number] = _kept_marker(job, batch, transactions)
            elif not _has_keys(batch, transactions):
                kept[number] = _emptied(job, batch)
            elif batch.base_offset < offsets.end_offset:
                by_records.append(number)
            if batch.base_offset >= offsets.end_offset:
                # `transactions` had to learn of the batch, but this round does not change it.
                kept[number] = batch.data
        if by_records:
            group = RecordGroup([batches[number] for number in by_records])
            for number, rest in zip(by_records, self._kept_records(job, group, offsets), strict=True):
                kept[number] = rest
        return kept

    def _kept_records(self, job: CompactionJob, group: RecordGroup, offsets: OffsetMap) -> Iterator[Kept]:
        batches, firsts = group.batches, group.edges[:-1]
        keep = self._are_current(group, offsets, job.dirt.first_dirty_offset)
        passed = group.spread([_horizon_passed(job, batch) for batch in batches])
        keep &= ~(group.are_tombstones & passed)
        # A tombstone that stays, in a batch without a horizon, starts the time after which a round may remove it.
        unmarked = group.spread([batch.delete_horizon_ms is None for batch in batches])
        marks_horizon = np.logical_or.reduceat(group.are_tombstones & keep & unmarked, firsts).tolist()
        counts = np.add.reduceat(keep, firsts, dtype=np.int64).tolist()
        latest = np.maximum.reduceat(np.where(keep, group.timestamp_deltas, np.iinfo(np.int64).min), firsts).tolist()
        sections = _kept_sections(group, keep)
        for number, batch in enumerate(batches):
            if not counts[number]:
                yield _emptied(job, batch)
            elif marks_horizon[number]:
                first, end = group.edges[number : number + 2]
                yield raw.rebuilt(batch, raw.layout(batch), np.flatnonzero(keep[first:end]).tolist(), _horizon_ms(job))
            elif counts[number] == batch.record_count:
                yield batch.data
            else:
                max_timestamp_ms = batch.max_timestamp_ms
                if batch.timestamp_type is TimestampType.CREATE_TIME:
                    max_timestamp_ms = batch.base_timestamp_ms + latest[number]
                yield raw.repacked(batch, sections(number), counts[number], max_timestamp_ms)

    def _are_current(
        self, group: RecordGroup, offsets: OffsetMap, first_dirty: int
    ) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which records have no newer record with the same key.

        Records without a key are dropped: no later record could replace them. The newest record of a key in the dirty
        part is known by its offset. Only the keys of the records before that part are looked up.
        """
        has_key, is_dirty = group.key_lengths >= 0, group.offsets >= first_dirty
        self._met += int(np.count_nonzero(has_key & is_dirty))
        current = offsets.are_newest(group.offsets)
        rows = np.flatnonzero(has_key & ~is_dirty)
        if len(rows):
            keys = self._hasher.hashes(group.data, group.key_at[rows], group.key_lengths[rows])
            current[rows] = ~offsets.are_known(keys)
        return current

    def _limit_rate(self, moved: int) -> None:
        """Called for every batch: enforces the rate limit, and ends the round if the broker stops it."""
        if self._stopped():
            raise InterruptedError("compaction was stopped")
        if self._bytes_per_second is None:
            return
        self._moved += moved
        while (ahead := self._moved / self._bytes_per_second - (time.monotonic() - self._began)) > _RATE_PRECISION_S:
            if self._stopped():
                raise InterruptedError("compaction was stopped")
            time.sleep(min(ahead, _LOOKS_UP_EVERY_S))


def _has_keys(batch: BatchView, transactions: CleanedTransactions) -> bool:
    """Whether the batch holds records that count: not a marker, not aborted, not empty. Asked in offset order."""
    if batch.is_control:
        commit = _is_commit(batch)
        if commit is not None:
            transactions.marker_is_spent(batch.producer_id, batch.base_offset, commit=commit)
        return False
    if batch.is_transactional and transactions.is_aborted(batch.producer_id, batch.last_offset):
        return False
    return batch.record_count > 0


def _kept_marker(job: CompactionJob, batch: BatchView, transactions: CleanedTransactions) -> Kept:
    if batch.record_count == 0:  # an earlier round emptied it
        return _emptied(job, batch)
    commit = _is_commit(batch)
    if commit is None or not transactions.marker_is_spent(batch.producer_id, batch.base_offset, commit=commit):
        return batch.data
    if _horizon_passed(job, batch):
        return _emptied(job, batch)
    if batch.delete_horizon_ms is None:
        return raw.rebuilt(batch, raw.layout(batch), range(batch.record_count), _horizon_ms(job))
    return batch.data


def _kept_sections(group: RecordGroup, keep: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Callable[[int], bytes]:
    """The bytes of the kept records of a batch. Neighbours are copied in one piece."""
    firsts, lasts = np.zeros(len(keep), bool), np.zeros(len(keep), bool)
    firsts[group.edges[:-1]] = True
    lasts[group.edges[1:] - 1] = True
    before, after = np.roll(keep, 1), np.roll(keep, -1)
    begins = np.flatnonzero(keep & (firsts | ~before))
    ends = np.flatnonzero(keep & (lasts | ~after))
    pieces_of = np.searchsorted(begins, group.edges).tolist()
    begin_at, end_at = group.begins[begins].tolist(), group.ends[ends].tolist()
    buffer = memoryview(group.buffer)

    def section(number: int) -> bytes:
        pieces = range(pieces_of[number], pieces_of[number + 1])
        return b"".join([buffer[begin_at[piece] : end_at[piece]] for piece in pieces])

    return section


def _emptied(job: CompactionJob, batch: BatchView) -> bytes | None:
    """A batch that loses all records: empty if it carries the state of its producer, otherwise dropped."""
    return raw.rebuilt(batch, None, (), None) if _is_producers_last(job, batch) else None


def _horizon_passed(job: CompactionJob, batch: BatchView) -> bool:
    horizon_ms = batch.delete_horizon_ms
    return horizon_ms is not None and horizon_ms <= job.now_ms and batch.last_offset < job.replicated_up_to


def _horizon_ms(job: CompactionJob) -> int:
    return job.now_ms + job.config.delete_retention_ms


def _is_commit(batch: BatchView) -> bool | None:
    """Whether the marker is a commit; None for other control records and for an emptied marker."""
    kind = control_type(batch)
    return kind is ControlType.COMMIT if kind in (ControlType.COMMIT, ControlType.ABORT) else None


def _is_producers_last(job: CompactionJob, batch: BatchView) -> bool:
    if batch.producer_id < 0 or batch.producer_id not in job.producers_last:
        return False
    epoch, last_data_offset = job.producers_last[batch.producer_id]
    if last_data_offset is not None:
        return last_data_offset == batch.last_offset
    # The producer state knows only a marker of this producer; the marker's epoch must survive.
    return batch.is_control and batch.producer_epoch == epoch
