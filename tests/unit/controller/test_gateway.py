"""A request for the controller may arrive at any broker, which forwards it and returns the controller's answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from headrace.client.connection import Connection
from headrace.cluster.core.losses import ReplicaLosses
from headrace.controller.core.topics import NewTopic
from headrace.kernel.errors import ErrorCode
from headrace.testing import RunningBroker, broker
from headrace.wire import codec
from tests.support.clock import wait_for
from tests.support.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.needs("zookeeper")

CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS, INCREMENTAL, ENVELOPE, HEARTBEAT = 19, 20, 37, 44, 58, 63
NONE = ErrorCode.none


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningBroker, RunningBroker]]:
    """(the controller, the other one)"""
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as server:
        settings = {"zookeeper.connect": server.connect, "offsets.topic.replication.factor": "1"}
        disks = tmp_path_factory.mktemp("disks")
        two_disks = {"log.dirs": f"{disks / 'a'},{disks / 'b'}"}
        with (
            broker({**settings, "broker.id": "1"}) as first,
            broker({**settings, **two_disks, "broker.id": "2"}) as second,
        ):
            yield first, second


def on(running: RunningBroker, use: Callable[[Connection], Awaitable[None]]) -> None:
    async def connected() -> None:
        connection = await Connection.open("127.0.0.1", running.port, timeout=20)
        try:
            await use(connection)
        finally:
            await connection.close()

    asyncio.run(connected())


def new_topic(name: str, partitions: int = 2, factor: int = 2) -> dict[str, Any]:
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": factor,
        "assignments": [],
        "configs": [],
    }


def setting(kind: int, name: str, key: str, value: str) -> dict[str, Any]:
    row = {"name": key, "config_operation": 0, "value": value}
    return {"resource_type": kind, "resource_name": name, "configs": [row]}


def test_topics_are_created_grown_and_deleted_through_any_broker(
    brokers: tuple[RunningBroker, RunningBroker],
) -> None:
    async def use(connection: Connection) -> None:
        for version in range(2, 8):
            body = {
                "topics": [new_topic(f"v{version}"), new_topic("wide", 1, 3)],
                "timeout": 9000,
                "validate_only": False,
            }
            answer = await connection.request(CREATE_TOPICS, body, version=version)
            codes = {str(topic.name): topic.error_code for topic in answer.topics}
            assert codes == {f"v{version}": NONE, "wide": ErrorCode.invalid_replication_factor}
            # Whoever asks the same broker next finds the topic.
            metadata = await connection.request(3, {"topics": None, "allow_auto_topic_creation": False})
            assert f"v{version}" in {str(topic.name) for topic in metadata.topics}
        grow = {"topics": [{"name": "v7", "count": 5, "assignments": None}], "timeout": 9000, "validate_only": False}
        answer = await connection.request(CREATE_PARTITIONS, grow)
        assert answer.results[0].error_code == NONE
        gone = {"topics": [{"name": f"v{v}", "topic_id": None} for v in range(2, 8)], "timeout": 9000}
        answer = await connection.request(DELETE_TOPICS, gone)
        assert {row.error_code for row in answer.responses} == {NONE}

    on(brokers[1], use)


def test_settings_of_several_resource_types_are_routed(brokers: tuple[RunningBroker, RunningBroker]) -> None:
    async def use(connection: Connection) -> None:
        body = {"topics": [new_topic("set")], "timeout": 9000, "validate_only": False}
        await connection.request(CREATE_TOPICS, body)
        resources = [
            setting(2, "set", "retention.ms", "5000"),
            setting(4, "2", "log.cleaner.threads", "2"),
            setting(4, "1", "log.cleaner.threads", "2"),
            setting(8, "2", "headrace.controller.gateway", "DEBUG"),
        ]
        answer = await connection.request(INCREMENTAL, {"resources": resources, "validate_only": False})
        codes = {(int(r.resource_type), r.resource_name): r.error_code for r in answer.responses}
        assert codes == {(2, "set"): NONE, (4, "2"): NONE, (4, "1"): ErrorCode.invalid_request, (8, "2"): NONE}

    on(brokers[1], use)
    image = brokers[0].call(lambda: brokers[0].broker.parts.gateway.view.current)
    assert image.config_of("topic", "set") == {"retention.ms": "5000"}
    assert image.config_of("broker", "2") == {"log.cleaner.threads": "2"}
    assert image.config_of("broker", "1") == {}


def inside(api_key: int, version: int, body: dict[str, Any]) -> dict[str, Any]:
    frame = codec.encode_request(api_key, version, 1, "c", body)
    return {"request_data": bytes(frame[4:]), "request_principal": b"User:x", "client_host_address": b"127.0.0.1"}


def test_only_the_controller_accepts_an_envelope_and_only_with_forwardable_requests(
    brokers: tuple[RunningBroker, RunningBroker],
) -> None:
    create = inside(CREATE_TOPICS, 7, {"topics": [new_topic("e")], "timeout": 9000, "validate_only": True})

    async def at_the_other(connection: Connection) -> None:
        answer = await connection.request(ENVELOPE, create, version=0)
        assert answer.error_code == ErrorCode.not_controller

    async def at_the_controller(connection: Connection) -> None:
        answer = await connection.request(ENVELOPE, create, version=0)
        assert answer.error_code == NONE
        _, opened = codec.read_response(CREATE_TOPICS, 7, answer.response_data)
        assert opened.topics[0].error_code == NONE
        metadata = inside(3, 9, {"topics": None, "allow_auto_topic_creation": False})
        answer = await connection.request(ENVELOPE, metadata, version=0)
        assert answer.error_code == ErrorCode.unsupported_version
        garbage = {**create, "request_data": create["request_data"][:14]}
        answer = await connection.request(ENVELOPE, garbage, version=0)
        assert answer.error_code == ErrorCode.invalid_request
        assert ENVELOPE not in connection.versions

    on(brokers[1], at_the_other)
    on(brokers[0], at_the_controller)


def test_requests_of_brokers_reach_the_controller(brokers: tuple[RunningBroker, RunningBroker]) -> None:
    controller, other = brokers
    gateway = other.broker.parts.gateway
    loop = other.loop
    assert loop is not None

    def run(ask: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(ask, loop).result(60)

    results = run(gateway.create_topics([NewTopic("asked", 2, 2), NewTopic("asked", 2, 2)]))
    assert [result.error for result in results] == [ErrorCode.invalid_request]
    results = run(gateway.create_topics([NewTopic("asked", 1, configs={"retention.ms": "1"}, assignments={})]))
    assert [result.error for result in results] == [NONE]
    first, size = run(gateway.allocate_producer_ids())
    again, _ = run(gateway.allocate_producer_ids())
    assert again >= first + size
    results = run(gateway.create_topics([NewTopic("lost", -1, -1, {0: [2, 1]})]))
    assert results[0].error is NONE
    topic_id = controller.call(lambda: controller.broker.parts.gateway.view.current.topics["lost"].id)
    losses = ReplicaLosses(frozenset({(topic_id, 0)}), frozenset({(topic_id, 1)}), is_offline=True)
    run(gateway.report_losses(losses))
    registered = controller.call(lambda: controller.broker.parts.gateway.view.current.brokers[2])
    assert registered.losses == losses
    info = controller.call(lambda: controller.broker.parts.gateway.view.current.partition("lost", 0))
    assert info is not None and (info.leader, info.isr) == (1, (1,))


def test_a_failed_disk_moves_the_leadership_of_its_partitions(
    brokers: tuple[RunningBroker, RunningBroker],
) -> None:
    controller, other = brokers

    async def create(connection: Connection) -> None:
        body = {"topics": [new_topic("spread", 8)], "timeout": 9000, "validate_only": False}
        await connection.request(CREATE_TOPICS, body)

    on(other, create)
    log_dirs = other.broker.log_dirs
    failing = log_dirs.directories[1]
    hit = {
        log.partition
        for log in other.call(log_dirs.logs)
        if log.topic == "spread" and failing.path in log.directory.parents
    }
    assert 0 < len(hit) < 8
    view = controller.broker.parts.gateway.view
    before = view.current.topics["spread"].partitions
    other.call(lambda: log_dirs.take_offline(failing, "pulled out"))

    def told() -> bool:
        infos = view.current.topics["spread"].partitions
        return all((2 not in info.isr and info.leader == 1) for index, info in enumerate(infos) if index in hit)

    wait_for(told, "other leaders for what lay on the failed disk")
    after = view.current.topics["spread"].partitions
    spared = set(range(8)) - hit
    assert [(after[i].leader, after[i].isr) for i in spared] == [(before[i].leader, before[i].isr) for i in spared]
