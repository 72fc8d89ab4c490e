"""Ids have the places that Kafka gives them: logs that Kafka wrote are found, and Kafka's tools find ours."""

from __future__ import annotations

import pytest

from headrace.kernel.ids import coordinator_partition, java_string_hash


@pytest.mark.parametrize(
    ("name", "hashed", "partition"),
    [
        ("", 0, 0),
        ("group", 98629247, 47),
        # Negative hashes are negated, not stripped of their sign; the smallest one is taken for zero.
        ("my-group", -1906497762, 12),
        ("polygenelubricants", -(2**31), 0),
        ("𝄞", 1772394, 44),
    ],
)
def test_coordinator_partitions_are_those_of_kafka(name: str, hashed: int, partition: int) -> None:
    assert java_string_hash(name) == hashed
    assert coordinator_partition(name, 50) == partition
