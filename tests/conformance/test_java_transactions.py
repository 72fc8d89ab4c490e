"""Java's producer against Headrace with transaction.version 2, where the end of each transaction increases the
epoch.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.coordinators.txn.core.transaction import Transaction
from headrace.coordinators.txn.marker_writer import EndMarker
from headrace.kernel.errors import ErrorCode
from headrace.kernel.ids import TopicPartition as Place
from headrace.testing import RunningBroker, broker
from tests.reference.tools import kafka_tool
from tests.support.clock import wait_for
from tests.support.java_client import JavaError, JavaProgram
from tests.support.names import unique
from tests.support.transactions import read_all

pytestmark = [pytest.mark.needs("kafka"), pytest.mark.needs("javac")]


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    with broker({"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}) as started:
        yield started


@pytest.fixture(scope="module")
def java() -> Iterator[JavaProgram]:
    with JavaProgram("TransactionalClient") as program:
        yield program


@pytest.fixture
def topic(running: RunningBroker) -> str:
    name = unique("java")
    admin = AdminClient({"bootstrap.servers": running.bootstrap})
    admin.create_topics([NewTopic(name, 3, 1)])[name].result(60)
    return name


@pytest.fixture
def producer(running: RunningBroker, java: JavaProgram, topic: str) -> str:
    return open_producer(running, java, topic)


def open_producer(running: RunningBroker, java: JavaProgram, transactional_id: str, **settings: str) -> str:
    name = unique("p")
    options = {
        "bootstrap.servers": running.bootstrap,
        "transactional.id": transactional_id,
        "max.block.ms": "15000",
    } | {key.replace("_", "."): value for key, value in settings.items()}
    java.ask(f"open {name} " + " ".join(f"{key}={value}" for key, value in options.items()))
    java.ask(f"init {name}")
    return name


def remembered(running: RunningBroker, transactional_id: str) -> Transaction:
    def look() -> Transaction:
        runtime = running.broker.parts.coordinators.transactions.runtime
        index = runtime.partition_of(transactional_id)
        return runtime.hosted(index).shard.transactions[transactional_id]

    return running.call(look)


def test_each_transaction_ends_with_a_higher_epoch(
    running: RunningBroker, java: JavaProgram, topic: str, producer: str
) -> None:
    for number in range(4):
        java.ask(f"begin {producer}")
        java.ask(f"send {producer} {topic} 0 {number}a {number}b")
        java.ask(f"send {producer} {topic} 1 {number}c")
        java.ask(f"{'abort' if number % 2 else 'commit'} {producer}")
        known = remembered(running, topic)
        assert (known.producer_epoch, known.client_version) == (number + 1, 2)
    assert read_all(running.bootstrap, topic) == ["0a", "0b", "2a", "2b", "0c", "2c"]


def test_a_transaction_without_records_can_end(
    running: RunningBroker, java: JavaProgram, topic: str, producer: str
) -> None:
    for end in ("commit", "abort"):
        java.ask(f"begin {producer}")
        java.ask(f"{end} {producer}")
    java.ask(f"begin {producer}")
    java.ask(f"send {producer} {topic} 0 after")
    java.ask(f"commit {producer}")
    assert read_all(running.bootstrap, topic) == ["after"]


def test_committing_offsets_adds_them_to_the_transaction(
    running: RunningBroker, java: JavaProgram, topic: str, producer: str
) -> None:
    consumer = Consumer({"bootstrap.servers": running.bootstrap, "group.id": topic})
    for offset, end in ((4, "commit"), (6, "abort")):
        java.ask(f"begin {producer}")
        java.ask(f"offsets {producer} {topic} {topic} 2 {offset}")
        java.ask(f"{end} {producer}")
    assert consumer.committed([TopicPartition(topic, 2)], 10)[0].offset == 4
    consumer.close()


def test_a_new_producer_of_the_same_id_fences_the_old(
    running: RunningBroker, java: JavaProgram, topic: str, producer: str
) -> None:
    java.ask(f"begin {producer}")
    java.ask(f"send {producer} {topic} 0 lost")
    successor = open_producer(running, java, topic)
    with pytest.raises(JavaError) as fenced:
        java.ask(f"send {producer} {topic} 0 fenced")
    assert fenced.value.name in ("ProducerFencedException", "InvalidProducerEpochException")
    java.ask(f"begin {successor}")
    java.ask(f"send {successor} {topic} 0 kept")
    java.ask(f"commit {successor}")
    assert read_all(running.bootstrap, topic) == ["kept"]


def test_a_producer_continues_after_its_transaction_timed_out(
    running: RunningBroker, java: JavaProgram, topic: str
) -> None:
    slow = open_producer(running, java, topic, transaction_timeout_ms="500")
    java.ask(f"begin {slow}")
    java.ask(f"send {slow} {topic} 0 late")
    wait_for(lambda: remembered(running, topic).state.label == "CompleteAbort", "the transaction to be aborted")
    with pytest.raises(JavaError):
        java.ask(f"commit {slow}")
    assert read_all(running.bootstrap, topic) == []


def test_a_producer_gets_a_new_producer_id_when_its_epochs_are_exhausted(
    running: RunningBroker, java: JavaProgram, topic: str, producer: str
) -> None:
    java.ask(f"begin {producer}")
    java.ask(f"send {producer} {topic} 0 first")
    java.ask(f"commit {producer}")
    old_id = remembered(running, topic).producer_id
    wear_out(running, topic)
    worn = open_producer(running, java, topic)
    assert remembered(running, topic).producer_epoch == 32_766
    for value in ("second", "third"):
        java.ask(f"begin {worn}")
        java.ask(f"send {worn} {topic} 0 {value}")
        java.ask(f"commit {worn}")
    known = remembered(running, topic)
    assert (known.producer_id != old_id, known.producer_epoch) == (True, 1)
    assert read_all(running.bootstrap, topic) == ["first", "second", "third"]


def wear_out(running: RunningBroker, transactional_id: str) -> None:
    """Sets the producer epoch as if 32,765 producers had used the id before."""
    from dataclasses import replace

    from headrace.coordinators.runtime.result import Result
    from headrace.coordinators.txn.core.log_records import record_of

    worn = replace(remembered(running, transactional_id), producer_epoch=32_765)
    runtime = running.broker.parts.coordinators.transactions.runtime
    running.call(lambda: runtime.submit(transactional_id, lambda shard, now: Result([record_of(worn)])))


def test_a_repeated_marker_does_not_end_the_next_transaction(
    running: RunningBroker, java: JavaProgram, topic: str, producer: str
) -> None:
    java.ask(f"begin {producer}")
    java.ask(f"send {producer} {topic} 0 first")
    java.ask(f"commit {producer}")
    ended = remembered(running, topic)
    java.ask(f"begin {producer}")
    java.ask(f"send {producer} {topic} 0 second")
    late = EndMarker(ended.producer_id, ended.producer_epoch, commit=False, coordinator_epoch=0, transaction_version=2)
    writer = running.broker.parts.coordinators.marker_writer
    outcome = running.call(lambda: writer.write(Place(topic, 0), late))
    assert outcome is ErrorCode.invalid_producer_epoch
    java.ask(f"commit {producer}")
    assert read_all(running.bootstrap, topic) == ["first", "second"]


def test_kafkas_tools_list_describe_and_abort_transactions(
    running: RunningBroker, java: JavaProgram, topic: str, producer: str
) -> None:
    def tool(*arguments: str) -> str:
        done = kafka_tool(
            "org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", running.bootstrap, *arguments
        )
        assert done.code == 0, done.out + done.err
        return done.out

    java.ask(f"begin {producer}")
    java.ask(f"send {producer} {topic} 0 open")
    assert topic in tool("list")
    described = tool("describe", "--transactional-id", topic)
    assert "Ongoing" in described
    assert f"{topic}-0" in described
    producers = tool("describe-producers", "--topic", topic, "--partition", "0")
    known = remembered(running, topic)
    assert str(known.producer_id) in producers
    java.ask(f"commit {producer}")
    assert "CompleteCommit" in tool("describe", "--transactional-id", topic)


def test_a_hanging_transaction_is_found_and_aborted_by_kafkas_tool(running: RunningBroker, topic: str) -> None:
    open_hanging_transaction(running, topic, producer_id=987_654)
    plain = Producer({"bootstrap.servers": running.bootstrap})
    plain.produce(topic, b"behind it", partition=0)
    plain.flush(60)
    assert read_all(running.bootstrap, topic) == []
    tool = "org.apache.kafka.tools.TransactionsCommand"
    where = ("--bootstrap-server", running.bootstrap)
    found = kafka_tool(tool, *where, "find-hanging", "--broker-id", "0", "--max-transaction-timeout", "0")
    assert "987654" in found.out, found.out + found.err
    aborted = kafka_tool(tool, *where, "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    assert aborted.code == 0, aborted.out + aborted.err
    assert read_all(running.bootstrap, topic) == ["behind it"]


def open_hanging_transaction(running: RunningBroker, topic: str, producer_id: int) -> None:
    """A batch, two hours old, of a transaction that no coordinator knows. Brokers before KIP-890 could accept one."""
    from headrace.records.builder import Record, build_batch

    now_ms = time.time_ns() // 1_000_000
    batch = build_batch(
        [Record(None, b"hanging", timestamp_ms=now_ms - 7_200_000)],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    partition = running.broker.parts.partitions.led(topic, 0)
    running.call(lambda: partition.append(memoryview(bytearray(batch)), now_ms=now_ms))


def test_kafka_reads_the_transaction_log(running: RunningBroker, java: JavaProgram, topic: str, producer: str) -> None:
    java.ask(f"begin {producer}")
    java.ask(f"send {producer} {topic} 0 x")
    java.ask(f"commit {producer}")
    index = running.call(lambda: running.broker.parts.coordinators.transactions.runtime.partition_of(topic))
    log = running.data_dir / f"__transaction_state-{index}" / "00000000000000000000.log"
    dumped = kafka_tool("org.apache.kafka.tools.DumpLogSegments", "--transaction-log-decoder", "--files", str(log)).out
    assert f'"transactionalId":"{topic}"' in dumped
    for state in range(5):
        if state != 3:
            assert f'"transactionStatus":{state}' in dumped, dumped
    assert '"clientTransactionVersion":2' in dumped
