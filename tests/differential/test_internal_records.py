"""After every step of the same histories, the internal topics of Apache Kafka and of Headrace contain the same bytes.

Four differences are intended: the hash of the topics that a group reads (each broker compares it with its own only),
the last producer epoch, which Kafka does not store (`codec.transactions`), one tombstone where Kafka writes two, and
the epochs of share groups, whose members get their partitions one heartbeat earlier on Headrace.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from headrace.coordinators.codec import share_groups, transactions
from headrace.testing import broker
from tests.differential.applied_changes import wait_until_applied
from tests.differential.conftest import HISTORY_SETTINGS
from tests.differential.internal_records import InternalTopic, Written, both_wrote
from tests.differential.servers import Server, differences, masked
from tests.differential.table import create_topic, wait_for_coordinators
from tests.reference.kafka import ReferenceKafka
from tests.support import group_requests as asks
from tests.support.clock import wait_for
from tests.support.group_requests import Client
from tests.support.names import unique

pytestmark = pytest.mark.needs("kafka")

DELETE_TOPICS, INIT, ADD_OFFSETS, END, TXN_COMMIT, DESCRIBE_TXN = 20, 22, 25, 26, 28, 65
# Kafka initialises share partitions in the background with an epoch of their own, so one heartbeat later.
ASSIGNMENTS_OF_SHARE_GROUPS = [kind.to_bytes(2, "big") for kind in (11, 12, 13, 14)]
STREAMS_GROUP = (17).to_bytes(2, "big")
SHARE_PARTITIONS_OF_GROUPS = (15).to_bytes(2, "big")  # Kafka writes topics in the order of its maps
GROUPS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"


class Asker:
    """Sends requests to one broker. Names replace the broker's generated values in the records that it writes."""

    def __init__(self, server: Server, group: str) -> None:
        self.server = server
        self.group = group
        self.client = Client(f"127.0.0.1:{server.port}")
        self.logs = {topic: InternalTopic(server, topic, group) for topic in (GROUPS, TRANSACTIONS)}
        for name in ("t", "u"):
            self.know_topic(name)

    def call(self, value: Any, name: str) -> None:
        for log in self.logs.values():
            log.call(value, name)

    def know_topic(self, name: str) -> None:
        topic_id = self.server.topic_id(name)
        assert topic_id is not None
        self.client.topic_ids[name] = topic_id
        self.call(topic_id, f"id of {name}")

    def commit(self, version: int = 9, **more: Any) -> Any:
        return asks.commit(self.client, self.group, version=version, **more)

    def delete_offsets(self, *indexes: int) -> Any:
        topics = [{"name": "t", "partitions": [{"partition_index": index} for index in indexes]}]
        return self.client.ask(asks.OFFSET_DELETE, 0, {"group_id": self.group, "topics": topics})

    def delete(self) -> Any:
        return self.client.ask(asks.DELETE, 2, {"groups_names": [self.group]})

    def joins(self, name: str, **changes: Any) -> tuple[str, int]:
        reply = asks.join(self.client, self.group, **changes)
        self.call(reply.member_id, name)
        if int(reply.error_code) == 79:
            reply = asks.join(self.client, self.group, **{**changes, "member_id": reply.member_id})
        self.client.names[reply.member_id] = name
        return reply.member_id, reply.generation_id

    def tries(self, api: int, version: int, body: dict[str, Any]) -> Any:
        """Retries until the coordinator has finished the previous transaction (error 51)."""

        def is_done() -> Any:
            answer = self.client.ask(api, version, body)
            return None if int(getattr(answer, "error_code", 0)) == 51 else answer

        return wait_for(is_done, f"the coordinator of {self.server.name}", poll=0.01)

    def delete_topic(self, name: str) -> None:
        self.server.ask(DELETE_TOPICS, 5, {"topic_names": [name], "timeout": 20_000})


Scenario = Callable[[Asker], Iterator[Any]]


def offsets_without_a_group(a: Asker) -> Iterator[Any]:
    for version in range(2, 11):
        yield a.commit(version, metadata=f"m{version}")
    yield a.commit(2, retention_time=3_600_000)
    yield a.commit(9, metadata="x" * 4_096)
    yield a.commit(9, metadata="x" * 4_097)
    yield a.commit(9, metadata="ü" * 4_096)
    yield a.commit(9, topics=("t", "u", "missing"))
    yield a.delete_offsets(0, 0, 1)
    yield a.delete_offsets(0)
    yield a.delete()


def classic_members(a: Asker) -> Iterator[Any]:
    member, generation = a.joins("m1", version=9, reason="because")
    yield "joined"
    yield asks.sync(a.client, a.group, member, generation, all_to=member)
    yield a.commit(9, member=member, generation=generation)
    yield a.commit(9)
    yield asks.leave(a.client, a.group, (member, None))
    member, generation = a.joins("m2", version=6, group_instance_id="i1")
    yield asks.sync(a.client, a.group, member, generation, all_to=member, group_instance_id="i1")
    member, generation = a.joins("m3", version=6, group_instance_id="i1")
    yield "the static member returned"
    yield asks.leave(a.client, a.group, ("", "i1"))
    yield a.delete()


