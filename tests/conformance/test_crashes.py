"""Acknowledged records survive: a broker is killed repeatedly under load, and a disk fills up."""

from __future__ import annotations

import random
import socket
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing import broker_process
from headrace.wire import codec
from tests.support.clock import Stopwatch, wait_for
from tests.support.effort import rounds

pytestmark = pytest.mark.chaos

KILLS = rounds(short=8, long=50)
PARTITIONS = 3


class Load:
    """An idempotent producer that numbers its records and remembers the acknowledged ones."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acknowledged: dict[tuple[int, int], int] = {}
        self.failed: list[KafkaError] = []
        self.sent = 0
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "message.timeout.ms": 120_000,
                "reconnect.backoff.max.ms": 200,
                "retry.backoff.ms": 20,
                "log_level": 0,
            }
        )

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(error)
        else:
            self.acknowledged[message.partition(), message.offset()] = int(message.value())

    def send_for(self, seconds: float) -> None:
        watch = Stopwatch()
        while not watch.has_run(seconds):
            for _ in range(20):
                try:
                    self._producer.produce(
                        self._topic,
                        str(self.sent).encode(),
                        partition=self.sent % PARTITIONS,
                        on_delivery=self._delivered,
                    )
                    self.sent += 1
                except BufferError:
                    break
            self._producer.poll(0.001)

    def finish(self) -> None:
        assert self._producer.flush(60) == 0


def read_everything(bootstrap: str, topic: str) -> dict[tuple[int, int], int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "check", "enable.auto.commit": False})
    ends = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=60)[1] for p in range(PARTITIONS)}
    consumer.assign([TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
    found: dict[tuple[int, int], int] = {}

    def all_read() -> bool:
        for message in consumer.consume(5000, 0.2):
            assert message.error() is None, message.error()
            assert (message.partition(), message.offset()) not in found
            found[message.partition(), message.offset()] = int(message.value())
        return bool(len(found) >= sum(ends.values()))

    wait_for(all_read, lambda: f"all records up to {ends}, read {len(found)}", poll=0)
    consumer.close()
    return found


def test_every_acknowledged_record_survives_every_kill(tmp_path: Path) -> None:
    chance = random.Random(50)
    with broker_process(data_dir=tmp_path / "data") as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic("kept", PARTITIONS, 1)])["kept"].result(60)
        load = Load(running.bootstrap, "kept")
        load.send_for(0.3)
        for _ in range(KILLS):
            load.send_for(chance.uniform(0.02, 0.5))
            running.kill()
            load.send_for(0.05)
            running.start()
        load.send_for(0.3)
        load.finish()
        assert load.failed == []
        assert len(load.acknowledged) == load.sent
        found = read_everything(running.bootstrap, "kept")
    for place, number in load.acknowledged.items():
        assert found.get(place) == number, f"acknowledged {number} at {place}, found {found.get(place)}"
    assert len(set(found.values())) == len(found), "a record is in the log twice"
    by_partition: dict[int, list[int]] = defaultdict(list)
    for (partition, _), number in sorted(found.items()):
        by_partition[partition].append(number)
    for numbers in by_partition.values():
        assert numbers == sorted(numbers), "records changed their order"


@pytest.fixture
def small_disk(tmp_path: Path) -> Path:
    """A file system of 24 MB, if this process may mount one."""
    directory = tmp_path / "disk"
    directory.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(directory)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"needs the right to mount a file system: {done.stderr.strip()}")
    yield directory
    subprocess.run(["umount", "-l", str(directory)], check=False, capture_output=True)


def produce_code(port: int, topic: str, records: bytes) -> int:
    body = {
        "transactional_id": None,
        "acks": -1,
        "timeout": 5000,
        "topic_data": [{"name": topic, "partition_data": [{"index": 0, "records": records}]}],
    }
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(codec.encode_request(0, 9, 1, "t", body))
        with client.makefile("rb") as answers:
            frame = answers.read(int.from_bytes(answers.read(4), "big"))
    answer = codec.read_response(0, 9, frame)[1]
    return int(answer.responses[0].partition_responses[0].error_code)


def test_broker_with_a_full_disk_rejects_writes_serves_reads_and_recovers(small_disk: Path) -> None:
    from headrace.records.builder import Record, build_batch

    (small_disk / "filler").write_bytes(b"x" * 8_000_000)
    settings = {"log.segment.bytes": "4194304", "log.index.size.max.bytes": "65536"}
    with broker_process(settings, data_dir=small_disk / "data") as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic("full", 1, 1)])["full"].result(60)
        batch = build_batch([Record(b"k", b"v" * 500_000)])
        codes = [produce_code(running.port, "full", batch) for _ in range(60)]
        written = codes.count(0)
        assert codes[:10] == [0] * 10
        assert codes[-1] == 56, "KAFKA_STORAGE_ERROR"
        assert set(codes) == {0, 56}
        consumer = Consumer({"bootstrap.servers": running.bootstrap, "group.id": "g"})
        assert consumer.get_watermark_offsets(TopicPartition("full", 0), timeout=60) == (0, written)
        consumer.assign([TopicPartition("full", 0, 0)])
        read: list[Message] = []
        wait_for(lambda: read.extend(consumer.consume(10, 0.2)) or len(read) >= written, "all written records", poll=0)
        (small_disk / "filler").unlink()
        wait_for(lambda: produce_code(running.port, "full", batch) == 0, "a write after there is room", poll=0.2)
        assert consumer.get_watermark_offsets(TopicPartition("full", 0), timeout=60) == (0, written + 1)
        consumer.close()
        assert running.stop() == 0
