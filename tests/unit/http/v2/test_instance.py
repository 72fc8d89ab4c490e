"""Consumer instances of the HTTP API beside a coordinator that refuses commits, or fences a member."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable, Mapping
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.client.cluster_client import ClusterClient
from headrace.client.record_fetch import FetchedRecords
from headrace.client.security import ClientSecurity
from headrace.http.v2 import instance as instance_module
from headrace.http.v2.consumers import read
from headrace.http.v2.instance import ConsumerInstance, InstanceSettings
from headrace.http.v2.instances import ConsumerInstances
from headrace.kernel.errors import ErrorCode
from headrace.kernel.ids import TopicPartition
from headrace.records.builder import Record
from headrace.web.login import Brokers, Caller
from headrace.wire.apis import ApiKey

TOPIC_ID = uuid.UUID(int=7)
FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Coordinator:
    """Answers a member of the group. `assigned` are the partitions of topic `orders` that it gives to the member."""

    def __init__(self) -> None:
        self.assigned = [0]
        self.epoch = 0
        self.commit_error = ErrorCode.none
        self.beat_error = ErrorCode.none
        self.committed: dict[TopicPartition, int] = {}
        self.left = False
        self.is_assigning = True
        self.is_unknown_for = 0
        self.metadata = SimpleNamespace(topics={})
        self.is_closed = False

    async def refresh(self, _: object) -> None:
        """The broker does not know the topic yet in the first answers."""
        self.is_unknown_for -= 1
        self.metadata.topics = {} if self.is_unknown_for >= 0 else {"orders": SimpleNamespace(topic_id=TOPIC_ID)}

    async def close(self) -> None:
        self.is_closed = True

    async def to_coordinator(self, _: str, api_key: ApiKey, body: Mapping[str, Any], **__: object) -> SimpleNamespace:
        return self._commit(body) if api_key is ApiKey.OFFSET_COMMIT else self._beat(body)

    def _commit(self, body: Mapping[str, Any]) -> SimpleNamespace:
        rows = [
            (TopicPartition(topic["name"], one["partition_index"]), one["committed_offset"])
            for topic in body["topics"]
            for one in topic["partitions"]
        ]
        if self.commit_error is ErrorCode.none:
            self.committed |= dict(rows)
        results = [SimpleNamespace(partition_index=one.partition, error_code=self.commit_error) for one, _ in rows]
        return SimpleNamespace(topics=[SimpleNamespace(name="orders", partitions=results)])

    def _beat(self, body: Mapping[str, Any]) -> SimpleNamespace:
        assert not self.left, "a member that has left sends a heartbeat"
        error, self.beat_error = self.beat_error, ErrorCode.none
        self.left = body["member_epoch"] == -1
        self.epoch += body["member_epoch"] == 0
        given = SimpleNamespace(topic_id=TOPIC_ID, partitions=list(self.assigned))
        is_sent = self.is_assigning or body["member_epoch"] == 0
        return SimpleNamespace(
            error_code=int(error),
            error_message=None,
            member_epoch=self.epoch,
            heartbeat_interval=timedelta(milliseconds=5),
            assignment=SimpleNamespace(topic_partitions=[given]) if is_sent else None,
        )


@pytest.fixture
def coordinator(monkeypatch: pytest.MonkeyPatch) -> Coordinator:
    """Partitions that have one record more at each fetch."""
    made = Coordinator()

    async def fetched(_: object, positions: Mapping[TopicPartition, int], **__: object) -> Mapping[TopicPartition, Any]:
        return {one: FetchedRecords([Record(None, b"x", offset=at)], at + 1, at + 1) for one, at in positions.items()}

    async def committed(*_: object) -> dict[TopicPartition, int]:
        return dict(made.committed)

    async def first(_: object, partitions: Iterable[TopicPartition], *__: object) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    monkeypatch.setattr(instance_module, "fetch_records", fetched)
    monkeypatch.setattr(instance_module, "committed_offsets", committed)
    monkeypatch.setattr(instance_module, "offset_at", first)
    monkeypatch.setattr("headrace.http.v2.group_member._PAUSE_S", 0.005)
    return made


def subscribed(coordinator: Coordinator) -> ConsumerInstance:
    client = cast("ClusterClient", coordinator)
    return ConsumerInstance(
        InstanceSettings("team", "one", "binary", "earliest", True, 1000), "User:ann", client, client
    )


async def until(condition: Any) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 (nobody announces it)
            await asyncio.sleep(0.002)


class OneCall:
    """GET …/records of this instance."""

    def __init__(self, instance: ConsumerInstance) -> None:
        self.instance = instance
        self.caller = None
        self.service = SimpleNamespace(instances=self, schemas=lambda _: self)
        self.request = SimpleNamespace(headers={})

    def path(self, name: str) -> str:
        return name

    def integer(self, _: str, default: int, **__: object) -> int:
        return default

    def used(self, *_: object) -> OneCall:
        return self

    async def __aenter__(self) -> ConsumerInstance:
        return self.instance

    async def __aexit__(self, *_: object) -> None:
        pass


def test_records_are_answered_if_their_automatic_commit_fails(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the caller never sees them: the instance has passed them."""
    monkeypatch.setattr("headrace.http.v2.consumers.accepted_format", lambda _: None)
    monkeypatch.setattr("headrace.http.v2.consumers.shown_v2", lambda _, record, *__: record.offset)

    async def answers() -> list[bytes]:
        instance = subscribed(coordinator)
        await instance.subscribe(["orders"], None)
        found = []
        for error in (ErrorCode.none, ErrorCode.stale_member_epoch, ErrorCode.none):
            coordinator.commit_error = error
            found.append(bytes((await read(cast("Any", OneCall(instance)))).body))
        await instance.close()
        return found

    assert asyncio.run(answers()) == [b"[0]", b"[1]", b"[2]"]
    assert coordinator.committed == {FIRST: 3}


