"""Bringing a log to the disk, from a thread while the loop goes on appending, rolling, replacing and deleting.

The tuple of segments is taken as it is at the beginning. What the loop does to a segment meanwhile is told apart from a
fault of the disk by whether the log still has it. An fsync that failed is never tried again: the kernel may have
dropped the pages and would say yes the next time.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from headrace.storage.dirs.checkpoints import sync_topic_id
from headrace.storage.files import sync_directory

if TYPE_CHECKING:
    from headrace.storage.log import Log


def flush(log: Log) -> None:
    """Syncs what was appended since the recovery point, and moves it."""
    end, segments, cuts = log.log_end_offset, log.segments, log.cuts
    if end <= log.recovery_point:
        return
    first = bisect_right(segments, log.recovery_point, key=lambda segment: segment.base_offset) - 1
    for segment in segments[max(0, first) :]:
        try:
            segment.sync()
        except FileNotFoundError:
            # Retention may have taken the segment away while we were at it; then nobody needs it synced.
            if segment in log.segments:
                raise
    if log.names_changed:
        log.names_changed = False
        sync_topic_id(log.directory)
        sync_directory(log.directory)
        sync_directory(log.directory.parent)
    # A log that was cut meanwhile may hold other records at these offsets.
    if cuts == log.cuts:
        log.recovery_point = max(log.recovery_point, end)
