"""Replicas that kafka-reassign-partitions throttles."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.cli.kafka_tools.reassign_partitions import moves
from headrace.kernel.ids import TopicPartition
from headrace.wire.messages.answers.list_partition_reassignments import OngoingPartitionReassignment

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


@dataclass
class Reassignment:
    partition_index: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...] = ()


def on_its_way(*replicas: int, adding: tuple[int, ...]) -> Reassignment:
    return Reassignment(0, replicas, adding)


def test_old_replicas_are_throttled_as_leaders_and_new_ones_as_followers() -> None:
    assert moves({FIRST: [2, 3]}, {FIRST: [1, 2]}, {}) == {FIRST: ({1, 2}, {3})}


def test_throttle_of_a_running_reassignment_keeps_its_replicas() -> None:
    """The replicas already include those that are being added, which must still be throttled as followers."""
    moving: dict[TopicPartition, OngoingPartitionReassignment] = {FIRST: on_its_way(1, 2, 3, adding=(2, 3))}
    assert moves({FIRST: [1, 2, 3]}, {FIRST: [1, 2, 3]}, moving) == {FIRST: ({1}, {2, 3})}


def test_additional_reassignment_keeps_the_throttle_of_the_running_one() -> None:
    """Both are partitions of one topic, whose setting is overwritten."""
    moving: dict[TopicPartition, OngoingPartitionReassignment] = {FIRST: on_its_way(1, 2, adding=(2,))}
    assert moves({SECOND: [3]}, {SECOND: [1]}, moving) == {FIRST: ({1}, {2}), SECOND: ({1}, {3})}
