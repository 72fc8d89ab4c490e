"""One round of compaction as the event loop sees it: what to clean, and how the result replaces the old segments.

prepare   (loop)    selects segments and the end offset; collects producer state that must survive
clean     (thread)  `Cleaner.clean` writes `.cleaned` files and syncs them; it does not change the log
install   (loop)    renames to `.swap`, replaces the old segments, schedules the deletion of their files
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from pathlib import Path

from headrace.kernel.dataclass import dataclass
from headrace.storage.core.compaction import DirtyState, SegmentFacts, assess, group
from headrace.storage.files import tolerated_no_space
from headrace.storage.log import Log
from headrace.storage.log_config import LogConfig
from headrace.storage.segment.segment import Segment
from headrace.storage.segment.txn_index import AbortedTransaction


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
    cuts: int  # how often the log was truncated before the round


@dataclass
class Cleaned:
    """Result of a round: for each group the old segments and the new one; the offset up to which the log is clean."""

    replacements: list[tuple[list[Segment], Segment]] = field(default_factory=list)
    # Producer snapshots inside a transaction whose marker this round has removed, and what replaces them.
    outdated_snapshots: dict[int, bytes] = field(default_factory=dict)
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
        log.segments.cuts,
    )


def install(log: Log, job: CompactionJob, cleaned: Cleaned, now_ms: int) -> bool:
    """Replaces the old segments. Returns False if the log changed meanwhile (retention, truncation)."""
    replaced = [old for olds, _ in cleaned.replacements for old in olds]
    # A truncated segment is still a segment of the log, but the new one has the batches that it has lost.
    if log.segments.cuts != job.cuts or not log.segments.holds(replaced):
        discard(cleaned)
        return False
    delete_at_ms = now_ms + log.config.file_delete_delay_ms
    log.producers.remove_snapshots(cleaned.outdated_snapshots)
    for olds, new in cleaned.replacements:
        log.segments.swap(olds, new, delete_at_ms, log_end_offset=log.log_end_offset)
    if cleaned.replacements:
        bases = log.segments.base_offsets
        with tolerated_no_space():  # without them a start reads more batches
            log.producers.write_snapshots({at: new for at, new in cleaned.outdated_snapshots.items() if at in bases})
        log.producers.drop_snapshots(keep=bases | {log.log_end_offset})
    return True


def discard(cleaned: Cleaned) -> None:
    for _, new in cleaned.replacements:
        new.remove()


def _aborted(segments: Sequence[Segment]) -> list[AbortedTransaction]:
    return [entry for segment in segments for entry in segment.txn_index.entries]
