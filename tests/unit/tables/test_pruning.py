"""A filter of DuckDB gives the offsets and times that it can match."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headrace.tables.relations.pruning import Filter

PARTITION, OFFSET, TIMESTAMP = pc.field("partition"), pc.field("offset"), pc.field("timestamp")
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (None, (0, 1000)),
        (OFFSET >= 10, (10, 1000)),
        (OFFSET > 10, (11, 1000)),
        (OFFSET < 10, (0, 10)),
        (OFFSET == 7, (7, 8)),
        ((OFFSET >= 5) & (OFFSET <= 9), (5, 10)),
        ((OFFSET == 5) | (OFFSET == 900), (5, 901)),
        (OFFSET.isin([5, 6]) | (OFFSET > 990), (5, 1000)),
        (PARTITION == 3, (0, 1000)),
        (PARTITION == 4, (0, 0)),
        (PARTITION.isin([1, 2]), (0, 0)),
        ((PARTITION == 3) & (OFFSET > 998), (999, 1000)),
        (OFFSET > 5000, (0, 0)),
        (OFFSET != 3, (0, 1000)),
        (pa.scalar(NOON) < TIMESTAMP, (0, 1000)),
    ],
    ids=str,
)
def test_offsets_of_a_filter(expression: pc.Expression | None, expected: tuple[int, int]) -> None:
    start, end = Filter(expression).offsets(3, 0, 1000)
    assert (start, end) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (None, None),
        (OFFSET > 5, None),
        (pa.scalar(NOON) > TIMESTAMP, None),
        (pa.scalar(NOON) <= TIMESTAMP, NOON_MS),
        (pa.scalar(NOON) < TIMESTAMP, NOON_MS),
        ((pa.scalar(NOON) <= TIMESTAMP) & (OFFSET > 5), NOON_MS),
        ((pa.scalar(NOON) <= TIMESTAMP) | (OFFSET > 5), None),
    ],
    ids=str,
)
def test_earliest_time_of_a_filter(expression: pc.Expression | None, expected: int | None) -> None:
    assert Filter(expression).earliest_time_ms() == expected
