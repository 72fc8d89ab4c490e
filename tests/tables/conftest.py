"""One broker process and one client for all tests of tables and SQL."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from headrace.client.blocking.client import BlockingClient
from headrace.client.blocking.produce import BatchProducer, Section, Transaction
from headrace.client.security import ClientSecurity
from headrace.pipelines.options import Cluster
from headrace.records.batch import HEADER_BYTES
from headrace.records.builder import Record, build_batch
from headrace.testing.process import broker_process

T0_MS = 1_700_000_000_000
_numbers = itertools.count()
KafkaRow = tuple[int, int, bytes | None, bytes | None]


@dataclass
class Brokers:
    """A broker under test, with operations for tests."""

    bootstrap: str
    client: BlockingClient
    cluster: Cluster = field(init=False)

    def __post_init__(self) -> None:
        self.cluster = Cluster(self.bootstrap, ClientSecurity(), "headrace-test")

    def topic(self, partitions: int = 1, **configs: str) -> str:
        name = f"t{next(_numbers)}"
        chosen = {"retention.ms": "-1", **{key.replace("_", "."): value for key, value in configs.items()}}
        self.client.create_topic(name, partitions, configs=chosen)
        return name

    def write(
        self, topic: str, records: list[Record], *, partition: int = 0, transaction: Transaction | None = None
    ) -> None:
        producer = BatchProducer(self.client, transaction=transaction)
        times = [record.timestamp_ms for record in records]
        section = Section(build_batch(records)[HEADER_BYTES:], len(records), min(times), max(times))
        producer.send((topic, partition), section)
        producer.flush()

    def write_transaction(self, topic: str, records: list[Record], *, partition: int = 0, commit: bool) -> None:
        transaction = Transaction(self.client, f"tx-{next(_numbers)}", timeout_ms=30_000)
        transaction.begin()
        self.write(topic, records, partition=partition, transaction=transaction)
        if commit:
            transaction.commit("", {})
        else:
            transaction.abort()

    def delete_records(self, topic: str, before: int, *, partition: int = 0) -> None:
        body = {
            "topics": [{"name": topic, "partitions": [{"partition_index": partition, "offset": before}]}],
            "timeout": 10_000,
        }
        self.client.leader((topic, partition)).call("delete_records", body)

    def independent_read(self, topic: str) -> list[KafkaRow]:
        """All committed records, read by confluent-kafka."""
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        partitions = self.client.topics([topic])[topic].partitions
        settings = {
            "bootstrap.servers": self.bootstrap, "group.id": "independent", "isolation.level": "read_committed",
            "enable.auto.commit": "false", "enable.partition.eof": "true",
        }  # fmt: skip
        consumer, rows, ended = Consumer(settings), [], 0
        consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in partitions])
        try:
            while ended < len(partitions):
                message = consumer.poll(30)
                assert message is not None, f"{topic}: no record within 30 s"
                if message.error() is not None:
                    ended += 1
                    continue
                rows.append((message.partition(), message.offset(), message.key(), message.value()))
        finally:
            consumer.close()
        return sorted(rows, key=lambda row: row[:2])


@pytest.fixture(scope="session")
def brokers() -> Iterator[Brokers]:
    with broker_process() as broker, BlockingClient(broker.bootstrap) as client:
        yield Brokers(broker.bootstrap, client)


@pytest.fixture(scope="session")
def spark() -> Any:
    """One session for all tests of this folder that need Spark."""
    from headrace.pipelines.session import spark_session

    session = spark_session("tables", master="local[2]")
    # A process has one session. The pipelines of other tests left their settings in it, logins among them.
    for name in session.conf.getAll:
        if name.startswith("headrace."):
            session.conf.unset(name)
    yield session
    session.stop()


def orders(count: int, *, start: int = 0, keys: int = 5) -> list[Record]:
    return [
        Record(
            b"k%d" % (i % keys),
            b'{"id": %d, "amount": %d.5}' % (i, i % 10),
            (("n", b"%d" % i),) if i % 3 == 0 else (),
            timestamp_ms=T0_MS + 1000 * i,
        )
        for i in range(start, start + count)
    ]