def members_of_the_consumer_protocol(a: Asker) -> Iterator[Any]:
    yield a.commit(9)
    reply = asks.consumer_beat(a.client, a.group, "one", 0, rack_id="r", server_assignor="range")
    yield reply.error_code
    owned = [{"topic_id": a.client.topic_ids["t"], "partitions": [0, 1]}]
    yield asks.consumer_beat(a.client, a.group, "one", reply.member_epoch, topic_partitions=owned).error_code
    yield a.commit(10, member="one", generation=reply.member_epoch)
    second = asks.consumer_beat(a.client, a.group, "two", 0, instance_id="i")
    yield second.error_code
    yield asks.consumer_beat(a.client, a.group, "one", reply.member_epoch).error_code
    owned[0]["partitions"] = [0]
    yield asks.consumer_beat(a.client, a.group, "one", reply.member_epoch, topic_partitions=owned).error_code
    yield asks.consumer_beat(a.client, a.group, "two", second.member_epoch, instance_id="i").error_code
    yield asks.consumer_beat(a.client, a.group, "two", -2, instance_id="i").error_code
    yield asks.consumer_beat(a.client, a.group, "three", 0, instance_id="i").error_code
    yield asks.consumer_beat(a.client, a.group, "one", -1).error_code
    yield asks.consumer_beat(a.client, a.group, "three", -1, instance_id="i").error_code
    yield a.delete()


def members_of_the_streams_protocol(a: Asker) -> Iterator[Any]:
    yield a.commit(9)
    endpoint = {"host": "h", "port": 65_535}
    first = asks.streams_beat(a.client, a.group, "one", 0, user_endpoint=endpoint, rack_id="r")
    yield first.status
    wait_for(lambda: a.server.topic_id(f"{a.group}-store-changelog"), f"the changelog topic on {a.server.name}")
    wait_until_applied([a.server.ask_once])
    yield asks.streams_beat(a.client, a.group, "one", first.member_epoch).active_tasks
    second = asks.streams_beat(a.client, a.group, "two", 0, client_tags=[{"key": "k", "value": "v"}])
    yield second.member_epoch
    epoch = second.member_epoch - 1
    yield asks.streams_beat(a.client, a.group, "one", epoch).active_tasks
    owned = {"active_tasks": [{"subtopology_id": "0", "partitions": [0]}], "standby_tasks": [], "warmup_tasks": []}
    yield asks.streams_beat(a.client, a.group, "one", epoch, **owned).member_epoch
    yield asks.streams_beat(a.client, a.group, "two", second.member_epoch).active_tasks
    yield a.commit(10, member="two", generation=second.member_epoch)
    yield asks.streams_beat(a.client, a.group, "one", -1).error_code
    yield asks.streams_beat(a.client, a.group, "two", second.member_epoch).active_tasks
    yield asks.streams_beat(a.client, a.group, "two", -1).error_code
    yield a.delete()


