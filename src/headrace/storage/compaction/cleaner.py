"""Compaction of one log: maps the keys of the dirty part, copies segments without outdated records, swaps segments.

    prepare   (loop)    selects segments and the end offset; collects producer state that must survive
    clean     (thread)  builds the map, writes `.cleaned` files and syncs them; does not change the log
    install   (loop)    renames to `.swap`, replaces the old segments, schedules the deletion of their files

Offsets never change: a batch that loses records keeps its first and last offset. If it loses all of them and is the
last batch of its producer, it stays as an empty batch; otherwise the next start would lose the sequence numbers.
The first round that reads a tombstone or a transaction marker without data sets its delete horizon. A round after the
horizon removes it if every assigned replica has passed it: a replica that never got the tombstone would keep the key.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from typing import Final, cast

from headrace.kernel.dataclass import dataclass
from headrace.records import raw
from headrace.records.batch import BatchView
from headrace.records.control import ControlType, control_type
from headrace.storage.compaction.offset_map import OffsetMap
from headrace.storage.core.cleaned_transactions import CleanedTransactions
from headrace.storage.core.compaction import DirtyState, SegmentFacts, assess, group
from headrace.storage.files import CLEANED_SUFFIX
from headrace.storage.log import Log
from headrace.storage.log_config import LogConfig
from headrace.storage.segment.batch_scan import scan
from headrace.storage.segment.segment import Segment
from headrace.storage.segment.txn_index import AbortedTransaction

# Precision of the rate limit, and the longest time until a waiting thread notices that it must stop.
_RATE_PRECISION_S: Final = 0.01
_LOOKS_UP_EVERY_S: Final = 0.1


@dataclass(frozen=True)
class CompactionJob:
    """Input of a round. The event loop takes it as a snapshot, so that the thread reads no state that changes."""

    topic: str
    partition: int
    directory: Path
    config: LogConfig
    segments: tuple[Segment, ...]  # sealed ones below the active segment
    groups: list[list[SegmentFacts]]
    dirt: DirtyState
    producers_last: dict[int, tuple[int, int | None]]  # producer id → (epoch, last data offset)
    # Aborted transactions of the whole log: one that wrote into these segments may end in a later one.
    aborted: list[AbortedTransaction]
    replicated_up_to: int
    now_ms: int


@dataclass
class Cleaned:
    """Result of a round: for each group the old segments and the new one; the offset up to which the log is clean."""

    replacements: list[tuple[list[Segment], Segment]] = field(default_factory=list)
    clean_up_to: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    keys: int = 0


def facts_of(log: Log) -> list[SegmentFacts]:
    segments = log.segments.all
    bases = [segment.base_offset for segment in segments[1:]] + [log.log_end_offset]
    return [
        SegmentFacts(
            segment.base_offset,
            following,
            segment.size_bytes,
            segment.largest_timestamp_ms if segment.size_bytes else -1,
            segment.offset_index.file.size_bytes,
            segment.time_index.file.size_bytes,
        )
        for segment, following in zip(segments, bases, strict=True)
    ]


def dirt_of(log: Log, checkpoint: int | None, now_ms: int) -> DirtyState:
    config = log.config
    return assess(
        facts_of(log),
        log_start=log.log_start_offset,
        last_stable=log.last_stable_offset,
        checkpoint=checkpoint,
        min_lag_ms=config.min_compaction_lag_ms,
        max_lag_ms=config.max_compaction_lag_ms,
        now_ms=now_ms,
    )


def prepare(log: Log, dirt: DirtyState, *, replicated_up_to: int, now_ms: int) -> CompactionJob:
    config = log.config
    facts = [f for f in facts_of(log)[:-1] if f.base_offset < dirt.first_uncleanable_offset]
    groups = group(facts, segment_bytes=config.segment_bytes, index_bytes=config.segment_index_bytes)
    last = {
        entry.producer_id: (entry.epoch, entry.batches[-1].last_offset if entry.batches else None)
        for entry in log.producers.entries.values()
    }
    return CompactionJob(
        log.topic,
        log.partition,
        log.directory,
        config,
        log.segments.all[: len(facts)],
        groups,
        dirt,
        last,
        _aborted(log.segments.all),
        replicated_up_to,
        now_ms,
    )


class Cleaner:
    """Executes rounds in one cleaning thread."""

    def __init__(self, memory_bytes: int, bytes_per_second: float | None = None) -> None:
        self._memory_bytes = memory_bytes
        self._bytes_per_second = bytes_per_second
        self._began = time.monotonic()
        self._moved = 0
        self._stopped: Callable[[], bool] = lambda: False

    def clean(self, job: CompactionJob, stopped: Callable[[], bool] = lambda: False) -> Cleaned:
        """Runs in a thread. It leaves `.cleaned` files only if the process is killed; recovery removes them."""
        self._began, self._moved, self._stopped = time.monotonic(), 0, stopped
        done = Cleaned()
        offsets = self._map(job, done)
        done.clean_up_to = max(offsets.end_offset, job.dirt.first_dirty_offset)
        done.keys = len(offsets)
        if done.clean_up_to <= job.dirt.first_dirty_offset:
            return done
        by_base = {segment.base_offset: segment for segment in job.segments}
        transactions = CleanedTransactions(job.aborted)
        try:
            for members in job.groups:
                if members[0].base_offset >= done.clean_up_to:
                    break
                old = [by_base[facts.base_offset] for facts in members]
                done.replacements.append((old, self._copy(job, old, offsets, transactions, done)))
        except BaseException:  # also a round that was stopped: its files must not stay
            discard(done)
            raise
        return done

    # --- the map ---------------------------------------------------------------------------------------------------

    def _map(self, job: CompactionJob, done: Cleaned) -> OffsetMap:
        offsets = OffsetMap(self._memory_bytes)
        transactions = CleanedTransactions(job.aborted)
        for at, segment in enumerate(job.segments):
            following = job.segments[at + 1].base_offset if at + 1 < len(job.segments) else None
            if following is not None and following <= job.dirt.first_dirty_offset:
                continue
            for _, batch in scan(segment.file, segment.size_bytes):
                if offsets.is_full or batch.base_offset >= job.dirt.first_uncleanable_offset:
                    return offsets
                self._limit_rate(batch.size_bytes)
                done.bytes_read += batch.size_bytes
                self._note(batch, offsets, transactions, job.dirt.first_dirty_offset)
                offsets.end_offset = batch.last_offset + 1
        return offsets

    @staticmethod
    def _note(batch: BatchView, offsets: OffsetMap, transactions: CleanedTransactions, first_dirty: int) -> None:
        if batch.is_control:
            commit = _is_commit(batch)
            if commit is not None:
                transactions.marker_is_spent(batch.producer_id, batch.base_offset, commit=commit)
            return
        if batch.is_transactional and transactions.is_aborted(batch.producer_id, batch.last_offset):
            return
        if batch.last_offset < first_dirty:
            return
        records = raw.layout(batch)
        if batch.base_offset >= first_dirty and None not in records.keys:
            offsets.note(cast("list[bytes]", records.keys), records.offsets)
            return
        for key, offset in zip(records.keys, records.offsets, strict=True):
            if key is not None and offset >= first_dirty:
                offsets.note([key], [offset])

    # --- the copy --------------------------------------------------------------------------------------------------

    def _copy(
        self,
        job: CompactionJob,
        old: Sequence[Segment],
        offsets: OffsetMap,
        transactions: CleanedTransactions,
        done: Cleaned,
    ) -> Segment:
        fresh = Segment.create(
            job.directory, old[0].base_offset, job.config, now_ms=old[-1].created_ms, suffix=CLEANED_SUFFIX
        )
        try:
            for segment in old:
                for _, batch in scan(segment.file, segment.size_bytes):
                    done.bytes_read += batch.size_bytes
                    batch.check_crc()
                    kept = self._kept(job, batch, offsets, transactions)
                    self._limit_rate(batch.size_bytes + (0 if kept is None else len(kept)))
                    if kept is not None:
                        view = BatchView(memoryview(kept))
                        fresh.append(memoryview(kept), view.base_offset, view.last_offset, view.max_timestamp_ms)
                        done.bytes_written += len(kept)
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

    def _kept(
        self, job: CompactionJob, batch: BatchView, offsets: OffsetMap, transactions: CleanedTransactions
    ) -> bytes | memoryview | None:
        """The batch to keep: unchanged, with fewer records, or None."""
        horizon_ms = batch.delete_horizon_ms
        passed = horizon_ms is not None and horizon_ms <= job.now_ms and batch.last_offset < job.replicated_up_to
        discard = False
        if batch.is_control:
            commit = _is_commit(batch)
            spent = commit is not None and transactions.marker_is_spent(
                batch.producer_id, batch.base_offset, commit=commit
            )
            if not (spent and passed):
                if spent and horizon_ms is None:
                    records = raw.layout(batch)
                    return raw.rebuilt(batch, records, range(batch.record_count), self._horizon_ms(job))
                return batch.data
            discard = True
        elif batch.is_transactional:
            discard = transactions.is_aborted(batch.producer_id, batch.last_offset)
        if discard:
            return raw.rebuilt(batch, None, (), None) if _is_producers_last(job, batch) else None
        records = raw.layout(batch)
        kept = offsets.current(records.keys, records.offsets)
        marks_horizon = False
        if records.tombstones:
            tombstones = set(records.tombstones)
            if passed:
                kept = [number for number in kept if number not in tombstones]
            elif horizon_ms is None:
                marks_horizon = not tombstones.isdisjoint(kept)
        if not kept:
            return raw.rebuilt(batch, None, (), None) if _is_producers_last(job, batch) else None
        if len(kept) == batch.record_count and not marks_horizon:
            return batch.data
        return raw.rebuilt(batch, records, kept, self._horizon_ms(job) if marks_horizon else None)

    @staticmethod
    def _horizon_ms(job: CompactionJob) -> int:
        return job.now_ms + job.config.delete_retention_ms

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


def _aborted(segments: Sequence[Segment]) -> list[AbortedTransaction]:
    return [entry for segment in segments for entry in segment.txn_index.entries]


def _is_commit(batch: BatchView) -> bool | None:
    """Whether the marker is a commit; None for other control records and for a marker without its record."""
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


def install(log: Log, cleaned: Cleaned, now_ms: int) -> bool:
    """Replaces the old segments. Returns False if the log changed meanwhile (retention, truncation)."""
    if not log.segments.holds([old for olds, _ in cleaned.replacements for old in olds]):
        discard(cleaned)
        return False
    delete_at_ms = now_ms + log.config.file_delete_delay_ms
    for olds, new in cleaned.replacements:
        log.segments.swap(olds, new, delete_at_ms, log_end_offset=log.log_end_offset)
    if cleaned.replacements:
        log.producers.drop_snapshots(keep=log.segments.base_offsets | {log.log_end_offset})
    return True


def discard(cleaned: Cleaned) -> None:
    for _, new in cleaned.replacements:
        new.remove()
