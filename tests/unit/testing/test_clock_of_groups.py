"""Timers of members of each kind of group that a client does not let pass by itself: raw requests, a turned clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.testing.in_process import RunningBroker, broker
from tests.support.clock import wait_for
from tests.support.group_requests import (
    Client,
    beat,
    consumer_beat,
    join,
    patient_find,
    share_beat,
    streams_beat,
    sync,
)

OK, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS = 0, 25, 27
DELAYED = 5  # the status ASSIGNMENT_DELAYED of a streams group
SESSION_S, REBALANCE_S = 45, 10


@pytest.fixture
def headrace() -> Iterator[RunningBroker]:
    with broker() as running:
        running.create_topic("t", 2)
        running.create_topic("kitchen-store-changelog", 2)
        yield running


@pytest.fixture
def client(headrace: RunningBroker) -> Iterator[Client]:
    with_names = Client(headrace.bootstrap)
    patient_find(with_names, "kitchen")
    yield with_names
    with_names.close()


def code(answer: Any) -> int:
    return int(answer.error_code)


def tasks(answer: Any) -> int:
    """Active tasks that a heartbeat of a streams group assigns."""
    return sum(len(one.partitions) for one in answer.active_tasks or ())


def partitions(answer: Any) -> int:
    """Partitions that a heartbeat of a consumer or share group assigns."""
    return 0 if answer.assignment is None else sum(len(one.partitions) for one in answer.assignment.topic_partitions)


def statuses(answer: Any) -> set[int]:
    return {int(one.status_code) for one in answer.status or ()}


def test_the_session_of_a_member_of_a_streams_group_ends(headrace: RunningBroker, client: Client) -> None:
    first = streams_beat(client, "kitchen", "a", 0)
    assert code(first) == OK and tasks(first) == 2
    headrace.clock.advance(seconds=SESSION_S - 1)
    assert code(streams_beat(client, "kitchen", "a", first.member_epoch)) == OK
    headrace.clock.advance(seconds=SESSION_S + 1)
    assert code(streams_beat(client, "kitchen", "a", first.member_epoch)) == UNKNOWN_MEMBER_ID


def test_the_first_tasks_of_a_streams_group_wait_for_the_delay() -> None:
    with broker({"group.streams.initial.rebalance.delay.ms": "40000"}) as headrace:
        headrace.create_topic("t", 2)
        headrace.create_topic("kitchen-store-changelog", 2)
        client = Client(headrace.bootstrap)
        patient_find(client, "kitchen")
        first = streams_beat(client, "kitchen", "a", 0)
        assert tasks(first) == 0 and statuses(first) == {DELAYED}
        headrace.clock.advance(seconds=39)
        assert tasks(streams_beat(client, "kitchen", "a", first.member_epoch)) == 0
        headrace.clock.advance(seconds=2)
        assert tasks(streams_beat(client, "kitchen", "a", first.member_epoch)) == 2
        client.close()


def test_a_member_of_a_streams_group_that_keeps_its_tasks_is_removed(headrace: RunningBroker, client: Client) -> None:
    first = streams_beat(client, "kitchen", "a", 0, rebalance_timeout=REBALANCE_S * 1000)
    assert tasks(streams_beat(client, "kitchen", "b", 0)) == 0, "the first member owns all tasks"
    owned = [{"subtopology_id": "0", "partitions": [0, 1]}]
    told = streams_beat(
        client, "kitchen", "a", first.member_epoch, active_tasks=owned, standby_tasks=[], warmup_tasks=[]
    )
    assert tasks(told) == 1, "it must give one task away"
    headrace.clock.advance(seconds=REBALANCE_S + 1)
    assert code(streams_beat(client, "kitchen", "a", told.member_epoch)) == UNKNOWN_MEMBER_ID


def test_a_member_of_the_new_protocol_that_keeps_its_partitions_is_removed(
    headrace: RunningBroker, client: Client
) -> None:
    first = consumer_beat(client, "kitchen", "a", 0)
    assert partitions(first) == 2
    assert partitions(consumer_beat(client, "kitchen", "b", 0)) == 0, "the first member owns all partitions"
    told = consumer_beat(client, "kitchen", "a", first.member_epoch)
    assert partitions(told) == 1, "it must give one partition away"
    headrace.clock.advance(seconds=REBALANCE_S + 1)
    assert code(consumer_beat(client, "kitchen", "a", told.member_epoch)) == UNKNOWN_MEMBER_ID


def test_a_leader_that_sends_no_assignment_is_removed(headrace: RunningBroker, client: Client) -> None:
    """The time of the sync phase, in which every member must ask for its assignment."""
    leader = join(client, "kitchen", 3, session_timeout=60_000)
    headrace.clock.advance(seconds=REBALANCE_S + 1)
    assert code(sync(client, "kitchen", leader.member_id, leader.generation_id)) == UNKNOWN_MEMBER_ID


def test_a_classic_member_of_a_consumer_group_must_sync(headrace: RunningBroker, client: Client) -> None:
    consumer_beat(client, "kitchen", "new", 0, rebalance_timeout=600_000)
    old = join(client, "kitchen", 3, session_timeout=60_000)
    assert code(old) == OK
    headrace.clock.advance(seconds=REBALANCE_S + 1)
    assert code(sync(client, "kitchen", old.member_id, old.generation_id)) == UNKNOWN_MEMBER_ID


def test_a_classic_member_of_a_consumer_group_must_rejoin(headrace: RunningBroker, client: Client) -> None:
    """Its heartbeat says that a rebalance goes on, and it does not join again in time."""
    first = consumer_beat(client, "kitchen", "new", 0, rebalance_timeout=600_000)
    old = join(client, "kitchen", 3, session_timeout=60_000)
    assert code(sync(client, "kitchen", old.member_id, old.generation_id)) == OK
    consumer_beat(client, "kitchen", "new", first.member_epoch, topic_partitions=[])
    assert code(consumer_beat(client, "kitchen", "newer", 0, rebalance_timeout=600_000)) == OK
    assert code(beat(client, "kitchen", old.member_id, old.generation_id)) == REBALANCE_IN_PROGRESS
    headrace.clock.advance(seconds=REBALANCE_S + 1)
    assert code(beat(client, "kitchen", old.member_id, old.generation_id)) == UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_the_next_assignment_waits_for_its_interval(kind: str) -> None:
    """A member that joins soon after an assignment gets its part when the interval is over."""
    beats = {"consumer": consumer_beat, "share": share_beat, "streams": streams_beat}
    count = tasks if kind == "streams" else partitions
    more: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []} if kind == "streams" else {}
    with broker({f"group.{kind}.assignment.interval.ms": "30000"}) as headrace:
        headrace.create_topic("t", 2)
        headrace.create_topic("kitchen-store-changelog", 2)
        client = Client(headrace.bootstrap)
        patient_find(client, "kitchen")
        ask = beats[kind]
        assert count(ask(client, "kitchen", "a", 0)) == 2
        second = ask(client, "kitchen", "b", 0)
        assert count(second) == 0
        late = ask(client, "kitchen", "b", second.member_epoch)
        assert late.member_epoch == second.member_epoch, "no new assignment yet"
        headrace.clock.advance(seconds=31)
        wait_for(
            lambda: ask(client, "kitchen", "b", second.member_epoch, **more).member_epoch > second.member_epoch,
            "the epoch of a new assignment",
        )
        client.close()
