"""Batches with unreadable records: a topic can reject them, and every client reads on after an operator removed
them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiokafka
import kafka
import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Assigned
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from headrace.kernel.ids import TopicPartition
from headrace.records.compression import Codec
from headrace.storage.recovery import inspection
from headrace.storage.recovery.batch_removal import remove_unreadable
from headrace.testing import broker
from tests.differential.data_variants import produce_body
from tests.differential.servers import Server
from tests.reference import kafka as reference
from tests.support.clock import PATIENCE_S, wait_for
from tests.support.logs import a_batch
from tests.support.names import unique
from tests.support.unreadable_batches import Damage, unreadable_batch

INVALID_RECORD, UNKNOWN_SERVER_ERROR = 87, -1
CASES = [(codec, damage) for codec in Codec for damage in Damage]


def produced(server: Server, topic: str, data: bytes | bytearray) -> int:
    """The error code of the answer."""
    answer = server.ask(0, 9, produce_body(0, bytes(data), topic=topic))
    return int(answer["responses"][0]["partition_responses"][0]["error_code"])


def create(bootstrap: str, topic: str, config: dict[str, str] | None = None) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1, config=config or {})])[topic].result(PATIENCE_S)
    return admin


def fresh_batch(count: int, codec: Codec = Codec.NONE) -> bytearray:
    now_ms = int(time.time() * 1000)
    return a_batch(count, codec=codec, timestamps=[now_ms] * count)


@pytest.mark.parametrize("where", ["topic", "broker"])
def test_validation_of_records_can_be_set_per_topic_and_cluster_wide_at_run_time(where: str) -> None:
    with broker() as running:
        topic, server = unique("t"), Server("headrace", running.port)
        admin = create(running.bootstrap, topic)
        bad = unreadable_batch(Codec.ZSTD, Damage.GARBAGE)
        assert produced(server, topic, bad) == 0

        def set_to(value: str) -> None:
            name = "validate.records" if where == "topic" else "log.validate.records"
            kind, entity = (ResourceType.TOPIC, topic) if where == "topic" else (ResourceType.BROKER, "0")
            change = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            resource = ConfigResource(kind, entity, incremental_configs=[change])
            admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)

        set_to("true")
        wait_for(lambda: produced(server, topic, bad) == INVALID_RECORD, "the batch to be refused")
        for codec in Codec:
            assert produced(server, topic, fresh_batch(3, codec)) == 0
        set_to("false")
        wait_for(lambda: produced(server, topic, bad) == 0, "the batch to be accepted again")


@pytest.mark.needs("kafka")
def test_batches_are_rejected_as_in_kafka(tmp_path: Path) -> None:
    """Kafka decompresses every batch. Where it fails internally (UNKNOWN_SERVER_ERROR), Headrace answers
    INVALID_RECORD.
    """
    topic = unique("t")
    with broker() as running, reference.ReferenceKafka(tmp_path, heap="256m") as node:
        headrace, apache = Server("headrace", running.port), Server("kafka", node.port)
        create(running.bootstrap, topic, {"validate.records": "true"})
        create(node.bootstrap, topic)
        ours = {case: produced(headrace, topic, unreadable_batch(*case)) for case in CASES}
        theirs = {case: produced(apache, topic, unreadable_batch(*case)) for case in CASES}
    assert set(ours.values()) == {INVALID_RECORD}
    assert {case: code for case, code in theirs.items() if code not in (INVALID_RECORD, UNKNOWN_SERVER_ERROR)} == {}


def by_librdkafka(bootstrap: str, topic: str, count: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": unique("g"), "auto.offset.reset": "earliest"})
    consumer.assign([Assigned(topic, 0, 0)])
    found: list[int] = []
    wait_for(lambda: _poll(consumer, found) >= count, f"{count} records of {topic}", poll=0)
    consumer.close()
    return found


def _poll(consumer: Consumer, found: list[int]) -> int:
    message = consumer.poll(0.2)
    if message is not None:
        assert message.error() is None, message.error()
        offset = message.offset()
        assert offset is not None
        found.append(offset)
    return len(found)


def by_kafka_python(bootstrap: str, topic: str, count: int) -> list[int]:
    consumer: Any = kafka.KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    consumer.assign([kafka.TopicPartition(topic, 0)])
    found = [next(consumer).offset for _ in range(count)]
    consumer.close()
    return found


def by_aiokafka(bootstrap: str, topic: str, count: int) -> list[int]:
    async def go() -> list[int]:
        consumer = aiokafka.AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        await consumer.start()
        try:
            return [(await consumer.getone()).offset for _ in range(count)]
        finally:
            await consumer.stop()

    return asyncio.run(go())


def by_kafkas_console(bootstrap: str, topic: str, count: int) -> list[int]:
    words = ["--bootstrap-server", bootstrap, "--topic", topic, "--partition", "0", "--offset", "earliest"]
    words += ["--max-messages", str(count), "--formatter-property", "print.offset=true", "--timeout-ms", "60000"]
    done = reference.run_tool("org.apache.kafka.tools.consumer.ConsoleConsumer", *words, timeout=PATIENCE_S)
    return [int(line.partition("Offset:")[2].split("\t")[0]) for line in done.stdout.splitlines() if "Offset:" in line]


READERS: list[Callable[[str, str, int], list[int]]] = [by_librdkafka, by_kafka_python, by_aiokafka, by_kafkas_console]


@pytest.mark.needs("kafka")
def test_every_client_reads_on_after_the_batches_were_removed(tmp_path: Path) -> None:
    """Removes batches in the middle, two in a row, and the last one of the log. Then producers write more records."""
    sequence: list[bytes | bytearray] = []
    expected: list[int] = []
    end = 0
    for codec, damage in (case for case in CASES if case[0] is not Codec.NONE):
        for data, count in ((fresh_batch(2), 2), (unreadable_batch(codec, damage), 3)):
            sequence.append(data)
            expected += range(end, end + 2) if count == 2 else []
            end += count
    topic = unique("orders")
    with broker(data_dir=tmp_path) as running:
        create(running.bootstrap, topic)
        server = Server("headrace", running.port)
        assert {produced(server, topic, data) for data in sequence} == {0}
    directory = tmp_path / f"{topic}-0"
    unreadable = inspection.verify(directory).unreadable
    assert len(unreadable) == len(sequence) // 2
    remove_unreadable(directory, TopicPartition(topic, 0), unreadable, 0)
    dumped = reference.run_tool(
        "org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files", str(next(directory.glob("*.log")))
    )
    assert dumped.returncode == 0 and dumped.stdout.count("count: 0 ") == len(unreadable), dumped.stdout + dumped.stderr
    with broker(data_dir=tmp_path) as running:
        assert produced(Server("headrace", running.port), topic, fresh_batch(2)) == 0
        expected += [end, end + 1]
        for read in READERS:
            assert read(running.bootstrap, topic, len(expected)) == expected, read.__name__
