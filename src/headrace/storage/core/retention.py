"""Which of a log's oldest segments retention deletes. Pure.

Retention guarantees a minimum: a segment is deleted only if all of its records are past the limit. So its newest record
decides its age, and the remaining segments always hold at least `retention.bytes`. Segments above the high watermark
stay: a follower may still need them. If retention reaches the active segment, the log first rolls to a new one, as
Kafka does, so that records of an idle topic also expire in time.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.kernel.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    base_offset: int
    size_bytes: int
    # The newest record's timestamp, or the file's modification time if the records have none.
    largest_timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """Delete the first `count` segments because of `reason`."""

    count: int
    reason: str = ""


def expired(
    segments: Sequence[SegmentFacts],
    *,
    now_ms: int,
    log_end_offset: int,
    high_watermark: int,
    log_start_offset: int,
    retention_ms: int,
    retention_bytes: int,
    disk_limit_bytes: int = -1,
    deletes_old: bool = True,
) -> Verdict:
    """How many of the first segments to delete. A segment wholly below the log start is deleted under every policy."""
    ends = [segment.base_offset for segment in segments[1:]] + [log_end_offset]
    deletable = 0
    while deletable < len(segments) and ends[deletable] <= high_watermark:
        deletable += 1
    if deletable == len(segments) and segments and segments[-1].size_bytes == 0:
        deletable -= 1
    below_start = 0
    while below_start < deletable and ends[below_start] <= log_start_offset:
        below_start += 1
    best = Verdict(below_start, f"log start offset {log_start_offset}" if below_start else "")
    if not deletes_old:
        return best
    if retention_ms >= 0:
        aged = 0
        while aged < deletable and now_ms - segments[aged].largest_timestamp_ms > retention_ms:
            aged += 1
        best = max(best, Verdict(aged, f"retention.ms={retention_ms}"), key=_count)
    if retention_bytes >= 0:
        over = Verdict(_over(segments, deletable, retention_bytes), f"retention.bytes={retention_bytes}")
        best = max(best, over, key=_count)
    if disk_limit_bytes >= 0:
        over = Verdict(_over(segments, min(deletable, len(segments) - 1), disk_limit_bytes), "share of the disk")
        best = max(best, over, key=_count)
    return best


def _over(segments: Sequence[SegmentFacts], deletable: int, limit_bytes: int) -> int:
    excess = sum(segment.size_bytes for segment in segments) - limit_bytes
    count = 0
    while count < deletable and excess - segments[count].size_bytes >= 0:
        excess -= segments[count].size_bytes
        count += 1
    return count


def _count(verdict: Verdict) -> int:
    return verdict.count
