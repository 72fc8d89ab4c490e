"""The change from one segment to the next.

A full disk may refuse any step of it, so each that can be refused comes before the first that cannot be taken back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.storage.segment.segment import Segment

if TYPE_CHECKING:
    from headrace.storage.log import Log


def roll(log: Log, base_offset: int, now_ms: int | None) -> Segment:
    """The segment that is active afterwards: a new one, or the old one when it is as good as new."""
    old = log.active_segment
    if old.size_bytes == 0 and old.base_offset == base_offset:
        return old
    created_ms = now_ms if now_ms is not None else max(old.created_ms, old.max_timestamp_ms)
    log.producers.take_snapshot(base_offset)
    fresh = Segment.create(log.directory, base_offset, log.config, now_ms=created_ms)
    try:
        old.seal()
    except OSError:
        fresh.remove()
        raise
    kept = log.segments
    if old.size_bytes == 0:
        # Nothing was ever written to it, and it must not stand in the way of its successor.
        old.remove()
        kept = kept[:-1]
    log.set_segments((*kept, fresh))
    log.names_changed = True
    return fresh
