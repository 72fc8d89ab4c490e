"""When the active segment ends and a new one begins. Pure.

A segment ends when the next batch would not fit into its bytes, its time, its indexes, or the 32 bits that an index has
for an offset. Time is the records' own where they have any: the distance between the first batch and the one that
comes, so that a replayed history rolls as it did when it was fresh. Mirrors Kafka's LogSegment.shouldRoll.
"""

from __future__ import annotations

from typing import Final, Protocol

MAX_RELATIVE_OFFSET: Final = 0x7FFFFFFF


class ActiveSegment(Protocol):
    """What is asked of a segment; the segment itself, because the question comes with every append."""

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
