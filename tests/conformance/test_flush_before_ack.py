"""`flush.before.ack`: an acknowledged record is on the leader's disk, and concurrent writers share one fsync."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.storage.log import Log
from headrace.testing import RunningBroker


def log_of(running: RunningBroker, topic: str) -> Log:
    def find() -> Log:
        partition = running.broker.parts.partitions.get(topic, 0)
        assert partition is not None
        return partition.log

    return running.call(find)


def create(running: RunningBroker, topic: str, **config: str) -> Log:
    settings = {name.replace("_", "."): value for name, value in config.items()}
    admin = AdminClient({"bootstrap.servers": running.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1, config=settings)])[topic].result(60)
    return log_of(running, topic)


@pytest.mark.parametrize("acks", ["1", "all"])
def test_acknowledged_records_are_on_the_disk(running: RunningBroker, topic: str, acks: str) -> None:
    log = create(running, topic, flush_before_ack="true")
    synced_at_ack: list[tuple[int, int]] = []

    def acknowledged(error: KafkaError | None, message: Message) -> None:
        assert error is None
        synced_at_ack.append((message.offset(), log.recovery_point))

    producer = Producer({"bootstrap.servers": running.bootstrap, "acks": acks})
    for _ in range(20):
        producer.produce(topic, b"x", on_delivery=acknowledged)
        producer.flush(60)
    assert [offset for offset, _ in synced_at_ack] == list(range(20))
    assert all(recovery_point > offset for offset, recovery_point in synced_at_ack)


def test_by_default_the_broker_does_not_fsync_before_the_acknowledgement(running: RunningBroker, topic: str) -> None:
    log = create(running, topic)
    producer = Producer({"bootstrap.servers": running.bootstrap})
    producer.produce(topic, b"x")
    assert producer.flush(60) == 0
    assert log.recovery_point == 0


def test_concurrent_writers_share_one_fsync(
    running: RunningBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = create(running, topic, flush_before_ack="true")
    flushes, held = [], threading.Event()
    real = log.flush

    def slow_flush() -> None:
        flushes.append(log.log_end_offset)
        if len(flushes) == 1:
            assert held.wait(10)  # until all other writers have appended
        real()

    monkeypatch.setattr(log, "flush", slow_flush)
    producers = [Producer({"bootstrap.servers": running.bootstrap, "client.id": f"p{n}"}) for n in range(10)]
    for producer in producers:
        producer.produce(topic, b"x")
        producer.poll(0)
    while running.call(lambda: log.log_end_offset) < 10:
        for producer in producers:
            producer.poll(0.01)
    assert all(len(producer) == 1 for producer in producers)  # no writer has an answer before the fsync
    held.set()
    assert [producer.flush(60) for producer in producers] == [0] * 10
    assert len(flushes) <= 2  # the blocked fsync, and one for all writers that came meanwhile
    assert log.recovery_point == 10
