"""Which part of a log compaction may clean, which log is next, and how segments are grouped. Pure.

    log start ─── first dirty ─── first uncleanable ─── active segment ─── log end
    |   clean    |     dirty      |       left alone                            |

The clean part has each key once, as of the last round. A round reads the dirty part into a map (key → newest offset)
and copies the clean and the dirty part without the records that the map shows to be outdated. It does not touch the
active segment, open transactions, and segments younger than `min.compaction.lag.ms`.
Mirrors Kafka's LogCleanerManager.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headrace.kernel.dataclass import dataclass

# An index stores offsets relative to the segment's base offset in 32 bits.
MAX_OFFSET_SPAN: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    base_offset: int
    next_base_offset: int
    size_bytes: int
    largest_timestamp_ms: int
    index_bytes: int = 0
    time_index_bytes: int = 0


@dataclass(frozen=True, slots=True)
class DirtyState:
    """The state of one log before a round."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    dirty_bytes: int
    overdue: bool

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_due(self, min_ratio: float) -> bool:
        anything = self.first_uncleanable_offset > self.first_dirty_offset
        return anything and (self.overdue or self.ratio > min_ratio)


def assess(
    segments: Sequence[SegmentFacts],
    *,
    log_start: int,
    last_stable: int,
    checkpoint: int | None,
    min_lag_ms: int,
    max_lag_ms: int,
    now_ms: int,
) -> DirtyState:
    """`segments` in order, the active one last. If the log was truncated below the checkpoint, all of it is dirty."""
    active_base = segments[-1].base_offset
    first_dirty = log_start if checkpoint is None or not log_start <= checkpoint <= active_base else checkpoint
    uncleanable = min(active_base, last_stable)
    overdue = False
    for segment in segments[:-1]:
        if segment.next_base_offset <= first_dirty:
            continue
        if min_lag_ms > 0 and segment.largest_timestamp_ms > now_ms - min_lag_ms:
            uncleanable = min(uncleanable, segment.base_offset)
            break
        overdue = overdue or now_ms - segment.largest_timestamp_ms > max_lag_ms
    uncleanable = max(uncleanable, first_dirty)
    clean = sum(s.size_bytes for s in segments if s.next_base_offset <= first_dirty)
    dirty = sum(s.size_bytes for s in segments if first_dirty < s.next_base_offset and s.base_offset < uncleanable)
    return DirtyState(first_dirty, uncleanable, clean, dirty, overdue and uncleanable > first_dirty)


def group(segments: Sequence[SegmentFacts], *, segment_bytes: int, index_bytes: int) -> list[list[SegmentFacts]]:
    """Groups of neighbouring segments that fit into one. Uses their present sizes, because cleaning only shrinks."""
    groups: list[list[SegmentFacts]] = []
    size = index = time_index = 0
    for segment in segments:
        fits = (
            bool(groups)
            and size + segment.size_bytes <= segment_bytes
            and index + segment.index_bytes <= index_bytes
            and time_index + segment.time_index_bytes <= index_bytes
            and segment.next_base_offset - groups[-1][0].base_offset <= MAX_OFFSET_SPAN
        )
        if not fits:
            groups.append([])
            size = index = time_index = 0
        groups[-1].append(segment)
        size += segment.size_bytes
        index += segment.index_bytes
        time_index += segment.time_index_bytes
    return groups
