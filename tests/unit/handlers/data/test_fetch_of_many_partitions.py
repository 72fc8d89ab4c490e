"""A consumer with a fetch session that waits on many partitions: a record costs one look at one partition, and nothing
is missed."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from headrace.records.builder import Record, build_batch
from headrace.records.control import build_end_txn_marker
from headrace.replication.partition import Partition
from headrace.storage.log import AppendOrigin
from headrace.testing.in_process import RunningBroker, broker
from headrace.wire import codec
from tests.differential.servers import read_answer
from tests.support.names import unique

FETCH, VERSION, PARTITIONS = 1, 12, 200
ONE = build_batch([Record(b"k", b"v" * 100)])


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    with broker() as started:
        yield started


class SessionConsumer:
    def __init__(self, running: RunningBroker, topic: str, *, isolation: int = 0, max_bytes: int = 1 << 20) -> None:
        self._socket = socket.create_connection((running.host, running.port), timeout=60)
        self._topic, self._isolation, self._max_bytes = topic, isolation, max_bytes
        self.offsets = dict.fromkeys(range(PARTITIONS), 0)
        self._session = (0, 0)
        self._changed = dict(self.offsets)

    def send(self, *, max_wait_ms: int = 60_000) -> None:
        partitions = [
            {
                "partition": index,
                "current_leader_epoch": -1,
                "fetch_offset": offset,
                "last_fetched_epoch": -1,
                "log_start_offset": -1,
                "partition_max_bytes": 1 << 20,
            }
            for index, offset in self._changed.items()
        ]
        body = {
            "replica_id": -1,
            "max_wait": max_wait_ms,
            "min_bytes": 1,
            "max_bytes": self._max_bytes,
            "isolation_level": self._isolation,
            "session_id": self._session[0],
            "session_epoch": self._session[1],
            "topics": [{"topic": self._topic, "partitions": partitions}] if partitions else [],
            "forgotten_topics_data": [],
            "rack_id": "",
        }
        self._socket.sendall(codec.encode_request(FETCH, VERSION, 1, "test", body))

    def answer(self) -> dict[int, Any]:
        """The partitions of the answer. Moves the offsets behind their records (one record a batch)."""
        answer = codec.read_response(FETCH, VERSION, read_answer(self._socket))[1]
        assert answer.error_code == 0
        self._session = (answer.session_id, self._session[1] + 1)
        found = {part.partition_index: part for topic in answer.responses for part in topic.partitions}
        self._changed = {}
        for index, part in found.items():
            if part.records:
                self.offsets[index] += 1
                self._changed[index] = self.offsets[index]
        return found

    def fetch(self, *, max_wait_ms: int = 0) -> dict[int, Any]:
        self.send(max_wait_ms=max_wait_ms)
        return self.answer()

    def close(self) -> None:
        self._socket.close()


def append(running: RunningBroker, topic: str, index: int, data: bytes = ONE, **how: Any) -> None:
    def now() -> None:
        found = running.broker.parts.partitions.get(topic, index)
        assert found is not None
        found.append(bytearray(data), now_ms=1_700_000_000_000, **how)

    running.call(now)


@pytest.fixture
def topic(running: RunningBroker) -> str:
    name = unique("many")
    running.create_topic(name, PARTITIONS)
    return name


def test_a_wake_looks_only_at_the_partition_that_changed(
    running: RunningBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = SessionConsumer(running, topic)
    assert len(consumer.fetch()) == PARTITIONS, "the first answer has all partitions"
    assert consumer.fetch() == {}
    looks: list[int] = []
    read = Partition.read

    def counted(self: Partition, *rest: Any, **options: Any) -> Any:
        if self.topic == topic:
            looks.append(self.index)
        return read(self, *rest, **options)

    monkeypatch.setattr(Partition, "read", counted)
    for index in (7, 150, 7):
        consumer.send()
        append(running, topic, index)
        assert consumer.answer()[index].records
    # A fetch that begins looks at what its request names and what it told last; every two seconds at everything.
    assert len([look for look in looks if look not in (7, 150)]) <= PARTITIONS
    assert looks.count(150) <= 4
    consumer.close()


def test_records_that_an_answer_has_no_room_for_come_with_the_next_ones(running: RunningBroker, topic: str) -> None:
    consumer = SessionConsumer(running, topic, max_bytes=len(ONE) + 10)
    consumer.fetch()
    consumer.fetch()
    for index in range(20):
        append(running, topic, index)
    found: list[int] = []
    for _ in range(20):
        found += [index for index, part in consumer.fetch(max_wait_ms=60_000).items() if part.records]
    assert sorted(found) == list(range(20)), "each partition once"
    assert not any(part.records for part in consumer.fetch().values())
    consumer.close()


def test_a_committed_transaction_wakes_a_consumer_that_waits_for_it(running: RunningBroker, topic: str) -> None:
    consumer = SessionConsumer(running, topic, isolation=1)
    consumer.fetch()
    data = build_batch([Record(b"k", b"v")], producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)
    append(running, topic, 3, data)
    assert not any(part.records for part in consumer.fetch().values()), "the transaction is open"
    assert not any(part.records for part in consumer.fetch().values())
    consumer.send()
    marker = build_end_txn_marker(True, 1, 9, 0, 1_700_000_000_000)
    append(running, topic, 3, marker, origin=AppendOrigin.COORDINATOR)
    assert consumer.answer()[3].records
    consumer.close()


def test_a_deleted_topic_ends_the_wait_with_its_error(running: RunningBroker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": running.bootstrap})
    consumer = SessionConsumer(running, topic)
    consumer.fetch()
    consumer.fetch()
    consumer.send()
    admin.delete_topics([topic])[topic].result(60)
    codes = {int(part.error_code) for part in consumer.answer().values()}
    assert codes == {3}, "UNKNOWN_TOPIC_OR_PARTITION"
    consumer.close()
