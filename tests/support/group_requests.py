"""Raw requests about groups: one connection, and one function for each request with its usual values."""

from __future__ import annotations

import dataclasses
import socket
import struct
import uuid
from typing import Any

from headrace.coordinators.group.core.classic.embedded_protocol import (
    Subscription,
    write_assignment,
    write_subscription,
)
from headrace.wire import codec
from tests.support.clock import wait_for

FIND, JOIN, SYNC, BEAT, LEAVE, COMMIT, FETCH = 10, 11, 14, 12, 13, 8, 9
DESCRIBE, LIST, DELETE, OFFSET_DELETE, CONSUMER_BEAT, CONSUMER_DESCRIBE = 15, 16, 42, 47, 68, 69
SHARE_BEAT, SHARE_DESCRIBE, SHARE_FETCH, SHARE_ACK, SHARE_OFFSETS, SHARE_ALTER, SHARE_DELETE = (
    76,
    77,
    78,
    79,
    90,
    91,
    92,
)
STREAMS_BEAT, STREAMS_DESCRIBE = 88, 89
UNKNOWN_MEMBER_ID = 25
# Messages, times and values that identify one broker are not compared.
NOT_COMPARED = {"throttle_time", "error_message", "host", "port", "client_host", "acknowledge_error_message"}


