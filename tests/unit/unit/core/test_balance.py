"""Which partitions move when a unit grows or shrinks."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cluster.core.image import BrokerInfo, ClusterImage, PartitionInfo, TopicInfo
from headrace.kernel.ids import TopicPartition, new_topic_id
from headrace.unit.core.balance import Moves, balanced, drained, is_lopsided, obstacle, replica_counts, unfinished

Topics = dict[str, list[tuple[int, ...]]]


def image(topics: Topics) -> ClusterImage:
    return ClusterImage(
        topics={
            name: TopicInfo(
                name,
                new_topic_id(),
                tuple(PartitionInfo(replicas[0], 0, 0, replicas, replicas) for replicas in partitions),
            )
            for name, partitions in topics.items()
        }
    )


def after(topics: Topics, moves: Moves) -> ClusterImage:
    return image(
        {
            name: [moves.get(TopicPartition(name, index), replicas) for index, replicas in enumerate(partitions)]
            for name, partitions in topics.items()
        }
    )


def test_the_partitions_of_one_broker_spread_over_new_processes() -> None:
    topics: Topics = {"a": [(0,)] * 6, "b": [(0,)], "c": [(0,)], "d": [(0,)]}
    assert is_lopsided(image(topics), [0, 1, 2])
    moved = after(topics, balanced(image(topics), [0, 1, 2]))
    assert replica_counts(moved, [0, 1, 2]) == {0: 3, 1: 3, 2: 3}
    assert Counter(info.leader for info in moved.topics["a"].partitions) == {0: 2, 1: 2, 2: 2}


def test_an_even_unit_moves_nothing() -> None:
    topics: Topics = {"a": [(0,), (1,), (2,)], "b": [(1,)]}
    assert not is_lopsided(image(topics), [0, 1, 2])
    assert balanced(image(topics), [0, 1, 2]) == {}


def test_replicas_on_other_hosts_stay_where_they_are() -> None:
    topics: Topics = {"a": [(0, 10), (10, 0), (0, 20), (0, 10)]}
    moves = balanced(image(topics), [0, 1])
    for partition, replicas in moves.items():
        before = topics["a"][partition.partition]
        assert [one for one in replicas if one >= 10] == [one for one in before if one >= 10]
        assert len(replicas) == len(before) == len(set(replicas))
    assert replica_counts(after(topics, moves), [0, 1]) == {0: 2, 1: 2}


def test_leaving_processes_keep_nothing_and_no_list_gets_empty() -> None:
    topics: Topics = {"a": [(2,), (0,), (1,)], "b": [(0, 1, 2)], "c": [(2, 1)]}
    moves = drained(image(topics), leaving=[1, 2], staying=[0])
    assert moves == {
        TopicPartition("a", 0): (0,),
        TopicPartition("a", 2): (0,),
        TopicPartition("b", 0): (0,),
        TopicPartition("c", 0): (0,),
    }
    assert drained(after(topics, moves), leaving=[1, 2], staying=[0]) == {}


def test_an_operator_reads_which_partition_waits_and_why() -> None:
    info = PartitionInfo(0, 0, 0, (0,), (0, 1), adding=(1,), removing=(0,))
    leaderless = PartitionInfo(-1, 0, 0, (7,), (7, 1), adding=(1,), removing=(7,))
    arrived = PartitionInfo(1, 0, 0, (1,), (1,))
    topics = {"a": TopicInfo("a", new_topic_id(), (info, leaderless, arrived))}
    alive = {0: BrokerInfo(0, 1, ()), 1: BrokerInfo(1, 1, ())}
    now = ClusterImage(brokers=alive, topics=topics)
    moves: Moves = {TopicPartition("a", index): (1,) for index in range(3)}
    moves[TopicPartition("deleted", 0)] = (1,)
    first, second = unfinished(now, moves, {"a": topics["a"].id, "deleted": new_topic_id()})
    assert (first, second) == (TopicPartition("a", 0), TopicPartition("a", 1))
    assert obstacle(now, first) == "a-0 is not yet in sync on broker 1"
    assert obstacle(now, second) == "a-1 has no leader (replicas on broker 7, broker 1; away: broker 7)"


def test_a_topic_that_was_created_again_is_not_waited_for() -> None:
    before, later = image({"a": [(0,), (0,)]}), image({"a": [(2,)]})
    moves: Moves = {TopicPartition("a", 0): (1,), TopicPartition("a", 1): (1,)}
    ids = {"a": before.topics["a"].id}
    assert unfinished(before, moves, ids) == list(moves)
    assert unfinished(later, moves, ids) == []


@given(
    st.dictionaries(
        st.sampled_from("abcd"),
        st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True).map(tuple), min_size=1, max_size=9),
        min_size=1,
    ),
    st.integers(1, 4),
)
def test_any_unit_gets_even_and_can_be_emptied(topics: Topics, staying: int) -> None:
    """Processes 0 to 4 are the unit; broker 5 is on another host."""
    unit = [0, 1, 2, 3, 4]
    moved = after(topics, balanced(image(topics), unit))
    for name, topic in moved.topics.items():
        if all(len(replicas) == 1 and replicas[0] != 5 for replicas in topics[name]):
            counts = Counter(dict.fromkeys(unit, 0))
            counts.update(info.replicas[0] for info in topic.partitions)
            assert max(counts.values()) - min(counts.values()) <= 1
        for info, before in zip(topic.partitions, topics[name], strict=True):
            assert len(set(info.replicas)) == len(info.replicas) == len(before)
            assert (5 in info.replicas) == (5 in before)
    emptied = after(topics, drained(image(topics), unit[staying:], unit[:staying]))
    assert all(count == 0 for count in replica_counts(emptied, unit[staying:]).values())
    assert all(info.replicas for topic in emptied.topics.values() for info in topic.partitions)


@pytest.mark.parametrize("count", [2, 8])
def test_a_new_process_of_many_partitions_gets_its_share(count: int) -> None:
    topics: Topics = {f"t{number}": [(0,)] * 3 for number in range(40)}
    unit = list(range(count))
    moved = after(topics, balanced(image(topics), unit))
    counts = replica_counts(moved, unit).values()
    assert max(counts) - min(counts) <= 2
