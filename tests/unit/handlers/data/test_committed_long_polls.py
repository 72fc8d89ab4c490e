"""A `read_committed` fetch that waits for many bytes is answered when the transaction with them commits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.client.connection import Connection
from headrace.kernel.isolation import READ_COMMITTED
from headrace.records.builder import Record, build_batch
from headrace.records.control import build_end_txn_marker
from headrace.storage.log import AppendOrigin
from headrace.testing.in_process import RunningBroker, broker
from headrace.wire.apis import ApiKey
from tests.support.clock import Stopwatch
from tests.support.logs import NOW_MS
from tests.support.names import unique

PRODUCER, MIN_BYTES = 7, 5000
LONGEST_WAIT_S = 20
DATA = build_batch(
    [Record(b"k", b"v" * 4 * MIN_BYTES, timestamp_ms=NOW_MS)],
    producer_id=PRODUCER,
    producer_epoch=0,
    base_sequence=0,
    transactional=True,
)


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    with broker() as started:
        yield started


class Consumer:
    def __init__(self, connection: Connection, topic: str, *, keeps_session: bool) -> None:
        self._connection, self._topic = connection, topic
        self._session = (0, 0) if keeps_session else (0, -1)

    async def fetch(self, max_wait_ms: int) -> list[Any]:
        session_id, epoch = self._session
        partition = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": 0, "log_start_offset": -1}
        body = {
            "replica_id": -1,
            "max_wait": max_wait_ms,
            "min_bytes": MIN_BYTES,
            "max_bytes": 1 << 20,
            "isolation_level": READ_COMMITTED,
            "session_id": session_id,
            "session_epoch": epoch,
            "topics": [{"topic": self._topic, "partitions": [{**partition, "partition_max_bytes": 1 << 20}]}]
            if epoch < 1
            else [],
            "forgotten_topics_data": [],
            "rack_id": "",
        }
        answer = await self._connection.request(ApiKey.FETCH, body, version=11, timeout=LONGEST_WAIT_S + 10)
        if epoch >= 0:
            self._session = (answer.session_id, epoch + 1)
        return [part for topic in answer.responses for part in topic.partitions if part.records]


@pytest.mark.parametrize("keeps_session", [True, False])
def test_a_commit_ends_the_wait_for_records_that_came_before_it(running: RunningBroker, keeps_session: bool) -> None:
    topic = unique("polls")
    running.create_topic(topic)

    def append(data: bytes, origin: AppendOrigin = AppendOrigin.CLIENT) -> None:
        partition = running.broker.parts.partitions.led(topic, 0)
        running.call(lambda: partition.append(memoryview(bytearray(data)), origin=origin, now_ms=NOW_MS))

    async def scenario() -> list[Any]:
        connection = await Connection.open(running.host, running.port, timeout=10)
        consumer = Consumer(connection, topic, keeps_session=keeps_session)
        assert await consumer.fetch(0) == []
        waiting = asyncio.create_task(consumer.fetch(LONGEST_WAIT_S * 1000))
        await asyncio.sleep(0.2)
        append(DATA)
        await asyncio.sleep(0.2)
        assert not waiting.done(), "its transaction is open"
        watch = Stopwatch()
        append(build_end_txn_marker(True, 0, PRODUCER, 0, NOW_MS), AppendOrigin.COORDINATOR)
        found = await waiting
        watch.at_most(LONGEST_WAIT_S / 2, because="the marker makes the records readable")
        await connection.close()
        return found

    assert len(asyncio.run(scenario())) == 1
