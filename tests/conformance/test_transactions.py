"""Transactions with the Python clients: atomic, in order, and only for the producer with the current epoch."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.errors import ProducerFenced
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer

from headrace.testing import RunningBroker, broker
from tests.support.clock import PATIENCE_S, wait_for
from tests.support.names import unique
from tests.support.transactions import read_all, transactional_producer

QUICK_ABORTS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    with broker(QUICK_ABORTS) as started:
        yield started


@pytest.fixture
def topic(running: RunningBroker) -> str:
    name = unique("txn")
    admin = AdminClient({"bootstrap.servers": running.bootstrap})
    admin.create_topics([NewTopic(name, 3, 1)])[name].result(60)
    return name


def send(producer: Producer, topic: str, *values: str) -> None:
    for at, value in enumerate(values):
        producer.produce(topic, value.encode(), partition=at % 3)
    assert producer.flush(60) == 0


def test_committed_records_are_read_and_aborted_ones_are_not(running: RunningBroker, topic: str) -> None:
    producer = transactional_producer(running.bootstrap, topic)
    for number in range(6):
        producer.begin_transaction()
        send(producer, topic, *(f"{number}.{i}" for i in range(5)))
        if number % 2:
            producer.abort_transaction(10)
        else:
            producer.commit_transaction(10)
    committed = sorted(f"{n}.{i}" for n in (0, 2, 4) for i in range(5))
    assert sorted(read_all(running.bootstrap, topic)) == committed
    everything = read_all(running.bootstrap, topic, isolation="read_uncommitted")
    assert len(everything) == 30


def test_an_open_transaction_hides_its_records_and_all_later_ones(running: RunningBroker, topic: str) -> None:
    producer = transactional_producer(running.bootstrap, topic)
    producer.begin_transaction()
    send(producer, topic, "open")
    plain = Producer({"bootstrap.servers": running.bootstrap})
    plain.produce(topic, b"after", partition=0)
    plain.flush(60)
    assert read_all(running.bootstrap, topic) == []
    producer.commit_transaction(10)
    assert read_all(running.bootstrap, topic) == ["open", "after"]


def test_a_second_producer_of_the_same_id_fences_the_first_and_aborts_its_transaction(
    running: RunningBroker, topic: str
) -> None:
    first = transactional_producer(running.bootstrap, topic)
    first.begin_transaction()
    send(first, topic, "of the first")
    second = transactional_producer(running.bootstrap, topic)
    second.begin_transaction()
    send(second, topic, "of the second")
    second.commit_transaction(10)
    with pytest.raises(KafkaException) as fenced:
        first.commit_transaction(10)
    assert fenced.value.args[0].fatal()
    assert read_all(running.bootstrap, topic) == ["of the second"]


def test_a_transaction_is_aborted_after_its_timeout(running: RunningBroker, topic: str) -> None:
    slow = transactional_producer(running.bootstrap, topic, timeout_ms=1_000)
    slow.begin_transaction()
    send(slow, topic, "too late")
    plain = Producer({"bootstrap.servers": running.bootstrap})
    plain.produce(topic, b"plain", partition=0)
    plain.flush(60)
    wait_for(lambda: read_all(running.bootstrap, topic) == ["plain"], "the transaction to be aborted")
    with pytest.raises(KafkaException):
        slow.commit_transaction(10)
    assert read_all(running.bootstrap, topic) == ["plain"]


def test_a_timeout_above_the_maximum_of_the_broker_is_rejected(running: RunningBroker, topic: str) -> None:
    with pytest.raises(KafkaException, match=r"INVALID_TRANSACTION_TIMEOUT|timeout"):
        transactional_producer(running.bootstrap, topic, timeout_ms=900_001)


def test_offsets_take_effect_only_when_their_transaction_commits(running: RunningBroker, topic: str) -> None:
    group = f"group-{topic}"
    consumer = Consumer({"bootstrap.servers": running.bootstrap, "group.id": group, "enable.auto.commit": False})
    place = TopicPartition(topic, 0)
    producer = transactional_producer(running.bootstrap, topic)

    def committed() -> int:
        return int(consumer.committed([place], 10)[0].offset)

    for offset, commit in ((5, False), (7, True), (9, False)):
        producer.begin_transaction()
        send(producer, topic, "x")
        producer.send_offsets_to_transaction([TopicPartition(topic, 0, offset)], consumer.consumer_group_metadata(), 10)
        if commit:
            producer.commit_transaction(10)
        else:
            producer.abort_transaction(10)
    assert committed() == 7
    consumer.close()


def test_a_transaction_with_offsets_only_commits(running: RunningBroker, topic: str) -> None:
    consumer = Consumer({"bootstrap.servers": running.bootstrap, "group.id": topic})
    producer = transactional_producer(running.bootstrap, topic)
    producer.begin_transaction()
    producer.send_offsets_to_transaction([TopicPartition(topic, 2, 4)], consumer.consumer_group_metadata(), 10)
    producer.commit_transaction(10)
    assert consumer.committed([TopicPartition(topic, 2)], 10)[0].offset == 4
    consumer.close()


def test_aiokafka_commits_aborts_and_is_fenced(running: RunningBroker, topic: str) -> None:
    async def scenario() -> list[bytes]:
        settings = {"bootstrap_servers": running.bootstrap, "transactional_id": topic}
        first = AIOKafkaProducer(**settings)
        await first.start()
        async with first.transaction():
            await first.send_and_wait(topic, b"one", partition=0)
            await first.send_offsets_to_transaction({AioTopicPartition(topic, 1): 3}, f"aio-{topic}")
        with pytest.raises(ZeroDivisionError):
            async with first.transaction():
                await first.send_and_wait(topic, b"lost", partition=0)
                raise ZeroDivisionError
        second = AIOKafkaProducer(**settings)
        await second.start()
        with pytest.raises(ProducerFenced):
            async with first.transaction():
                await first.send_and_wait(topic, b"fenced", partition=0)
        async with second.transaction():
            await second.send_and_wait(topic, b"two", partition=0)
        await first.stop()
        await second.stop()
        consumer = AIOKafkaConsumer(
            bootstrap_servers=running.bootstrap,
            group_id=f"aio-{topic}",
            isolation_level="read_committed",
            enable_auto_commit=False,
        )
        await consumer.start()
        place = AioTopicPartition(topic, 0)
        consumer.assign([place, AioTopicPartition(topic, 1)])
        assert await consumer.committed(AioTopicPartition(topic, 1)) == 3
        await consumer.seek_to_beginning(place)
        got = [await asyncio.wait_for(consumer.getone(place), PATIENCE_S) for _ in range(2)]
        await consumer.stop()
        return [record.value for record in got]

    assert asyncio.run(scenario()) == [b"one", b"two"]


def test_the_first_group_of_a_cluster_can_commit_its_first_offsets_in_a_transaction() -> None:
    """Clients add the offsets before they look up the group coordinator, so before its topic exists."""

    async def scenario(bootstrap: str) -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="first")
        await producer.start()
        async with asyncio.timeout(PATIENCE_S):
            async with producer.transaction():
                await producer.send_and_wait("fresh", b"x", partition=0)
                await producer.send_offsets_to_transaction({AioTopicPartition("fresh", 0): 3}, "fresh-group")
        await producer.stop()

    with broker() as fresh:
        asyncio.run(scenario(fresh.bootstrap))
        consumer = Consumer({"bootstrap.servers": fresh.bootstrap, "group.id": "fresh-group", "log_level": 0})
        assert consumer.committed([TopicPartition("fresh", 0)], 10)[0].offset == 3
        consumer.close()


def test_kafka_python_commits_and_aborts(running: RunningBroker, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=running.bootstrap, transactional_id=topic)
    producer.init_transactions()
    for number in range(4):
        producer.begin_transaction()
        producer.send(topic, f"k{number}".encode(), partition=0).get(10)
        if number % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    producer.close(5)
    assert read_all(running.bootstrap, topic) == ["k0", "k2"]


def test_an_unknown_partition_cannot_join_a_transaction(running: RunningBroker, topic: str) -> None:
    producer = transactional_producer(running.bootstrap, topic)
    producer.begin_transaction()
    producer.produce(topic, b"nowhere", partition=99)
    producer.flush(5)
    with pytest.raises(KafkaException):
        producer.commit_transaction(10)
    producer.abort_transaction(10)
    producer.begin_transaction()
    send(producer, topic, "fine")
    producer.commit_transaction(10)
    assert read_all(running.bootstrap, topic) == ["fine"]