class Client:
    """One connection, and names for the values that a broker generates: member ids, topic ids."""

    def __init__(self, bootstrap: str) -> None:
        host, port = bootstrap.split(":")
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        self.names: dict[Any, str] = {}
        self.topic_ids: dict[str, uuid.UUID] = {}

    def send(self, api: int, version: int, body: dict[str, Any]) -> None:
        self._socket.sendall(codec.encode_request(api, version, 1, "asker", body))

    def receive(self, api: int, version: int) -> Any:
        (length,) = struct.unpack(">i", self._exactly(4))
        return codec.read_response(api, version, self._exactly(length))[1]

    def _exactly(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            part = self._socket.recv(length - len(data))
            assert part, "the broker closed the connection"
            data += part
        return data

    def ask(self, api: int, version: int, body: dict[str, Any]) -> Any:
        self.send(api, version, body)
        return self.receive(api, version)

    def told(self, answer: Any) -> Any:
        """The answer with names that both brokers share."""
        if dataclasses.is_dataclass(answer) and not isinstance(answer, type):
            return {
                f.name: "<node>" if f.name in ("node_id", "leader_id") else self.told(getattr(answer, f.name))
                for f in dataclasses.fields(answer)
                if f.name not in NOT_COMPARED
            }
        if isinstance(answer, tuple | list):
            return sorted((self.told(each) for each in answer), key=repr)
        if answer in self.names:
            return self.names[answer]
        if isinstance(answer, int) and not isinstance(answer, bool):
            return int(answer)
        if isinstance(answer, str):
            for made_up, name in self.names.items():
                if isinstance(made_up, str) and made_up and made_up in answer:
                    answer = answer.replace(made_up, name)
        return answer

    def close(self) -> None:
        self._socket.close()


def patient_find(client: Client, group: str) -> None:
    """Waits until the group's coordinator exists and has loaded."""

    def is_loaded() -> bool:
        found = client.ask(FIND, 4, {"key_type": 0, "coordinator_keys": [group]}).coordinators[0]
        return not found.error_code and int(beat(client, group, "nobody", 0).error_code) == UNKNOWN_MEMBER_ID

    wait_for(is_loaded, f"the coordinator of {group}")


def join(client: Client, group: str, version: int = 5, **changes: Any) -> Any:
    body = {
        "group_id": group,
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "member_id": "",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": write_subscription(Subscription(1, ("t",), b""))}],
        "reason": None,
    }
    return client.ask(JOIN, version, {**body, **changes})


def joined(client: Client, group: str, name: str = "<m>", **changes: Any) -> tuple[str, int]:
    """A member of a generation that has all partitions. Returns (id, generation)."""
    reply = join(client, group, **changes)
    if int(reply.error_code) == 79:
        reply = join(client, group, **{**changes, "member_id": reply.member_id})
    client.names[reply.member_id] = name
    sync(client, group, reply.member_id, reply.generation_id, all_to=reply.member_id)
    return reply.member_id, reply.generation_id


def sync(
    client: Client, group: str, member: str, generation: int, version: int = 5, all_to: str = "", **more: Any
) -> Any:
    given = [{"member_id": all_to, "assignment": write_assignment((("t", (0, 1)),), 1)}] if all_to else []
    body = {
        "group_id": group,
        "generation_id": generation,
        "member_id": member,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": given,
    }
    return client.ask(SYNC, version, {**body, **more})


def beat(
    client: Client, group: str, member: str, generation: int, instance: str | None = None, version: int = 4
) -> Any:
    body = {"group_id": group, "generation_id": generation, "member_id": member, "group_instance_id": instance}
    return client.ask(BEAT, version, body)


def leave(client: Client, group: str, *members: tuple[str, str | None], version: int = 5) -> Any:
    named = [{"member_id": m, "group_instance_id": i, "reason": None} for m, i in members]
    return client.ask(LEAVE, version, {"group_id": group, "member_id": members[0][0], "members": named})


def commit(
    client: Client,
    group: str,
    member: str = "",
    generation: int = -1,
    version: int = 9,
    metadata: str = "",
    **more: Any,
) -> Any:
    partition = {
        "partition_index": 0,
        "committed_offset": 5,
        "committed_leader_epoch": 0,
        "committed_metadata": metadata,
    }
    topics = [
        {"name": name, "topic_id": client.topic_ids.get(name, uuid.UUID(int=9)), "partitions": [partition]}
        for name in more.pop("topics", ("t",))
    ]
    body = {
        "group_id": group,
        "generation_id_or_member_epoch": generation,
        "member_id": member,
        "group_instance_id": None,
        "retention_time": -1,
        "topics": topics,
    }
    return client.ask(COMMIT, version, {**body, **more})


def fetch(client: Client, group: str, version: int, names: tuple[str, ...] | None = ("t",), **more: Any) -> Any:
    topics = (
        None
        if names is None
        else [
            {"name": n, "topic_id": client.topic_ids.get(n, uuid.UUID(int=9)), "partition_indexes": [0, 1]}
            for n in names
        ]
    )
    asked = {"group_id": group, "member_id": None, "member_epoch": -1, "topics": topics, **more}
    if version >= 8:
        return client.ask(FETCH, version, {"groups": [asked], "require_stable": False})
    return client.ask(FETCH, version, {**asked, "require_stable": False})


def consumer_beat(client: Client, group: str, member: str, epoch: int, version: int = 1, **changes: Any) -> Any:
    body: dict[str, Any] = {
        "group_id": group,
        "member_id": member,
        "member_epoch": epoch,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": 10_000 if epoch == 0 else -1,
        "subscribed_topic_names": ["t"] if epoch == 0 else None,
        "subscribed_topic_regex": None,
        "server_assignor": None,
        "topic_partitions": [] if epoch == 0 else None,
    }
    return client.ask(CONSUMER_BEAT, version, {**body, **changes})


def share_beat(client: Client, group: str, member: str, epoch: int, **changes: Any) -> Any:
    names = ["t"] if epoch == 0 else None
    body = {
        "group_id": group,
        "member_id": member,
        "member_epoch": epoch,
        "rack_id": None,
        "subscribed_topic_names": names,
    }
    return client.ask(SHARE_BEAT, 1, {**body, **changes})


def share_fetch(client: Client, group: str, member: str, epoch: int, **changes: Any) -> Any:
    body = {
        "group_id": group,
        "member_id": member,
        "share_session_epoch": epoch,
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": 1_000,
        "max_records": 10,
        "batch_size": 10,
        "topics": [],
        "forgotten_topics_data": [],
    }
    return client.ask(SHARE_FETCH, 2, {**body, **changes})


def streams_beat(client: Client, group: str, member: str, epoch: int, **changes: Any) -> Any:
    """A member of a streams application with one stateful subtopology that reads `t`."""
    changelog = {"name": f"{group}-store-changelog", "partitions": 0, "replication_factor": 0, "topic_configs": []}
    subtopology = {
        "subtopology_id": "0",
        "source_topics": ["t"],
        "source_topic_regex": [],
        "state_changelog_topics": [changelog],
        "repartition_sink_topics": [],
        "repartition_source_topics": [],
        "copartition_groups": [],
    }
    joins = epoch == 0
    body = {
        "group_id": group,
        "member_id": member,
        "member_epoch": epoch,
        "endpoint_information_epoch": 0,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": 60_000 if joins else -1,
        "topology": {"epoch": 3, "subtopologies": [subtopology]} if joins else None,
        "active_tasks": [] if joins else None,
        "standby_tasks": [] if joins else None,
        "warmup_tasks": [] if joins else None,
        "process_id": f"process of {member}" if joins else None,
        "user_endpoint": None,
        "client_tags": [] if joins else None,
        "task_offsets": None,
        "task_end_offsets": None,
        "shutdown_application": False,
    }
    return client.ask(STREAMS_BEAT, 0, {**body, **changes})
