"""Consume, transform, produce: the output equals the input, in order, although client and broker are killed."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing import BrokerProcess, broker_process
from tests.support.clock import Stopwatch
from tests.support.effort import is_long
from tests.support.exactly_once_copy import transform

PARTITIONS = 3


def fill(bootstrap: str, records: int) -> dict[int, list[bytes]]:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    sent: dict[int, list[bytes]] = {index: [] for index in range(PARTITIONS)}
    for number in range(records):
        value = b"%d" % number
        producer.produce("source", value, partition=number % PARTITIONS)
        sent[number % PARTITIONS].append(value)
        producer.poll(0)
    assert producer.flush(60) == 0
    return sent


class Copier:
    """The copying process. It is restarted whenever it ends. `copied` is the number of records that it reported."""

    def __init__(self, bootstrap: str, size: int) -> None:
        self.command = [sys.executable, "-m", "tests.support.exactly_once_copy", bootstrap, "source", "target", "copy"]
        self.command.append(str(size))
        self.process: subprocess.Popen[str] | None = None
        self.copied = 0

    def keep_running(self) -> None:
        if self.process is None or self.process.poll() is not None:
            root = Path(__file__).resolve().parents[2]
            self.process = subprocess.Popen(self.command, cwd=root, stdout=subprocess.PIPE, text=True)
            threading.Thread(target=self._listen, args=(self.process,), daemon=True).start()

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.copied += int(line)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def committed_count(bootstrap: str) -> int:
    """Sum of the committed offsets of the copying group, or 0 if the broker does not answer."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "copy", "log_level": 0})
    try:
        places = [TopicPartition("source", index) for index in range(PARTITIONS)]
        return sum(max(p.offset, 0) for p in consumer.committed(places, 5))
    except Exception:
        return 0
    finally:
        consumer.close()


def copy_through_kills(running: BrokerProcess, records: int, size: int, seed: int, patience: float) -> None:
    admin = AdminClient({"bootstrap.servers": running.bootstrap})
    for future in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in ("source", "target")]).values():
        future.result(60)
    sent = fill(running.bootstrap, records)
    copier = Copier(running.bootstrap, size)
    choice = random.Random(seed)
    # Three kills each, spread over the copy: a kill happens when the group has reached its position.
    strikes = sorted((choice.randrange(records * 8 // 10), who) for who in ("client", "broker") for _ in range(3))
    watch = Stopwatch()
    try:
        while strikes or committed_count(running.bootstrap) < records:
            assert not watch.has_run(patience), f"{copier.copied} of {records} copied, {len(strikes)} kills left"
            copier.keep_running()
            if not strikes:
                time.sleep(0.1)
            elif copier.copied < strikes[0][0]:
                time.sleep(0.001)
            elif strikes.pop(0)[1] == "client":
                copier.kill()
            else:
                running.kill()
                running.start()
    finally:
        copier.kill()
    assert read_target(running.bootstrap) == {i: [transform(v) for v in values] for i, values in sent.items()}


def read_target(bootstrap: str) -> dict[int, list[bytes]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "check",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    found: dict[int, list[bytes]] = {index: [] for index in range(PARTITIONS)}
    consumer.assign([TopicPartition("target", index, 0) for index in range(PARTITIONS)])
    ended: set[int] = set()
    while len(ended) < PARTITIONS:
        message = consumer.poll(20)
        assert message is not None
        if message.error() is not None:
            ended.add(message.partition())
        else:
            found[message.partition()].append(message.value())
    consumer.close()
    return found


def test_a_copy_is_exact_although_client_and_broker_are_killed(tmp_path: Path) -> None:
    records, size = (100_000, 750) if is_long() else (9_000, 150)
    with broker_process(data_dir=tmp_path / "data") as running:
        copy_through_kills(running, records, size, seed=7, patience=280 if is_long() else 120)
