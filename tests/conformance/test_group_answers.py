"""Group requests, good and bad, in every version: asked of Apache Kafka and of Headrace in the same words."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.testing import broker
from tests.reference import kafka as reference
from tests.support.group_requests import (
    BEAT,
    CONSUMER_DESCRIBE,
    DELETE,
    DESCRIBE,
    FIND,
    LIST,
    OFFSET_DELETE,
    SHARE_ACK,
    SHARE_ALTER,
    SHARE_DELETE,
    SHARE_DESCRIBE,
    SHARE_OFFSETS,
    Client,
    beat,
    commit,
    consumer_beat,
    fetch,
    join,
    joined,
    leave,
    share_beat,
    share_fetch,
    sync,
)

pytestmark = pytest.mark.needs("kafka")

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
    "group.max.size": "3",
    "group.consumer.max.size": "3",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
}
RETRIABLE = {14, 15, 16}


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    apache = reference.ReferenceKafka(tmp_path_factory.mktemp("kafka"), settings=SETTINGS, heap="256m")
    with apache, broker(settings=SETTINGS) as ours:
        for bootstrap in (apache.bootstrap, ours.bootstrap):
            client = Client(bootstrap)
            topics = [
                {"name": name, "num_partitions": 2, "replication_factor": 1, "assignments": [], "configs": []}
                for name in ("t", "u")
            ]
            client.ask(19, 5, {"topics": topics, "timeout": 20_000, "validate_only": False})
            deadline = time.monotonic() + 60
            for group in [f"g{n}" for n in range(60)]:
                while True:  # every coordinator is found and loaded, so that no answer is "ask again"
                    found = client.ask(FIND, 4, {"key_type": 0, "coordinator_keys": [group]}).coordinators[0]
                    beat = {"group_id": group, "generation_id": 0, "member_id": "x", "group_instance_id": None}
                    if not found.error_code and int(client.ask(BEAT, 3, beat).error_code) not in RETRIABLE:
                        break
                    assert time.monotonic() < deadline
                    time.sleep(0.1)
            client.close()
        yield apache.bootstrap, ours.bootstrap


def compare(clients: tuple[str, str], script: Any) -> None:
    """`script` takes a client and yields what it was told."""
    transcripts = []
    for bootstrap in clients:
        client = Client(bootstrap)
        metadata = client.ask(3, 12, {"topics": None, "allow_auto_topic_creation": False})
        for topic in metadata.topics:
            client.names[topic.topic_id] = f"<id of {topic.name}>"
        client.topic_ids = {topic.name: topic.topic_id for topic in metadata.topics}
        transcripts.append([client.told(answer) for answer in script(client)])
        client.close()
    theirs, ours = transcripts
    differing = [
        f"answer {at}: Headrace says\n{our}\nand Apache Kafka\n{their}"
        for at, (their, our) in enumerate(zip(theirs, ours, strict=True), 1)
        if our != their
    ]
    assert not differing, "\n\n".join(differing)


def test_joining(clients: tuple[str, str]) -> None:
    def script(client: Client) -> Iterator[Any]:
        for version in range(10):
            group = f"g{version}"
            yield join(client, "", version)
            yield join(client, group, version, session_timeout=1)
            yield join(client, group, version, session_timeout=10_000_000)
            yield join(client, group, version, member_id="someone")
            yield join(client, group, version, protocols=[])
            yield join(client, group, version, protocol_type="")
            member, generation = joined(client, group)
            yield join(client, group, version, member_id="someone")
            yield join(client, group, version, protocol_type="connect")
            yield join(client, group, version, protocols=[{"name": "other", "metadata": b""}])
            yield beat(client, group, member, generation)
            yield leave(client, group, (member, None))
            if version >= 5:
                reply = join(client, group, version, group_instance_id="i")
                client.names[reply.member_id] = "<static>"
                yield reply
                yield sync(
                    client, group, reply.member_id, reply.generation_id, all_to=reply.member_id, group_instance_id="i"
                )
                again = join(client, group, version, group_instance_id="i")
                client.names[again.member_id] = "<static again>"
                yield again
                yield beat(client, group, reply.member_id, reply.generation_id, "i")
                yield beat(client, group, again.member_id, again.generation_id, "i")
                yield leave(client, group, (reply.member_id, "i"))
                yield leave(client, group, ("", "nobody"), ("", "i"))

    compare(clients, script)


def test_syncing_beating_and_leaving(clients: tuple[str, str]) -> None:
    def script(client: Client) -> Iterator[Any]:
        member, generation = joined(client, "g10")
        for version in range(6):
            yield sync(client, "g10", member, generation, version)
            yield sync(client, "g10", member, generation + 1, version)
            yield sync(client, "g10", "nobody", generation, version)
            yield sync(client, "", member, generation, version)
            yield sync(client, "unknown", member, generation, version)
        yield sync(client, "g10", member, generation, protocol_name="other")
        yield sync(client, "g10", member, generation, protocol_type="other")
        yield sync(client, "g10", member, generation, group_instance_id="i")
        for version in range(5):
            yield beat(client, "g10", member, generation, version=version)
            yield beat(client, "g10", member, generation - 1, version=version)
            yield beat(client, "g10", "nobody", generation, version=version)
            yield beat(client, "", member, generation, version=version)
            yield beat(client, "unknown", member, generation, version=version)
        for version in range(6):
            yield leave(client, "g10", ("nobody", None), version=version)
            yield leave(client, "", ("nobody", None), version=version)
            yield leave(client, "unknown", ("nobody", None), version=version)
        yield leave(client, "g10", ("nobody", None), (member, None), ("", "i"))
        yield beat(client, "g10", member, generation)

    compare(clients, script)


def test_offsets(clients: tuple[str, str]) -> None:
    def script(client: Client) -> Iterator[Any]:
        for version in range(1, 11):
            yield fetch(client, "nobody", version)
            yield fetch(client, "nobody", version, ("t", "missing"))
            if version >= 2:
                yield fetch(client, "nobody", version, None)
        for version in range(2, 11):
            group = f"g{10 + version}"
            yield commit(client, group, version=version)
            yield commit(client, group, version=version, topics=("t", "missing"))
            yield commit(client, group, version=version, metadata="x" * 4_096)
            yield commit(client, group, version=version, metadata="x" * 4_097)
            yield commit(client, group, "someone", 3, version=version)
            yield commit(client, "unknown", "someone", 3, version=version)
            for fetched in (1, 5, 9, 10):
                yield fetch(client, group, fetched, ("t", "u"))
            member, generation = joined(client, group)
            yield commit(client, group, version=version)
            yield commit(client, group, member, generation + 1, version=version)
            yield commit(client, group, "nobody", generation, version=version)
            yield commit(client, group, member, generation, version=version)
            yield fetch(client, group, 9, member_id="someone", member_epoch=4)
            partitions = [{"partition_index": 0}, {"partition_index": 7}]
            for name in ("t", "u", "missing"):
                body = {"group_id": group, "topics": [{"name": name, "partitions": partitions}]}
                yield client.ask(OFFSET_DELETE, 0, body)
            yield client.ask(DELETE, 2, {"groups_names": [group, "unknown", ""]})
            yield leave(client, group, (member, None))
            body = {"group_id": group, "topics": [{"name": "t", "partitions": partitions}]}
            yield client.ask(OFFSET_DELETE, 0, body)
            yield fetch(client, group, 9, None)
            yield client.ask(DELETE, 1, {"groups_names": [group]})
            yield client.ask(OFFSET_DELETE, 0, {"group_id": group, "topics": []})

    compare(clients, script)


def test_describing_and_listing(clients: tuple[str, str]) -> None:
    def script(client: Client) -> Iterator[Any]:
        member, _ = joined(client, "g30")
        commit(client, "g31")
        for version in range(7):
            for operations in (False, True) if version >= 3 else (False,):
                body = {"groups": ["g30", "g31", "unknown", ""], "include_authorized_operations": operations}
                yield client.ask(DESCRIBE, version, body)
        for version, states, types in (
            (5, ["Stable"], []),
            (5, ["stable", "Empty"], ["classic"]),
            (5, [], ["consumer"]),
            (5, ["Nonsense"], []),
            (4, ["Stable"], []),
        ):
            answer = client.ask(LIST, version, {"states_filter": states, "types_filter": types})
            listed = [g for g in answer.groups if g.group_id in ("g30", "g31")]
            yield int(answer.error_code)
            yield listed
        yield leave(client, "g30", (member, None))

    compare(clients, script)


def test_consumer_groups(clients: tuple[str, str]) -> None:
    def script(client: Client) -> Iterator[Any]:
        group, t = "g40", client.topic_ids["t"]
        yield consumer_beat(client, "", "a", 0)
        yield consumer_beat(client, group, "", 0)
        yield consumer_beat(client, group, "a", 3)
        yield consumer_beat(client, group, "a", -1)
        yield consumer_beat(client, group, "a", -2)
        yield consumer_beat(client, group, "a", -5)
        yield consumer_beat(client, group, "a", 0, instance_id="")
        yield consumer_beat(client, group, "a", 0, rack_id="")
        yield consumer_beat(client, group, "a", 0, rebalance_timeout=-1)
        yield consumer_beat(client, group, "a", 0, topic_partitions=None)
        yield consumer_beat(client, group, "a", 0, topic_partitions=[{"topic_id": t, "partitions": [0]}])
        yield consumer_beat(client, group, "a", 0, subscribed_topic_names=None)
        yield consumer_beat(client, group, "a", 0, subscribed_topic_names=[])
        yield consumer_beat(client, group, "a", 0, subscribed_topic_names=None, subscribed_topic_regex="(")
        yield consumer_beat(client, group, "a", 0, server_assignor="mine")
        yield consumer_beat(client, group, "a", 0)
        yield consumer_beat(client, group, "a", 1)
        yield consumer_beat(client, group, "a", 7)
        yield consumer_beat(client, group, "b", 1)
        yield consumer_beat(client, group, "a", 1, topic_partitions=[{"topic_id": t, "partitions": [0, 1]}])
        for version in (8, 9, 10):
            yield commit(client, group, "a", 1, version=version)
            yield commit(client, group, "a", 2, version=version)
            yield commit(client, group, "b", 1, version=version)
            yield commit(client, group, version=version)
        yield fetch(client, group, 9, member_id="a", member_epoch=1)
        yield fetch(client, group, 9, member_id="a", member_epoch=2)
        yield fetch(client, group, 9, member_id="b", member_epoch=1)
        yield join(client, group, protocol_type="connect")
        yield beat(client, group, "a", 1)
        yield leave(client, group, ("a", None))
        yield sync(client, group, "a", 1)
        for version in (0, 1):
            body = {"group_ids": [group, "unknown", ""], "include_authorized_operations": False}
            yield client.ask(CONSUMER_DESCRIBE, version, body)
        yield client.ask(DESCRIBE, 6, {"groups": [group], "include_authorized_operations": False})
        yield client.ask(DELETE, 2, {"groups_names": [group]})
        yield consumer_beat(client, group, "a", -1)
        yield consumer_beat(client, group, "a", -1)
        yield consumer_beat(client, group, "s", 0, instance_id="i")
        yield consumer_beat(client, group, "s2", 0, instance_id="i")
        yield consumer_beat(client, group, "s2", 1, instance_id="i")
        yield consumer_beat(client, group, "s", -2, instance_id="i")
        yield consumer_beat(client, group, "s2", 0, instance_id="i")
        yield consumer_beat(client, group, "s", -1, instance_id="i")
        yield consumer_beat(client, group, "s2", -1, instance_id="i")
        yield client.ask(DELETE, 2, {"groups_names": [group]})

    compare(clients, script)


def test_members_of_consumer_groups_on_their_way(clients: tuple[str, str]) -> None:
    """What random histories found: describing a member that is giving something up, votes that are even, static ids."""

    def script(client: Client) -> Iterator[Any]:
        group, described = "g45", {"group_ids": ["g45"], "include_authorized_operations": False}
        owned = [{"topic_id": client.topic_ids["t"], "partitions": [0, 1]}]
        yield consumer_beat(client, group, "a", 0, server_assignor="range")
        yield client.ask(CONSUMER_DESCRIBE, 1, described)
        yield consumer_beat(client, group, "b", 0, server_assignor="uniform")
        yield client.ask(CONSUMER_DESCRIBE, 1, described)
        yield consumer_beat(client, group, "a", 2, topic_partitions=owned)
        yield client.ask(CONSUMER_DESCRIBE, 1, described)
        yield consumer_beat(client, group, "b", 3)
        owned[0]["partitions"] = [0]
        yield consumer_beat(client, group, "a", 2, topic_partitions=owned)
        yield consumer_beat(client, group, "b", 3)
        yield client.ask(CONSUMER_DESCRIBE, 1, described)
        yield consumer_beat(client, group, "s", 0, instance_id="i")
        yield consumer_beat(client, group, "s", 0, instance_id="i")
        yield consumer_beat(client, group, "s", -2, instance_id="i")
        yield consumer_beat(client, group, "s", 0, instance_id="i")
        yield join(client, group, member_id="a", protocol_type="connect")
        yield join(client, group, member_id="nobody", group_instance_id="i")
        yield consumer_beat(client, group, "b", -1)
        yield leave(client, group, ("", "i"), ("", "nobody"), ("a", None))
        yield client.ask(CONSUMER_DESCRIBE, 1, described)

    compare(clients, script)


def test_share_groups(clients: tuple[str, str]) -> None:
    def script(client: Client) -> Iterator[Any]:
        group, member = "g50", str(uuid.UUID(int=5))
        yield share_beat(client, "", member, 0)
        yield share_beat(client, group, "", 0)
        yield share_beat(client, group, member, 3)
        yield share_beat(client, group, member, -1)
        yield share_beat(client, group, member, -2)
        yield share_beat(client, group, member, 0, rack_id="")
        yield share_beat(client, group, member, 0, subscribed_topic_names=None)
        yield share_beat(client, group, member, 0, subscribed_topic_names=["missing"])
        yield share_beat(client, group, member, 5)
        yield share_beat(client, group, "other", 1)
        yield int(join(client, group).error_code)
        yield int(consumer_beat(client, group, "a", 0).error_code)
        yield commit(client, group)
        yield fetch(client, group, 9)
        yield client.ask(DELETE, 2, {"groups_names": [group]})
        yield client.ask(SHARE_DESCRIBE, 1, {"group_ids": ["unknown", ""], "include_authorized_operations": False})
        yield client.ask(SHARE_OFFSETS, 0, {"groups": [{"group_id": "unknown", "topics": None}]})
        for name in ("t", "missing"):
            partitions = [{"partition_index": 0, "start_offset": 3}, {"partition_index": 9, "start_offset": 3}]
            for asked in ("unknown", group, ""):
                topics = [{"topic_name": name, "partitions": partitions}]
                yield client.ask(SHARE_ALTER, 0, {"group_id": asked, "topics": topics})
                yield client.ask(SHARE_DELETE, 0, {"group_id": asked, "topics": [{"topic_name": name}]})
        yield share_fetch(client, group, member, 3)
        yield share_fetch(client, group, member, -1)
        acknowledge = {"group_id": group, "member_id": member, "topics": [], "is_renew_ack": False}
        yield client.ask(SHARE_ACK, 2, {**acknowledge, "share_session_epoch": 0})
        yield client.ask(SHARE_ACK, 2, {**acknowledge, "share_session_epoch": 4})
        yield share_beat(client, group, member, -1)
        yield client.ask(SHARE_ALTER, 0, {"group_id": "unknown", "topics": []})
        yield client.ask(SHARE_DELETE, 0, {"group_id": "unknown", "topics": []})
        yield client.ask(DELETE, 2, {"groups_names": [group]})

    compare(clients, script)


def test_finding_coordinators(clients: tuple[str, str]) -> None:
    def script(client: Client) -> Iterator[Any]:
        for version in range(7):
            for kind in (0, 1, 2, 9) if version >= 1 else (0,):
                if version >= 4:
                    answer = client.ask(FIND, version, {"key_type": kind, "coordinator_keys": ["k"]})
                    yield int(answer.coordinators[0].error_code) if kind not in (1, 2) else None
                elif kind == 0:
                    yield int(client.ask(FIND, version, {"key": "k", "key_type": kind}).error_code)

    compare(clients, script)
