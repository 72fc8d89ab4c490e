"""A share session is bound to its connection: when the connection closes, the broker releases the member's
records at once.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from headrace.testing import RunningBroker, broker
from tests.support.clock import Stopwatch, wait_for
from tests.support.group_requests import FIND, SHARE_ACK, SHARE_OFFSETS, Client, share_beat, share_fetch

FIRST, SECOND = (str(uuid.UUID(int=n)) for n in (1, 2))
INCREMENTAL_ALTER_CONFIGS, GROUP = 44, 32


@pytest.fixture(scope="module")
def queue() -> Iterator[RunningBroker]:
    # Record locks that last far longer than the test, so only the end of a session releases records.
    with broker({"group.share.record.lock.duration.ms": "60000", "group.share.max.size": "2"}) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic("jobs", 1, 1)])["jobs"].result(60)
        yield running


def begun(running: RunningBroker, group: str, member: str) -> Client:
    """A member that has joined the group."""
    client = Client(running.bootstrap)
    client.ask(FIND, 4, {"key_type": 0, "coordinator_keys": [group]})
    wait_for(
        lambda: not int(share_beat(client, group, member, 0, subscribed_topic_names=["jobs"]).error_code),
        f"{member} to join {group}",
    )
    return client


def take(
    client: Client, group: str, member: str, epoch: int, wait_ms: int = 0, **more: int
) -> list[tuple[int, int, int]]:
    """(first, last, delivery count) of the acquired records."""
    asked = client.ask(3, 12, {"topics": [{"topic_id": None, "name": "jobs"}], "allow_auto_topic_creation": False})
    partitions = [{"partition_index": 0, "acknowledgement_batches": []}] if epoch == 0 else []
    topics = [{"topic_id": asked.topics[0].topic_id, "partitions": partitions}] if partitions else []
    answer = share_fetch(client, group, member, epoch, topics=topics, max_wait=wait_ms, min_bytes=1, **more)
    assert int(answer.error_code) == 0, answer
    return [
        (batch.first_offset, batch.last_offset, batch.delivery_count)
        for topic in answer.responses
        for partition in topic.partitions
        for batch in partition.acquired_records
    ]


def start_at_the_beginning(client: Client, group: str) -> None:
    setting = {"name": "share.auto.offset.reset", "config_operation": 0, "value": "earliest"}
    resource = {"resource_type": GROUP, "resource_name": group, "configs": [setting]}
    client.ask(INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource], "validate_only": False})


def test_records_of_a_closed_connection_are_delivered_to_another_member_at_once(queue: RunningBroker) -> None:
    producer = Producer({"bootstrap.servers": queue.bootstrap})
    for number in range(3):
        producer.produce("jobs", f"r{number}")
    assert producer.flush(60) == 0
    first, second = begun(queue, "s", FIRST), begun(queue, "s", SECOND)
    start_at_the_beginning(first, "s")
    epoch = 0
    taken: list[Any] = []
    while not taken:
        taken = take(first, "s", FIRST, epoch, wait_ms=200)
        epoch += 1
    assert sum(last - at + 1 for at, last, _ in taken) == 3
    assert take(second, "s", SECOND, 0) == [], "all are locked"
    first.close()
    again = take(second, "s", SECOND, 1, wait_ms=10_000)
    assert [(at, last) for at, last, _ in again] == [(at, last) for at, last, _ in taken]
    assert {count for _, _, count in again} == {2}
    second.close()


def test_a_session_reopened_on_another_connection_survives_the_old_connection(queue: RunningBroker) -> None:
    old, new = begun(queue, "t", FIRST), begun(queue, "t", FIRST)
    take(old, "t", FIRST, 0)
    take(new, "t", FIRST, 0)
    old.close()
    other = Client(queue.bootstrap)
    other.ask(18, 0, {})  # by now the broker has seen the old connection close
    other.close()
    acknowledge = {"group_id": "t", "member_id": FIRST, "topics": [], "is_renew_ack": False}
    assert int(new.ask(SHARE_ACK, 2, {**acknowledge, "share_session_epoch": 1}).error_code) == 0
    new.close()


def test_an_unknown_acquire_mode_is_rejected_and_batch_size_zero_acquires_whole_records(queue: RunningBroker) -> None:
    client = begun(queue, "m", FIRST)
    start_at_the_beginning(client, "m")
    assert int(share_fetch(client, "m", FIRST, 0, topics=[], share_acquire_mode=7).error_code) == 42
    taken = []
    for epoch in range(100):
        taken = take(client, "m", FIRST, epoch, wait_ms=200, batch_size=0)
        if taken:
            break
    assert all(first <= last for first, last, _ in taken)
    client.close()


def test_a_share_fetch_with_an_error_in_one_partition_waits_for_the_others(queue: RunningBroker) -> None:
    client = begun(queue, "e", FIRST)
    asked = client.ask(3, 12, {"topics": [{"topic_id": None, "name": "jobs"}], "allow_auto_topic_creation": False})

    def first_fetch(wait_ms: int, *partitions: int) -> Stopwatch:
        wanted = [{"partition_index": index, "acknowledgement_batches": []} for index in partitions]
        topics = [{"topic_id": asked.topics[0].topic_id, "partitions": wanted}]
        watch = Stopwatch()
        answer = share_fetch(client, "e", FIRST, 0, topics=topics, max_wait=wait_ms, min_bytes=1)
        errors = {p.partition_index: int(p.error_code) for topic in answer.responses for p in topic.partitions}
        assert errors == {index: 3 if index else 0 for index in partitions}
        return watch

    first_fetch(100, 0, 7).at_least(0.1)
    first_fetch(60_000, 7, 8).at_most(30, because="no partition can have records, so the fetch does not wait 60 s")
    client.close()


def test_a_full_group_rejects_members_and_follows_added_partitions_and_deleted_topics(queue: RunningBroker) -> None:
    admin = AdminClient({"bootstrap.servers": queue.bootstrap})
    admin.create_topics([NewTopic("grows", 1, 1), NewTopic("stays", 1, 1)])["stays"].result(60)
    client = Client(queue.bootstrap)
    both = {"subscribed_topic_names": ["grows", "stays"]}

    def assigned(wanted: int) -> None:
        """Sends heartbeats until the member has this number of partitions."""

        def has_them() -> bool:
            nonlocal epoch
            reply = share_beat(client, "full", FIRST, epoch, **both)
            assert int(reply.error_code) == 0, reply
            epoch = reply.member_epoch
            return sum(len(topic.partitions) for topic in reply.assignment.topic_partitions) == wanted

        wait_for(has_them, f"{wanted} assigned partitions")

    def queues() -> dict[str, list[int]]:
        answer = client.ask(SHARE_OFFSETS, 1, {"groups": [{"group_id": "full", "topics": None}]})
        return {t.topic_name: [p.partition_index for p in t.partitions] for t in answer.groups[0].topics}

    epoch = 0
    assigned(2)
    assert int(share_beat(client, "full", SECOND, 0, **both).error_code) == 0
    assert int(share_beat(client, "full", str(uuid.UUID(int=3)), 0, **both).error_code) == 81
    assert int(share_beat(client, "full", SECOND, -1).error_code) == 0
    admin.create_partitions([NewPartitions("grows", 3)])["grows"].result(60)
    assigned(4)
    assert queues() == {"grows": [0, 1, 2], "stays": [0]}
    admin.delete_topics(["grows"])["grows"].result(60)
    assigned(1)
    assert queues() == {"stays": [0]}
    client.close()