def test_an_instance_leaves_its_group_if_its_last_commit_fails(coordinator: Coordinator) -> None:
    """Else its member sends heartbeats for ever, and keeps its partitions from the others."""

    async def closed() -> None:
        instance = subscribed(coordinator)
        await instance.subscribe(["orders"], None)
        instance.advance(await instance.read(1000, 1))
        coordinator.commit_error = ErrorCode.unknown_topic_or_partition
        await instance.close()
        await asyncio.sleep(0.05)

    asyncio.run(closed())
    assert coordinator.left
    assert coordinator.is_closed


def test_a_member_stays_if_the_commit_of_a_partition_that_it_gives_up_fails(coordinator: Coordinator) -> None:
    async def next_owned() -> set[TopicPartition]:
        coordinator.assigned = [0, 1]
        instance = subscribed(coordinator)
        await instance.subscribe(["orders"], None)
        instance.advance(await instance.read(1000, 1))
        coordinator.commit_error = ErrorCode.unknown_topic_or_partition
        coordinator.assigned = [1]
        await until(lambda: instance.partitions == {SECOND})
        await instance.read(1000, 1)
        owned = set(instance.partitions)
        await instance.close()
        return owned

    assert asyncio.run(next_owned()) == {SECOND}


def test_a_fenced_member_does_not_commit_where_it_stopped_before(coordinator: Coordinator) -> None:
    """While it was fenced, other members went on with its partitions."""

    async def rejoined(again: list[int]) -> dict[TopicPartition, int]:
        coordinator.assigned = [0, 1]
        coordinator.committed.clear()
        instance = subscribed(coordinator)
        await instance.subscribe(["orders"], None)
        instance.advance(await instance.read(1000, 1))
        coordinator.committed = {FIRST: 500, SECOND: 700}
        coordinator.assigned, epoch = again, coordinator.epoch
        coordinator.beat_error = ErrorCode.fenced_member_epoch
        await until(lambda: coordinator.epoch > epoch and len(instance.partitions) == len(again))
        instance.advance(await instance.read(1000, 1))
        await instance.commit(None)
        return dict(coordinator.committed)

    assert asyncio.run(rejoined([0])) == {FIRST: 501, SECOND: 700}
    assert asyncio.run(rejoined([0, 1])) == {FIRST: 501, SECOND: 701}


def test_an_assigned_topic_is_read_when_its_name_becomes_known(coordinator: Coordinator) -> None:
    """The coordinator sends an assignment once. The broker that is asked for names may learn of the topic later."""
    coordinator.is_assigning = False
    coordinator.is_unknown_for = 2

    async def offsets() -> list[int]:
        instance = subscribed(coordinator)
        await instance.subscribe(["orders"], None)
        assert instance.partitions == set()
        await until(lambda: instance.partitions == {FIRST})
        found = [record.offset for one in (await instance.read(1000, 1)).values() for record in one.records]
        await instance.close()
        return found

    assert asyncio.run(offsets()) == [0]


def test_an_instance_logs_in_with_the_token_of_the_last_request() -> None:
    """The token that created it ends after some minutes, and with it the sessions of its connections."""
    brokers = Brokers("127.0.0.1:1", ClientSecurity("SASL_PLAINTEXT", "OAUTHBEARER"))
    clients: list[ClusterClient] = []

    async def opened(caller: Caller) -> ClusterClient:
        clients.append(ClusterClient(brokers.bootstrap, security=caller.security))
        return clients[-1]

    def with_token(number: int) -> Caller:
        security = ClientSecurity("SASL_PLAINTEXT", "OAUTHBEARER", "ann", f"token {number}")
        return Caller("User:ann", security)

    async def tokens() -> list[str]:
        instances = ConsumerInstances(opened)
        await instances.create(with_token(1), InstanceSettings("team", "one", "binary", "earliest", False, 1000))
        async with instances.used(with_token(2), "team", "one"):
            return [client.security.password for client in clients if client.security is not None]

    assert asyncio.run(tokens()) == ["token 2", "token 2"]
