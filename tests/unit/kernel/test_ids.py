"""Ids map to Kafka's coordinator partitions, so that Headrace reads Kafka's logs and Kafka's tools read Headrace's."""

from __future__ import annotations

import pytest

from headrace.kernel.ids import coordinator_partition, java_string_hash


@pytest.mark.parametrize(
    ("name", "hashed", "partition"),
    [
        ("", 0, 0),
        ("group", 98629247, 47),
        # Kafka takes the absolute value of a negative hash; the smallest integer counts as zero.
        ("my-group", -1906497762, 12),
        ("polygenelubricants", -(2**31), 0),
        ("𝄞", 1772394, 44),
    ],
)
def test_coordinator_partitions_equal_kafkas(name: str, hashed: int, partition: int) -> None:
    assert java_string_hash(name) == hashed
    assert coordinator_partition(name, 50) == partition
