"""When segments roll and when retention deletes them."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.storage.core.retention import SegmentFacts, Verdict, expired
from headrace.storage.core.roll import should_roll

DAY = 86_400_000


class Segment(NamedTuple):
    base_offset: int = 0
    size_bytes: int = 500
    created_ms: int = 0
    first_timestamp_ms: int | None = 0
    roll_jitter_ms: int = 0
    indexes_full: bool = False


def rolls(segment: Segment, **incoming: int) -> bool:
    facts = {"incoming_bytes": 100, "incoming_last_offset": 10, "incoming_timestamp_ms": 1000, "now_ms": 1000}
    return should_roll(segment, segment_bytes=1000, segment_ms=DAY, **{**facts, **incoming})


@pytest.mark.parametrize(
    ("facts", "incoming", "ends"),
    [
        ({}, {}, False),
        ({"size_bytes": 900}, {}, False),
        ({"size_bytes": 901}, {}, True),
        ({"size_bytes": 0}, {"incoming_bytes": 5000, "incoming_timestamp_ms": 99 * DAY}, False),
        ({"indexes_full": True}, {}, True),
        ({}, {"incoming_last_offset": 2**31 - 1}, False),
        ({}, {"incoming_last_offset": 2**31}, True),
        ({}, {"incoming_timestamp_ms": DAY}, False),
        ({}, {"incoming_timestamp_ms": DAY + 1}, True),
        ({"roll_jitter_ms": 10}, {"incoming_timestamp_ms": DAY - 9}, True),
        ({}, {"now_ms": 99 * DAY}, False),
        ({"first_timestamp_ms": None}, {"now_ms": 99 * DAY}, True),
        ({}, {"incoming_timestamp_ms": -1, "now_ms": 99 * DAY}, True),
    ],
)
def test_segment_rolls_for_size_time_index_or_offsets(
    facts: dict[str, object], incoming: dict[str, int], ends: bool
) -> None:
    assert rolls(Segment(**facts), **incoming) is ends  # type: ignore[arg-type]


def facts(*sizes_and_ages: tuple[int, int]) -> list[SegmentFacts]:
    """(bytes, newest timestamp) of segments of ten offsets each."""
    return [SegmentFacts(at * 10, size, newest) for at, (size, newest) in enumerate(sizes_and_ages)]


def verdict(segments: list[SegmentFacts], **changes: int | bool) -> Verdict:
    end = len(segments) * 10
    given_facts = {"now_ms": 10_000, "log_end_offset": end, "high_watermark": end, "log_start_offset": 0}
    rules = {"retention_ms": -1, "retention_bytes": -1}
    return expired(segments, **{**given_facts, **rules, **changes})  # type: ignore[arg-type]


OLD = facts((100, 1000), (100, 2000), (100, 9000), (100, 9500))


def test_segment_is_deleted_when_its_newest_record_is_too_old() -> None:
    assert verdict(OLD, retention_ms=7999).count == 2
    assert verdict(OLD, retention_ms=8000).count == 1
    assert verdict(OLD, retention_ms=-1).count == 0
    assert "retention.ms" in verdict(OLD, retention_ms=0).reason


def test_old_segment_behind_a_new_one_stays() -> None:
    assert verdict(facts((1, 9999), (1, 0), (1, 0)), retention_ms=100).count == 0


def test_retention_deletes_the_last_segment_of_an_idle_log() -> None:
    assert verdict(OLD, retention_ms=1).count == 4
    assert verdict([*OLD, SegmentFacts(40, 0, 0)], log_end_offset=40, high_watermark=40, retention_ms=1).count == 4


def test_retention_by_size_keeps_at_least_retention_bytes() -> None:
    assert verdict(OLD, retention_bytes=400).count == 0
    assert verdict(OLD, retention_bytes=301).count == 0
    assert verdict(OLD, retention_bytes=300).count == 1
    assert verdict(OLD, retention_bytes=100).count == 3


def test_disk_percent_retention_never_deletes_the_active_segment() -> None:
    assert verdict(OLD, disk_limit_bytes=200).count == 2
    assert verdict(OLD, disk_limit_bytes=0).count == 3


def test_retention_deletes_nothing_above_the_high_watermark() -> None:
    assert verdict(OLD, retention_ms=0, high_watermark=19).count == 1
    assert verdict(OLD, retention_ms=0, high_watermark=20).count == 2


def test_segments_below_the_log_start_are_deleted_under_every_policy() -> None:
    assert verdict(OLD, deletes_old=False, retention_ms=0, log_start_offset=25).count == 2


@given(
    st.lists(st.tuples(st.integers(1, 100), st.integers(0, 10_000)), min_size=1, max_size=8),
    st.integers(-1, 10_000),
    st.integers(-1, 800),
    st.integers(0, 80),
)
def test_remaining_segments_satisfy_the_retention_minimum(
    sizes_and_ages: list[tuple[int, int]], retention_ms: int, retention_bytes: int, high_watermark: int
) -> None:
    segments = facts(*sizes_and_ages)
    count = verdict(
        segments, retention_ms=retention_ms, retention_bytes=retention_bytes, high_watermark=high_watermark
    ).count
    gone, kept = segments[:count], segments[count:]
    by_age = all(retention_ms >= 0 and 10_000 - one.largest_timestamp_ms > retention_ms for one in gone)
    by_size = retention_bytes >= 0 and sum(one.size_bytes for one in kept) >= retention_bytes
    assert count == 0 or by_age or by_size
    assert all(one.base_offset + 10 <= high_watermark for one in gone)
