"""Background work of a running broker: retention, compaction, and settings that change without a restart."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from headrace.net.connection import Connection
from headrace.net.replies import Pending
from headrace.records.builder import Record, build_batch
from headrace.testing import RunningBroker, broker
from headrace.wire import codec
from tests.support.clock import wait_for

SETTINGS = {
    "log.retention.check.interval.ms": "100",
    "log.cleaner.backoff.ms": "100",
    "log.segment.bytes": "1048576",
    "log.segment.delete.delay.ms": "100",
}


@pytest.fixture(scope="module")
def busy() -> Iterator[RunningBroker]:
    with broker(SETTINGS) as running:
        yield running


@pytest.fixture
def admin(busy: RunningBroker) -> AdminClient:
    return AdminClient({"bootstrap.servers": busy.bootstrap})


def create(admin: AdminClient, topic: str, **config: str) -> None:
    named = {name.replace("_", "."): value for name, value in config.items()}
    admin.create_topics([NewTopic(topic, 1, 1, config=named)])[topic].result(60)


def alter(admin: AdminClient, kind: ResourceType, name: str, key: str, value: str) -> None:
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(kind, name, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(60)


def produce(busy: RunningBroker, topic: str, records: list[tuple[bytes | None, bytes]]) -> list[KafkaError]:
    producer = Producer({"bootstrap.servers": busy.bootstrap, "batch.size": 100_000})
    failed: list[KafkaError] = []
    for key, value in records:
        producer.produce(topic, value, key, on_delivery=lambda error, _: failed.append(error) if error else None)
        producer.poll(0)
    assert producer.flush(60) == 0
    return failed


def watermarks(busy: RunningBroker, topic: str) -> tuple[int, int]:
    consumer = Consumer({"bootstrap.servers": busy.bootstrap, "group.id": "g"})
    found: tuple[int, int] = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60)
    consumer.close()
    return found


def read_all(busy: RunningBroker, topic: str) -> list[Message]:
    low, _ = watermarks(busy, topic)
    consumer = Consumer({"bootstrap.servers": busy.bootstrap, "group.id": "g", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, low)])
    found: list[Message] = []

    def at_end() -> bool:
        for message in consumer.consume(1000, 0.2):
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF
                return True
            found.append(message)
        return False

    wait_for(at_end, f"the end of {topic}", poll=0)
    consumer.close()
    return found


def segments(busy: RunningBroker, topic: str) -> list[Path]:
    return sorted((busy.data_dir / f"{topic}-0").glob("*.log"))


def test_retention_by_size_keeps_the_newest(busy: RunningBroker, admin: AdminClient, topic: str) -> None:
    create(admin, topic)
    assert produce(busy, topic, [(None, b"x" * 10_000)] * 500) == []
    assert len(segments(busy, topic)) >= 4
    alter(admin, ResourceType.TOPIC, topic, "retention.bytes", "1500000")
    wait_for(lambda: len(segments(busy, topic)) <= 3, "retention by size")
    low, high = watermarks(busy, topic)
    assert high == 500
    assert low > 0
    assert len(read_all(busy, topic)) == high - low


def test_retention_by_time_spares_the_active_segment(busy: RunningBroker, admin: AdminClient, topic: str) -> None:
    create(admin, topic)
    assert produce(busy, topic, [(None, b"x" * 10_000)] * 300) == []
    alter(admin, ResourceType.TOPIC, topic, "retention.ms", "1")
    wait_for(lambda: len(segments(busy, topic)) == 1, "retention by time")
    assert watermarks(busy, topic)[1] == 300


def test_the_first_retention_check_runs_after_the_initial_delay(tmp_path: Path, topic: str) -> None:
    with broker(data_dir=tmp_path / "data") as running:
        producer = Producer({"bootstrap.servers": running.bootstrap})
        producer.produce(topic, b"of 2023", timestamp=1_700_000_000_000)
        assert producer.flush(60) == 0
        assert watermarks(running, topic) == (0, 1)
    with broker({"log.initial.task.delay.ms": "10"}, data_dir=tmp_path / "data") as running:
        wait_for(lambda: watermarks(running, topic) == (1, 1), "retention of the only record")


def test_compaction_keeps_the_last_value_of_each_key(busy: RunningBroker, admin: AdminClient, topic: str) -> None:
    create(admin, topic, cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    records = [(str(n % 10).encode(), str(n).encode() + b"." * 20_000) for n in range(300)]
    assert produce(busy, topic, records) == []  # type: ignore[arg-type]
    wait_for(lambda: len(read_all(busy, topic)) < 150, "compaction")
    last: dict[bytes, int] = {}
    previous = -1
    for message in read_all(busy, topic):
        assert message.offset() > previous
        previous = message.offset()
        last[message.key()] = int(message.value().rstrip(b"."))
    assert last == {str(n % 10).encode(): n for n in range(290, 300)}
    assert watermarks(busy, topic) == (0, 300)


def test_the_topic_of_committed_offsets_stays_small(topic: str) -> None:
    """However often a consumer commits, only its last offset stays."""
    one_partition = {"offsets.topic.num.partitions": "1", "offsets.topic.segment.bytes": "1048576"}
    with broker(SETTINGS | one_partition | {"log.cleaner.min.cleanable.ratio": "0.01"}) as running:
        create(AdminClient({"bootstrap.servers": running.bootstrap}), topic)
        consumer = Consumer({"bootstrap.servers": running.bootstrap, "group.id": topic, "enable.auto.commit": False})
        try:
            for offset in range(800):
                place = TopicPartition(topic, 0, offset, metadata="." * 4000)
                consumer.commit(offsets=[place], asynchronous=False)

            def stored() -> int:
                total = 0
                for path in running.data_dir.glob("__consumer_offsets-0/*.log"):
                    with suppress(FileNotFoundError):  # compaction replaces segments meanwhile
                        total += path.stat().st_size
                return total

            # Of 3.2 million commits: the active segment, and one record.
            wait_for(lambda: stored() < 1_100_000, lambda: f"compaction, {stored()} bytes are stored")
            assert consumer.committed([TopicPartition(topic, 0)], 10)[0].offset == 799
        finally:
            consumer.close()


def test_a_changed_topic_setting_takes_effect_at_once(busy: RunningBroker, admin: AdminClient, topic: str) -> None:
    create(admin, topic)
    assert produce(busy, topic, [(None, b"x" * 5000)]) == []
    alter(admin, ResourceType.TOPIC, topic, "max.message.bytes", "1000")
    assert [error.code() for error in produce(busy, topic, [(None, b"x" * 5000)])] == [KafkaError.MSG_SIZE_TOO_LARGE]
    alter(admin, ResourceType.TOPIC, topic, "max.message.bytes", "100000")
    assert produce(busy, topic, [(None, b"x" * 5000)]) == []


def test_a_changed_broker_setting_takes_effect_at_once_for_topics_without_an_override(
    busy: RunningBroker, admin: AdminClient, topic: str
) -> None:
    create(admin, topic)
    create(admin, f"{topic}-own", max_message_bytes="50000")
    alter(admin, ResourceType.BROKER, "0", "message.max.bytes", "1000")
    try:
        (error,) = produce(busy, topic, [(None, b"x" * 5000)])
        assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE
        assert produce(busy, f"{topic}-own", [(None, b"x" * 5000)]) == []
    finally:
        alter(admin, ResourceType.BROKER, "0", "message.max.bytes", "1048588")
    assert produce(busy, topic, [(None, b"x" * 5000)]) == []


def test_a_deleted_topic_can_be_created_again(busy: RunningBroker, admin: AdminClient, topic: str) -> None:
    create(admin, topic)
    assert produce(busy, topic, [(None, b"old")] * 5) == []
    admin.delete_topics([topic])[topic].result(60)
    wait_for(lambda: not (busy.data_dir / f"{topic}-0").exists(), "the log to be deleted")
    create(admin, topic)
    assert produce(busy, topic, [(None, b"new")]) == []
    assert [message.value() for message in read_all(busy, topic)] == [b"new"]


def test_records_are_readable_after_a_restart(tmp_path: Path, topic: str) -> None:
    for round_number in range(3):
        with broker(data_dir=tmp_path / "data") as running:
            assert produce(running, topic, [(b"k", str(round_number).encode())]) == []
            assert [int(message.value()) for message in read_all(running, topic)] == list(range(round_number + 1))


def test_a_record_that_arrives_right_after_a_long_poll_completes_it(busy: RunningBroker, admin: AdminClient) -> None:
    """The broker reads both requests in one iteration of the event loop, from two connections: the fetch has not
    run its first step yet.
    """
    create(admin, "right-behind")
    batch = build_batch([Record(key=None, value=b"v", timestamp_ms=time.time_ns() // 1_000_000)])
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000, "log_start_offset": -1}
    poll = {
        "replica_id": -1, "max_wait": 60_000, "min_bytes": 1, "max_bytes": 1000, "isolation_level": 0,
        "session_id": 0, "session_epoch": -1, "topics": [{"topic": "right-behind", "partitions": [partition]}],
        "forgotten_topics_data": [], "rack_id": "",
    }  # fmt: skip
    data = [{"name": "right-behind", "partition_data": [{"index": 0, "records": batch}]}]
    write = {"transactional_id": None, "acks": 1, "timeout": 1000, "topic_data": data}
    fetch_frame = codec.encode_request(1, 11, 1, "me", poll)[4:]
    produce_frame = codec.encode_request(0, 9, 1, "me", write)[4:]

    with (
        socket.create_connection((busy.host, busy.port)) as consumer,
        socket.create_connection((busy.host, busy.port)) as producer,
    ):
        ports = [consumer.getsockname()[1], producer.getsockname()[1]]

        def by_port() -> dict[int, Connection]:
            return {one.peer_port: one for one in busy.broker.connections.connections if one.peer_port in ports}

        def both() -> asyncio.Task[Any]:
            polling, writing = (by_port()[port] for port in ports)
            waiting = busy.broker.parts.dispatcher.serve(memoryview(fetch_frame), polling)
            assert isinstance(waiting, Pending)
            busy.broker.parts.dispatcher.serve(memoryview(produce_frame), writing)
            return asyncio.ensure_future(waiting)

        wait_for(lambda: len(busy.call(by_port)) == 2, "two connections")
        task = busy.call(both)
        wait_for(task.done, "the task to end")
        assert task.result()[-1].length == len(batch)
