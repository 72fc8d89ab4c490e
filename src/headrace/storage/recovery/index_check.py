"""Checks the indexes of a segment against the data and rebuilds them if they are wrong.

A truncated, corrupt or exchanged index file has entries that do not rise, a position where no batch begins, or a newest
timestamp that the data contradicts. The check costs reads, so it runs at the first use of an index and checks only what
that use needs.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from headrace.kernel.errors import CorruptBatch

if TYPE_CHECKING:
    from headrace.storage.segment.segment import Segment


class IndexTrust(IntEnum):
    """How much of a segment's indexes was checked against the data."""

    NONE = 0
    NEWEST = 1  # the newest timestamp, on which retention and lookups by time depend
    WHOLE = 2


def check_newest(segment: Segment) -> None:
    """Rebuilds the indexes if their newest timestamp differs from the data."""
    if segment.belief >= IndexTrust.NEWEST:
        return
    segment.belief = IndexTrust.NEWEST
    if not _newest_timestamp_is_right(segment):
        rebuild_indexes(segment)


def check_hints(segment: Segment) -> None:
    """Like `check_newest`; also rebuilds the indexes if their entries do not rise."""
    if segment.belief is IndexTrust.WHOLE:
        return
    check_newest(segment)
    segment.belief = IndexTrust.WHOLE
    if not segment.offset_index.is_rising() or not segment.time_index.is_rising():
        rebuild_indexes(segment)


def _newest_timestamp_is_right(segment: Segment) -> bool:
    """Whether the batch of the last time index entry has its timestamp and no later batch has a higher one.

    That batch is mostly near the end of the file, so the walk is short.
    """
    newest_ms, offset = segment.max_timestamp_ms, segment.offset_of_max_timestamp
    was_open = segment.holds_file
    try:
        position = segment.walk_to(segment.offset_index.position_at_or_below(offset), offset)
        if position is None:
            return segment.size_bytes == 0
        places = segment.places(position)
        return next(places).max_timestamp_ms == newest_ms and all(p.max_timestamp_ms <= newest_ms for p in places)
    except CorruptBatch:
        return False
    finally:
        # Thousands of old segments may be checked that no consumer reads, so their files must not stay open.
        if not was_open:
            segment.release_file()


def rebuild_indexes(segment: Segment) -> None:
    """Rebuilds the offset index and the time index from the data."""
    was_active = segment.offset_index.file.is_active
    segment.reset_indexes()
    for place in segment.places(0):
        segment.index_batch(place.position, place.size_bytes, place.last_offset, place.max_timestamp_ms)
    if was_active:
        segment.offset_index.file.write_back()
        segment.time_index.file.write_back()
    else:
        segment.seal()
