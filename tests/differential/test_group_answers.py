"""Valid and invalid group requests in every version: the same requests to Apache Kafka and to Headrace."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.testing import broker
from tests.differential.conftest import HISTORY_SETTINGS
from tests.differential.histories import Side
from tests.differential.test_group_histories import prepare
from tests.reference.kafka import ReferenceKafka
from tests.support.group_requests import (
    CONSUMER_DESCRIBE,
    DELETE,
    DESCRIBE,
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


@pytest.fixture(scope="module")
def clients(history_kafka: ReferenceKafka) -> Iterator[tuple[str, str]]:
    with broker(HISTORY_SETTINGS) as ours:
        for port in (history_kafka.port, ours.port):
            prepare(Side("", port))
        yield history_kafka.bootstrap, ours.bootstrap


def compare(clients: tuple[str, str], script: Any) -> None:
    """`script` takes a client and yields the answers."""
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


def test_join_group_answers(clients: tuple[str, str]) -> None:
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


def test_sync_heartbeat_and_leave_group_answers(clients: tuple[str, str]) -> None:
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


def test_offset_commit_and_fetch_answers(clients: tuple[str, str]) -> None:
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


def test_describe_and_list_groups_answers(clients: tuple[str, str]) -> None:
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


def test_consumer_group_heartbeat_answers(clients: tuple[str, str]) -> None:
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


def test_consumer_group_answers_during_reconciliation(clients: tuple[str, str]) -> None:
    """Cases that random histories found: descriptions of members that revoke partitions, equal votes, static ids."""

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


def test_share_group_answers(clients: tuple[str, str]) -> None:
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
