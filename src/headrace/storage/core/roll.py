"""When the log rolls to a new segment. Pure.

The log rolls when the next batch would exceed the segment's size, its time, its indexes, or the 32 bits that an index
has for an offset. If records have timestamps, the time is the distance between the first batch and the next one, so
that old records that are written again roll as they did at first. Mirrors Kafka's LogSegment.shouldRoll.
"""

from __future__ import annotations

from typing import Final, Protocol

MAX_RELATIVE_OFFSET: Final = 0x7FFFFFFF


class ActiveSegment(Protocol):
    """The attributes of a segment that decide. A protocol of the segment itself, because every append checks them."""

    @property
    def base_offset(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def created_ms(self) -> int: ...
    @property
    def first_timestamp_ms(self) -> int | None: ...
    @property
    def roll_jitter_ms(self) -> int: ...
    @property
    def indexes_full(self) -> bool: ...


def should_roll(
    segment: ActiveSegment,
    *,
    incoming_bytes: int,
    incoming_last_offset: int,
    incoming_timestamp_ms: int,
    now_ms: int,
    segment_bytes: int,
    segment_ms: int,
) -> bool:
    if incoming_last_offset - segment.base_offset > MAX_RELATIVE_OFFSET or segment.indexes_full:
        return True
    if segment.size_bytes == 0:
        return False
    if segment.size_bytes > segment_bytes - incoming_bytes:
        return True
    first_ms = segment.first_timestamp_ms
    if first_ms is not None and first_ms >= 0 and incoming_timestamp_ms >= 0:
        waited_ms = incoming_timestamp_ms - first_ms
    else:
        waited_ms = now_ms - segment.created_ms
    return waited_ms > segment_ms - segment.roll_jitter_ms
