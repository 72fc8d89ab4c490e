"""Stopped brokers: they stay registered, get replicas if the others do not suffice, and can be unregistered."""

from __future__ import annotations

from uuid import UUID

import pytest

from headrace.cluster.core.changes import apply
from headrace.cluster.core.image import ClusterImage, PartitionInfo, TopicInfo
from headrace.controller.broker_operations import unregister
from headrace.controller.core import elections, reassignments, topics
from headrace.controller.core.topics import NewTopic, PlacementDraw
from headrace.kernel.errors import ErrorCode, Refused
from tests.unit.controller.core.test_decisions import after, broker, cluster, code_of, rules


def with_away(*away: int, brokers: int = 3, infos: tuple[PartitionInfo, ...] = ()) -> ClusterImage:
    image = cluster(*infos, brokers=brokers)
    present = {i: (broker(i), True) for i in image.brokers if i not in away}
    return after(image, elections.membership_changed(image, present, rules()))


def new(image: ClusterImage, asked: NewTopic) -> TopicInfo:
    return topics.new_topic(image, asked, UUID(int=9), PlacementDraw(), default_partitions=2, default_factor=1)


def test_a_returned_broker_is_not_fenced() -> None:
    image = with_away(1)
    assert (sorted(image.brokers), sorted(image.fenced_brokers)) == ([2, 3], [1])
    present = {i: (broker(i, 9 if i == 1 else 1), True) for i in (1, 2, 3)}
    now = after(image, elections.membership_changed(image, present, rules()))
    assert (sorted(now.brokers), dict(now.fenced_brokers)) == ([1, 2, 3], {})
    assert elections.membership_changed(now, present, rules()).changes == []


def test_only_a_stopped_broker_is_unregistered_and_only_once() -> None:
    image = with_away(1, 3)
    assert code_of(unregister(2), image) is ErrorCode.invalid_request
    image = apply(image, unregister(1)(image).changes, 9)
    assert (sorted(image.brokers), sorted(image.fenced_brokers)) == ([2], [3])
    assert code_of(unregister(1), image) is ErrorCode.broker_id_not_registered


def test_a_topic_with_three_replicas_is_made_while_one_of_three_brokers_restarts() -> None:
    for info in new(with_away(1), NewTopic("n", 4, 3)).partitions:
        assert sorted(info.replicas) == [1, 2, 3]
        assert info.replicas[-1] == 1, "who is away leads nothing"
        assert (info.leader, sorted(info.isr)) == (info.replicas[0], [2, 3])


def test_a_stopped_broker_gets_no_replicas_if_the_others_suffice() -> None:
    for info in new(with_away(1, brokers=4), NewTopic("n", 8, 3)).partitions:
        assert sorted(info.replicas) == [2, 3, 4]


def test_replicas_on_several_stopped_brokers_are_spread() -> None:
    made = new(with_away(3, 4, brokers=4), NewTopic("n", 4, 3)).partitions
    assert sorted(info.replicas[2] for info in made) == [3, 3, 4, 4]


def test_a_topic_grows_while_a_broker_restarts() -> None:
    (info,) = topics.more_partitions(with_away(2), "t", 2, None, PlacementDraw())
    assert (sorted(info.replicas), sorted(info.isr)) == ([1, 2, 3], [1, 3])


def test_more_replicas_than_registered_brokers_are_refused_with_all_the_numbers() -> None:
    with pytest.raises(Refused, match=r"factor of 4 .* only 3 broker\(s\) are registered, 2 of them alive") as refused:
        new(with_away(1), NewTopic("n", 1, 4))
    assert refused.value.code is ErrorCode.invalid_replication_factor
    image = with_away(1)
    image = apply(image, unregister(1)(image).changes, 9)
    with pytest.raises(Refused, match=r"factor of 3 .* only 2 broker\(s\) are registered\."):
        new(image, NewTopic("n", 1, 3))


def test_a_manual_assignment_may_use_stopped_brokers_but_not_only_those() -> None:
    image = with_away(3)
    (info,) = new(image, NewTopic("n", -1, -1, {0: [3, 1]})).partitions
    assert (info.leader, info.isr, info.replicas) == (1, (1,), (3, 1))
    assert code_of(new, image, NewTopic("n", -1, -1, {0: [3]})) is ErrorCode.invalid_replica_assignment


def test_a_reassignment_to_a_stopped_broker_waits_until_it_is_back() -> None:
    image = with_away(3, infos=(PartitionInfo(1, 5, 7, (1, 2), (1, 2)),))
    moved = reassignments.reassign(image, "t", 0, [3, 1], rules())
    assert moved is not None
    assert (moved.info.replicas, moved.info.adding, moved.info.removing) == ((3, 1, 2), (3,), (2,))
    assert set(moved.info.isr) == {1, 2}
