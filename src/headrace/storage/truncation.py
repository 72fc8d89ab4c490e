"""Making a log shorter: at its end (a follower that disagrees with its leader), wholly, or at its start (retention).

Every cut leaves the same state that a fresh start on the shortened files would find: epochs and producers follow the
data, marks never point outside.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from headrace.storage.core.retention import SegmentFacts, Verdict, expired
from headrace.storage.files import DELETED_SUFFIX, sync_directory
from headrace.storage.recovery.index_check import check_newest
from headrace.storage.segment.segment import Segment

if TYPE_CHECKING:
    from headrace.storage.log import Log


def cut_end(log: Log, offset: int, now_ms: int) -> None:
    if offset >= log.log_end_offset:
        return
    if offset <= log.segments[0].base_offset:
        cut_all(log, offset, now_ms)
        return
    log.cuts += 1
    kept = [segment for segment in log.segments if segment.base_offset <= offset]
    gone = log.segments[len(kept) :]
    active = kept[-1]
    if gone:
        # The files go at once: a later start must never find them behind a shorter segment.
        for segment in gone:
            segment.remove()
        active.activate(log.config)
    end = offset
    position = active.position_of(offset)
    if position is not None:
        # A batch is kept whole or not at all.
        end = min(offset, next(active.places(position)).base_offset)
        active.truncate_to(offset, now_ms=now_ms)
    log.set_segments(tuple(kept))
    _settle(log, log_start=min(log.log_start_offset, end), end=end)


def cut_all(log: Log, offset: int, now_ms: int) -> None:
    log.cuts += 1
    for segment in log.segments:
        segment.remove()
    log.set_segments((Segment.create(log.directory, offset, log.config, now_ms=now_ms),))
    log.leader_epochs.clear()
    log.producers.clear()
    log.producers.drop_all_snapshots()
    log.set_marks(log_start=offset, end=offset, high_watermark=offset, recovery_point=offset)
    sync_directory(log.directory)


def _settle(log: Log, *, log_start: int, end: int) -> None:
    log.leader_epochs.truncate_from_end(end)
    rebuild_producers(log, log_start, end)
    log.set_marks(log_start=log_start, end=end, high_watermark=log.high_watermark, recovery_point=log.recovery_point)
    os.fsync(log.active_segment.file.fileno())
    sync_directory(log.directory)


def rebuild_producers(log: Log, log_start: int, end: int) -> None:
    """From the newest snapshot at or below `end`, and the batches since."""
    offset = log.producers.load_latest(log_start, end)
    for at, segment in enumerate(log.segments):
        if at + 1 < len(log.segments) and log.segments[at + 1].base_offset <= offset:
            continue
        position = segment.position_of(offset)
        if position is not None:
            for batch in segment.batches(position):
                if batch.producer_id >= 0 and batch.base_offset >= offset:
                    log.producers.replay(batch)


def cut_start(log: Log, now_ms: int) -> Verdict:
    """One round of retention."""
    verdict = _expired(log, now_ms)
    for segment in log.segments[: verdict.count]:
        # A timestamp out of a file that only hints must not cost data that is not old.
        check_newest(segment)
    verdict = _expired(log, now_ms) if verdict.count else verdict
    if verdict.count == 0:
        return verdict
    config, segments = log.config, log.segments
    if verdict.count == len(segments):
        log.roll(now_ms=now_ms)
        segments = log.segments
    gone, kept = segments[: verdict.count], segments[verdict.count :]
    log.set_segments(kept)
    for segment in gone:
        segment.close()
        segment.change_suffix("", DELETED_SUFFIX)
        log.trash.put(segment.files, now_ms + config.file_delete_delay_ms)
    if kept[0].base_offset > log.log_start_offset:
        log.advance_log_start(kept[0].base_offset)
    log.producers.drop_snapshots(keep={segment.base_offset for segment in kept})
    return verdict


def _expired(log: Log, now_ms: int) -> Verdict:
    config, segments = log.config, log.segments
    return expired(
        [SegmentFacts(s.base_offset, s.size_bytes, s.largest_timestamp_ms) for s in segments],
        now_ms=now_ms,
        log_end_offset=log.log_end_offset,
        high_watermark=log.high_watermark,
        log_start_offset=log.log_start_offset,
        retention_ms=config.retention_ms,
        retention_bytes=config.retention_bytes,
        disk_limit_bytes=_share_of_disk(log),
        deletes_old=config.deletes_old,
    )


def _share_of_disk(log: Log) -> int:
    if log.config.retention_disk_percent <= 0:
        return -1
    disk = os.statvfs(log.directory)
    return int(disk.f_blocks * disk.f_frsize * log.config.retention_disk_percent / 100)
