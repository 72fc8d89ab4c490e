"""Reassignments: which replicas are added and removed, and which stay because no other replica has the data."""

from __future__ import annotations

from headrace.cluster.core.image import PartitionInfo
from headrace.controller.core import reassignments
from headrace.kernel.errors import ErrorCode
from tests.unit.controller.core.test_decisions import cluster, code_of, rules


def test_new_replicas_are_added_before_old_ones_are_removed() -> None:
    image = cluster(PartitionInfo(1, 5, 7, (1, 2), (1, 2)))
    state = reassignments.reassign(image, "t", 0, [2, 3], rules())
    assert state is not None
    assert (state.info.replicas, state.info.adding, state.info.removing) == ((2, 3, 1), (3,), (1,))
    assert state.info.leader == 1


def test_cancelling_restores_the_former_replicas() -> None:
    moving = PartitionInfo(1, 5, 7, (1, 2, 3), (2, 3, 1), adding=(3,), removing=(1,))
    state = reassignments.reassign(cluster(moving), "t", 0, None, rules())
    assert state is not None
    assert (set(state.info.replicas), state.info.isr, state.info.adding) == ({1, 2}, (1, 2), ())


def test_replacing_a_reassignment_keeps_the_only_replica_with_all_records() -> None:
    moving = PartitionInfo(2, 5, 7, (2,), (1, 2), adding=(2,))
    state = reassignments.reassign(cluster(moving), "t", 0, [1], rules())
    assert state is not None
    assert (state.info.leader, state.info.isr, state.info.removing) == (2, (2,), (2,))


def test_removing_replicas_needs_no_catching_up() -> None:
    state = reassignments.reassign(cluster(), "t", 0, [1, 2], rules())
    assert state is not None
    assert (state.info.replicas, state.info.isr, state.info.removing) == ((1, 2), (1, 2), ())


def test_a_new_order_is_a_new_preferred_leader() -> None:
    state = reassignments.reassign(cluster(), "t", 0, [3, 2, 1], rules())
    assert state is not None
    assert (state.info.replicas, state.info.leader) == ((3, 2, 1), 1)


def test_wrong_targets_are_refused_by_name() -> None:
    image = cluster()
    assert code_of(reassignments.reassign, image, "t", 0, [], rules()) is ErrorCode.invalid_replica_assignment
    assert code_of(reassignments.reassign, image, "t", 0, [1, 1], rules()) is ErrorCode.invalid_replica_assignment
    assert code_of(reassignments.reassign, image, "t", 0, [1, 77], rules()) is ErrorCode.invalid_replica_assignment
    assert code_of(reassignments.reassign, image, "t", 9, [1], rules()) is ErrorCode.unknown_topic_or_partition
    assert code_of(reassignments.reassign, image, "t", 0, None, rules()) is ErrorCode.no_reassignment_in_progress
    refused = code_of(reassignments.reassign, image, "t", 0, [1], rules(), allow_replication_factor_change=False)
    assert refused is ErrorCode.invalid_replication_factor
