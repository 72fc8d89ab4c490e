"""Offsets by time: the first record at or after a timestamp, and the newest one.

Indexes narrow the search to one batch; only that batch is decoded. The result is the same as from reading every record.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from headrace.records.batch import HEADER_BYTES, BatchView
from headrace.records.reader import iter_records
from headrace.storage.recovery.index_check import check_hints, check_newest
from headrace.storage.segment.batch_scan import BatchPlace
from headrace.storage.segment.segment import Segment

_LARGE_BYTES: Final = 1 << 16
# How many batches one walk over a segment chooses: about a megabyte. Compaction leaves at most one empty batch per
# producer, so one walk is nearly always enough.
_CHOSEN_AT_ONCE: Final = 4096


class TimestampOffset(NamedTuple):
    offset: int
    timestamp_ms: int
    leader_epoch: int


def first_at_or_after(segments: Sequence[Segment], timestamp_ms: int, log_start_offset: int) -> TimestampOffset | None:
    for at, segment in enumerate(segments):
        if at + 1 < len(segments) and segments[at + 1].base_offset <= log_start_offset:
            continue
        check_newest(segment)
        if segment.max_timestamp_ms < timestamp_ms:
            continue
        found = _first_in(segment, timestamp_ms, log_start_offset)
        if found is not None:
            return found
    return None


def _first_in(segment: Segment, timestamp_ms: int, log_start_offset: int) -> TimestampOffset | None:
    check_hints(segment)
    start = max(segment.time_index.offset_at_or_below(timestamp_ms), log_start_offset)
    position = segment.position_of(start)
    if position is None:
        return None
    for place in segment.places(position):
        if place.max_timestamp_ms < timestamp_ms:
            continue
        only = _only_record(segment, place)
        if only is not None and only.offset >= log_start_offset:
            return only
        batch = segment.batch_at(place)
        for record in iter_records(batch):
            if record.timestamp_ms >= timestamp_ms and record.offset >= log_start_offset:
                return TimestampOffset(record.offset, record.timestamp_ms, batch.partition_leader_epoch)
    return None


def newest(segments: Sequence[Segment], log_start_offset: int) -> TimestampOffset | None:
    """The record with the highest timestamp. Tries segments from the highest timestamp down, because the records of a
    segment may all be deleted.
    """
    alive = [
        segment
        for at, segment in enumerate(segments)
        if segment.size_bytes > 0 and not (at + 1 < len(segments) and segments[at + 1].base_offset <= log_start_offset)
    ]
    for segment in alive:
        check_newest(segment)
    best: TimestampOffset | None = None
    for segment in sorted(alive, key=lambda one: (-one.max_timestamp_ms, one.base_offset)):
        if best is not None and segment.max_timestamp_ms < best.timestamp_ms:
            break
        best = _newer(best, _newest_in(segment, log_start_offset))
    return best


def _newer(one: TimestampOffset | None, other: TimestampOffset | None) -> TimestampOffset | None:
    """The one with the higher timestamp, or with the lower offset if both have the same."""
    if one is None or other is None:
        return one or other
    return min(one, other, key=lambda found: (-found.timestamp_ms, found.offset))


def _newest_in(segment: Segment, log_start_offset: int) -> TimestampOffset | None:
    check_hints(segment)
    if segment.offset_of_max_timestamp >= log_start_offset:
        position = segment.position_of(segment.offset_of_max_timestamp)
        place = None if position is None else next(segment.places(position), None)
        if place is not None and place.base_offset >= log_start_offset:
            newest_record = _only_record(segment, place) or _newest_of(segment.batch_at(place), log_start_offset)
            if newest_record is not None:
                return newest_record
    # The indexed batch is wholly or partly below the log start, or compaction emptied it: tries the batches from the
    # highest timestamp down.
    position = segment.position_of(log_start_offset)
    best: TimestampOffset | None = None
    for place in _newest_first(segment, position) if position is not None else ():
        if best is not None and place.max_timestamp_ms < best.timestamp_ms:
            break
        best = _newer(best, _newest_of(segment.batch_at(place), log_start_offset))
    return best


def _newest_first(segment: Segment, position: int) -> Iterator[BatchPlace]:
    """The batches from `position` on, from the highest timestamp down. A large segment has millions of batches, so a
    list of all of them would take gigabytes."""
    chosen = heapq.nsmallest(_CHOSEN_AT_ONCE, segment.places(position), key=_rank)
    yield from chosen
    while len(chosen) == _CHOSEN_AT_ONCE:
        chosen = heapq.nsmallest(_CHOSEN_AT_ONCE, _after(chosen[-1], segment.places(position)), key=_rank)
        yield from chosen


def _after(last: BatchPlace, places: Iterator[BatchPlace]) -> Iterator[BatchPlace]:
    """Those that `_newest_first` has not chosen yet."""
    rank = _rank(last)
    return (place for place in places if _rank(place) > rank)


def _rank(place: BatchPlace) -> tuple[int, int]:
    return -place.max_timestamp_ms, place.base_offset


def _only_record(segment: Segment, place: BatchPlace) -> TimestampOffset | None:
    """The record of a large batch that has one record, by its header: to read 50 MB for a timestamp would stop the
    event loop, and a client may ask for many timestamps."""
    if place.size_bytes < _LARGE_BYTES or place.base_offset != place.last_offset:
        return None
    header = os.pread(segment.file.fileno(), HEADER_BYTES, place.position)
    # Compaction may have removed the record and kept the batch.
    if len(header) < HEADER_BYTES or BatchView(memoryview(header)).record_count != 1:
        return None
    return TimestampOffset(place.base_offset, place.max_timestamp_ms, place.leader_epoch)


def _newest_of(batch: BatchView, log_start_offset: int) -> TimestampOffset | None:
    best: TimestampOffset | None = None
    for record in iter_records(batch):
        if record.offset >= log_start_offset and (best is None or record.timestamp_ms > best.timestamp_ms):
            best = TimestampOffset(record.offset, record.timestamp_ms, batch.partition_leader_epoch)
    return best
