"""Whether the indexes of a segment can be believed, and making them anew from the data where they cannot.

A file that somebody cut, scrambled or mixed up is found out by what it says: entries that do not rise, a position where
no batch begins, a newest timestamp that the data contradicts. Looking costs reads, so it is done at the first use, and
no more of it than the use needs.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from headrace.kernel.errors import CorruptBatch

if TYPE_CHECKING:
    from headrace.storage.segment.segment import Segment


class IndexTrust(IntEnum):
    """How much of a segment's indexes was held against the data."""

    NONE = 0
    NEWEST = 1  # the newest timestamp, which decides about retention and which segment a lookup by time opens
    WHOLE = 2


def check_newest(segment: Segment) -> None:
    """Rebuilds the indexes when the newest timestamp is not what the data says."""
    if segment.belief >= IndexTrust.NEWEST:
        return
    segment.belief = IndexTrust.NEWEST
    if not _newest_confirmed(segment):
        rebuild_indexes(segment)


def check_hints(segment: Segment) -> None:
    """As `check_newest`, and entries that do not rise are found out too."""
    if segment.belief is IndexTrust.WHOLE:
        return
    check_newest(segment)
    segment.belief = IndexTrust.WHOLE
    if not segment.offset_index.is_rising() or not segment.time_index.is_rising():
        rebuild_indexes(segment)


def _newest_confirmed(segment: Segment) -> bool:
    """The batch that the time index ends with has its timestamp, and none after it has a later one.

    Mostly it stands at the end of the file, and the walk is short.
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
        # Thousands of old segments may be asked for their newest record without being read.
        if not was_open:
            segment.let_go_of_file()


def rebuild_indexes(segment: Segment) -> None:
    """Offset and time index anew from the data."""
    was_active = segment.offset_index.file.is_active
    segment.reset_indexes()
    for place in segment.places(0):
        segment.index_batch(place.position, place.size_bytes, place.last_offset, place.max_timestamp_ms)
    if was_active:
        segment.offset_index.file.write_back()
        segment.time_index.file.write_back()
    else:
        segment.seal()