def transactional_offsets(a: Asker) -> Iterator[Any]:
    body = {"transactional_id": a.group, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
    begun = a.tries(INIT, 1, body)
    yield begun.producer_epoch
    who = {"transactional_id": a.group, "producer_id": begun.producer_id, "producer_epoch": begun.producer_epoch}
    partition = {"partition_index": 0, "committed_leader_epoch": 1, "committed_metadata": "m"}
    for commits in (True, False):
        yield a.tries(ADD_OFFSETS, 3, {**who, "group_id": a.group})
        topics = [{"name": "t", "partitions": [{**partition, "committed_offset": 1_000_000_007}]}]
        member = {"generation_id": -1, "member_id": "", "group_instance_id": None}
        yield a.tries(TXN_COMMIT, 3, {**who, **member, "group_id": a.group, "topics": topics})
        yield asks.fetch(a.client, a.group, 9)
        if not commits:
            yield a.delete_offsets(0)
        yield a.tries(END, 3, {**who, "committed": commits})
        yield asks.fetch(a.client, a.group, 9)
    yield a.tries(INIT, 1, body).producer_epoch


def who_may_commit(a: Asker) -> Iterator[Any]:
    """Members, strangers and empty member ids, of every generation, in a group of each type, with and without
    members.
    """

    def everybody(member: str) -> list[Any]:
        return [
            a.commit(version, member=who, generation=generation, group_instance_id=instance)
            for version in (7, 9, 10)
            for who in ("", member, "stranger")
            for generation in (-2, -1, 0, 1, 2, 3)
            for instance in (None, "i")
        ]

    member, generation = a.joins("m1")
    yield everybody(member)
    asks.sync(a.client, a.group, member, generation, all_to=member)
    yield everybody(member)
    asks.leave(a.client, a.group, (member, None))
    yield everybody(member)
    yield a.delete()
    asks.consumer_beat(a.client, a.group, "one", 0)
    yield everybody("one")
    yield [
        asks.fetch(a.client, a.group, version, member_id=who, member_epoch=epoch)
        for version in (9, 10)
        for who, epoch in ((None, -1), ("", -1), ("one", 2), ("one", 1), ("one", 3), ("one", -1), ("stranger", 2))
    ]
    asks.consumer_beat(a.client, a.group, "one", -1)
    yield everybody("one")


def a_topic_that_is_deleted(a: Asker) -> Iterator[Any]:
    create_topic(a.server, a.group, 1)
    a.know_topic(a.group)
    yield a.commit(10, topics=("t", a.group))
    a.delete_topic(a.group)
    yield "deleted"
    yield a.delete()


def share_partitions_of_groups(a: Asker) -> Iterator[Any]:
    """Share partitions that are initialising, initialised, in deletion and deleted, before and after the call to
    the share coordinator.
    """
    member = str(uuid.UUID(int=1))

    def alter(*partitions: int, topic: str = "t") -> Any:
        offsets = [{"partition_index": index, "start_offset": 0} for index in partitions]
        topics = [{"topic_name": topic, "partitions": offsets}]
        return a.client.ask(asks.SHARE_ALTER, 0, {"group_id": a.group, "topics": topics})

    def forget(*topics: str) -> Any:
        named = [{"topic_name": topic} for topic in topics]
        return a.client.ask(asks.SHARE_DELETE, 0, {"group_id": a.group, "topics": named})

    yield forget("t")
    yield alter(0)
    yield alter(0, 1, 7)
    yield alter(0, topic="missing")
    yield asks.share_beat(a.client, a.group, member, 0, subscribed_topic_names=["t", "u"]).error_code
    yield alter(0)
    yield asks.share_beat(a.client, a.group, member, -1).error_code
    yield forget("t")
    yield forget("t")
    yield forget("missing")
    yield asks.share_beat(a.client, a.group, member, 0).error_code
    yield asks.share_beat(a.client, a.group, member, -1).error_code
    create_topic(a.server, a.group, 1)
    a.know_topic(a.group)
    assert not alter(0, topic=a.group).responses[0].partitions[0].error_code
    yield "of a new topic"
    a.delete_topic(a.group)
    yield "deleted"
    yield forget("u")
    yield a.delete()


@pytest.fixture(scope="module")
def servers(history_kafka: ReferenceKafka) -> Iterator[tuple[Server, Server]]:
    with broker(HISTORY_SETTINGS) as running:
        both = Server("kafka", history_kafka.port), Server("headrace", running.port)
        for server in both:
            wait_for_coordinators(server)
            for name, partitions in (("t", 2), ("u", 3)):
                create_topic(server, name, partitions)
        yield both


def without_intended_differences(written: list[Written], *, by: str) -> list[Written]:
    found = []
    for kind, key, value in written:
        if key[:2] == b"\0\3" and value is not None and len(value) == 17:
            value = value[:-8] + b"<hash>"
        elif key[:2] == STREAMS_GROUP and value is not None:
            value = value[:6] + b"<hash>" + value[14:]
        elif key[:2] in ASSIGNMENTS_OF_SHARE_GROUPS:
            continue
        elif key[:2] == SHARE_PARTITIONS_OF_GROUPS and value is not None:
            noted = share_groups.read_state_partition_metadata_value(value)
            assert share_groups.state_partition_metadata_value(noted) == value
            parts = (dict(sorted(part.items())) for part in (noted.initializing, noted.initialized, noted.deleting))
            value = share_groups.state_partition_metadata_value(share_groups.StatePartitionMetadata(*parts))  # type: ignore[arg-type]
        elif key[:2] == b"\0\0" and kind == "plain" and value is not None:
            read = transactions.read_transaction_log_value(value)
            # Kafka's own records round-trip byte for byte, so the test misses nothing that only Kafka writes.
            assert by == "Headrace" or transactions.transaction_log_value(read, flexible=True) == value
            same = {"producer_id": 0, "previous_producer_id": 0 if read.previous_producer_id == read.producer_id else 1}
            read = replace(read, **same, last_producer_epoch=-1)  # type: ignore[arg-type]
            value = transactions.transaction_log_value(read, flexible=True)
        found.append((kind, key, value))
    return sorted(set(found), key=repr)


@pytest.mark.parametrize(
    "scenario",
    [
        offsets_without_a_group,
        classic_members,
        members_of_the_consumer_protocol,
        members_of_the_streams_protocol,
        transactional_offsets,
        who_may_commit,
        a_topic_that_is_deleted,
        share_partitions_of_groups,
    ],
    ids=lambda scenario: scenario.__name__,
)
def test_internal_records_equal_kafkas_byte_for_byte(servers: tuple[Server, Server], scenario: Scenario) -> None:
    group = unique(scenario.__name__)
    kafka, ours = (Asker(server, group) for server in servers)
    for step, answers in enumerate(zip(scenario(kafka), scenario(ours), strict=True)):
        told = [masked(asker.client.told(answer)) for asker, answer in zip((kafka, ours), answers, strict=True)]
        assert not differences(*told), f"step {step}"
        for topic in (GROUPS, TRANSACTIONS):
            theirs, mine = both_wrote(kafka.logs[topic], ours.logs[topic], without_intended_differences)
            assert mine == theirs, f"{topic} after step {step}"
    for asker in (kafka, ours):
        asker.client.close()
