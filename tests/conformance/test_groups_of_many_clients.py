"""One group, three clients: kafka-python's and aiokafka's members die by kill -9 under load, librdkafka's stays.

The group reads every record: a member that dies has committed only offsets of records that it has already printed.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing import RunningBroker, broker
from tests.support.clock import PATIENCE_S, Stopwatch

PARTITIONS = 6
MEMBERS = {
    "kafka-python": """
import sys
from kafka import KafkaConsumer
c = KafkaConsumer(sys.argv[2], bootstrap_servers=sys.argv[1], group_id="many", auto_offset_reset="earliest",
                  enable_auto_commit=False, session_timeout_ms=3000, heartbeat_interval_ms=300)
while True:
    for records in c.poll(100).values():
        for record in records:
            print(record.value.decode(), flush=True)
    if c.assignment():
        try:
            c.commit()
        except Exception:
            pass  # a rebalance is on its way: the next one reads these again
""",
    "aiokafka": """
import asyncio, sys
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
async def main():
    c = AIOKafkaConsumer(sys.argv[2], bootstrap_servers=sys.argv[1], group_id="many", auto_offset_reset="earliest",
                         enable_auto_commit=False, session_timeout_ms=3000, heartbeat_interval_ms=300,
                         partition_assignment_strategy=(RangePartitionAssignor,))
    await c.start()
    while True:
        for records in (await c.getmany(timeout_ms=100)).values():
            for record in records:
                print(record.value.decode(), flush=True)
        if c.assignment():
            try:
                await c.commit()
            except Exception:
                pass
asyncio.run(main())
""",
}


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    with broker({"group.min.session.timeout.ms": "1000", "group.initial.rebalance.delay.ms": "0"}) as started:
        yield started


class Outside:
    """A member in a process of its own. It prints the records that it has read."""

    def __init__(self, client: str, bootstrap: str, topic: str, directory: Path, seen: set[int]) -> None:
        script = directory / f"member_of_{client}.py"
        script.write_text(MEMBERS[client])
        command = [sys.executable, str(script), bootstrap, topic]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.count = 0
        self._reader = threading.Thread(target=self._read, args=(seen,), daemon=True)
        self._reader.start()

    def _read(self, seen: set[int]) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith("\n"):
                seen.add(int(line))
                self.count += 1

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)
        self._reader.join(10)


def test_every_record_is_read_although_members_of_other_clients_are_killed(
    running: RunningBroker, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(60)
    producer = Producer({"bootstrap.servers": bootstrap})
    conf = {"bootstrap.servers": bootstrap, "group.id": "many", "auto.offset.reset": "earliest"}
    session = {"session.timeout.ms": 3_000, "heartbeat.interval.ms": 300, "enable.auto.commit": False}
    survivor = Consumer({**conf, **session, "partition.assignment.strategy": "range"})
    survivor.subscribe([topic])
    seen: set[int] = set()
    produced = 0
    others = [Outside(client, bootstrap, topic, tmp_path, seen) for client in MEMBERS]
    watch = Stopwatch()
    try:
        while len(seen) < produced or produced == 0 or others:
            assert not watch.has_run(PATIENCE_S), f"{len(seen)} of {produced} read, {[each.count for each in others]}"
            if others or produced < 2_000:
                for _ in range(10):
                    producer.produce(topic, str(produced), partition=produced % PARTITIONS)
                    produced += 1
                producer.flush(60)
            for message in survivor.consume(100, 0.05):
                if not message.error():
                    seen.add(int(message.value() or b""))
            if survivor.assignment():
                survivor.commit(asynchronous=True)
            if others and all(each.count >= 50 for each in others):
                others.pop().kill()
    finally:
        for each in others:
            each.kill()
        survivor.close()
    assert seen == set(range(produced))
