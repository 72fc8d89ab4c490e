"""Splitting of offset ranges, and sharing of limits between partitions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.pipelines.errors import OptionError
from headrace.pipelines.source.offsets import OffsetRange, check_covers, limit_offsets, split_ranges

_ranges = st.lists(
    st.builds(
        lambda p, s, n: OffsetRange("t", p, s, s + n), st.integers(0, 9), st.integers(0, 99), st.integers(0, 5000)
    ),
    max_size=6,
    unique_by=lambda r: r.partition,
)


@settings(deadline=None)
@given(_ranges, st.none() | st.integers(1, 40), st.none() | st.integers(1, 2000))
def test_pieces_cover_every_offset_once_and_are_reproducible(ranges: Any, least: Any, most: Any) -> None:
    pieces = split_ranges(ranges, min_partitions=least, max_records=most)
    assert pieces == split_ranges(list(reversed(ranges)), min_partitions=least, max_records=most)
    for whole in ranges:
        mine = [p for p in pieces if p.partition == whole.partition]
        covered = [offset for p in mine for offset in range(p.start, p.end)]
        assert covered == list(range(whole.start, whole.end))
    if most:
        assert all(p.size <= most for p in pieces)
    if least:
        assert len(pieces) >= min(least, sum(r.size for r in ranges))


def test_a_kept_partition_has_one_piece_if_its_range_is_empty() -> None:
    empty, full = OffsetRange("t", 0, 7, 7), OffsetRange("t", 1, 0, 6)
    assert split_ranges([full, empty]) == [full]
    assert split_ranges([full, empty], kept={("t", 0)}) == [empty, full]
    halves = [OffsetRange("t", 1, 0, 3), OffsetRange("t", 1, 3, 6)]
    assert split_ranges([full, empty], max_records=3, kept={("t", 0)}) == [empty, *halves]
    assert split_ranges([full, empty], min_partitions=3, kept={("t", 0)}) == [empty, *halves]


@settings(deadline=None)
@given(
    st.dictionaries(st.integers(0, 8), st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1),
    st.integers(1, 3000),
)
def test_limit_is_respected_and_allows_progress(sizes: Any, most: Any) -> None:
    start = {("t", p): s for p, (s, _) in sizes.items()}
    latest = {("t", p): s + n for p, (s, n) in sizes.items()}
    ends = limit_offsets(start, latest, most)
    taken = sum(ends[tp] - start[tp] for tp in ends)
    waiting = sum(n for _, n in sizes.values())
    assert taken <= most
    assert taken >= min(most, waiting, 1)
    assert all(start[tp] <= ends[tp] <= latest[tp] for tp in latest)


def test_offsets_by_partition_must_name_each_one() -> None:
    with pytest.raises(OptionError, match="missing: t-1"):
        check_covers("startingOffsets", [("t", 0)], [("t", 0), ("t", 1)])
    with pytest.raises(OptionError, match="u-0 is not among"):
        check_covers("startingOffsets", [("t", 0), ("u", 0)], [("t", 0)])
