"""Placement of replicas: equal shares, distinct brokers, different racks."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cluster.core.placement import place


def test_six_brokers_ten_partitions_three_replicas_gives_each_broker_five() -> None:
    for start in range(6):
        placed = place(range(6), 10, 3, start=start)
        assert set(Counter(broker for replicas in placed for broker in replicas).values()) == {5}
        assert set(Counter(replicas[0] for replicas in placed).values()) <= {1, 2}


@given(
    brokers=st.sets(st.integers(0, 50), min_size=1, max_size=12),
    partitions=st.integers(1, 60),
    factor=st.integers(1, 12),
    start=st.integers(0, 100),
    shift=st.integers(0, 100),
    racks=st.integers(0, 5),
)
def test_replicas_are_distinct_and_leadership_is_even(
    brokers: set[int], partitions: int, factor: int, start: int, shift: int, racks: int
) -> None:
    factor = min(factor, len(brokers))
    rack_of = {broker: f"rack{broker % racks}" for broker in brokers} if racks else None
    placed = place(sorted(brokers), partitions, factor, rack_of, start=start, shift=shift)
    assert len(placed) == partitions
    assert all(len(set(replicas)) == factor and set(replicas) <= brokers for replicas in placed)
    leads = Counter(replicas[0] for replicas in placed)
    assert max(leads.values()) - min(leads.get(broker, 0) for broker in brokers) <= 1
    if not rack_of:
        held = Counter(broker for replicas in placed for broker in replicas)
        assert max(held.values()) - min(held.get(broker, 0) for broker in brokers) <= 1
    else:
        distinct = min(factor, len(set(rack_of.values())))
        assert all(len({rack_of[broker] for broker in replicas}) == distinct for replicas in placed)


def test_the_partitions_of_one_leader_have_many_followers() -> None:
    placed = place(range(6), 60, 2)
    followers = Counter(replicas[1] for replicas in placed if replicas[0] == 0)
    assert set(followers.values()) == {2}


def test_brokers_without_a_rack_turn_rack_spreading_off() -> None:
    placed = place([0, 1, 2], 3, 3, {0: "a", 1: None, 2: "a"})
    assert sorted(placed[0]) == [0, 1, 2]


def test_added_partitions_continue_the_placement_of_the_topic() -> None:
    whole = place(range(4), 12, 2, start=1)
    assert [replicas[0] for replicas in place(range(4), 4, 2, start=1, first_partition=8)] == [r[0] for r in whole[8:]]


def test_more_replicas_than_brokers_fails_an_assertion() -> None:
    with pytest.raises(AssertionError):
        place([1, 2], 1, 3)
