"""Kafka's own tools and ours move a replica between the disks of a broker that serves. Kills during moves are in
`tests/cluster/test_replica_move_kills.py`."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing import broker_process
from headrace.testing.process import BrokerProcess
from tests.reference.kafka import ROOT
from tests.reference.tools import kafka_tool
from tests.support.clock import wait_for

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"


class Load:
    """Produces numbered records with acks=all until stopped. `acknowledged` are the numbers that the broker took."""

    def __init__(self, bootstrap: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 1}
        self._producer = Producer({**settings, "reconnect.backoff.max.ms": 200, "message.timeout.ms": 120_000})
        self.acknowledged: set[int] = set()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stopping.wait(0.001):
            self._producer.produce("orders", f"{number:010d}".encode() * 20, partition=0, on_delivery=self._told)
            self._producer.poll(0)
            number += 1
        self._producer.flush(120)

    def _told(self, error: object, message: Message) -> None:
        value = message.value()
        if error is None and isinstance(value, bytes):
            self.acknowledged.add(int(value[:10]))

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()


def read_all(bootstrap: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "check", "enable.partition.eof": True})
    consumer.assign([TopicPartition("orders", 0, 0)])
    found: list[int] = []
    while True:
        message = consumer.poll(30)
        assert message is not None, "no end of the partition"
        if message.error() is not None:
            break
        value = message.value()
        assert isinstance(value, bytes)
        found.append(int(value[:10]))
    consumer.close()
    return found


def plan(path: Path, directory: Path) -> list[str]:
    entry = {"topic": "orders", "partition": 0, "replicas": [0], "log_dirs": [str(directory)]}
    path.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    return ["--reassignment-json-file", str(path)]


def directories(running: BrokerProcess) -> dict[str, bool]:
    """The directories of orders-0 by name, and whether the replica there is a future one."""
    done = kafka_tool(LOG_DIRS, "--bootstrap-server", running.bootstrap, "--describe", "--topic-list", "orders")
    (broker,) = json.loads(done.out[done.out.index("{") :])["brokers"]
    return {
        Path(found["logDir"]).name: replica["isFuture"]
        for found in broker["logDirs"]
        for replica in found["partitions"]
    }


def ours(running: BrokerProcess, *arguments: str) -> str:
    tool = [str(ROOT / "bin" / "kafka-reassign-partitions.sh"), "--bootstrap-server", running.bootstrap, *arguments]
    return subprocess.run(tool, capture_output=True, text=True, check=True).stdout


@pytest.mark.needs("kafka")
def test_tools_move_a_replica_under_load(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    with broker_process({"log.dirs": f"{one},{two}"}, data_dir=one) as running:
        server = ("--bootstrap-server", running.bootstrap)
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(60)
        load = Load(running.bootstrap)
        try:
            wait_for(lambda: len(load.acknowledged) > 500, "the first records")
            home = one if (one / "orders-0").exists() else two
            other = two if home is one else one
            there = plan(tmp_path / "there.json", other)
            # One byte a second: the move waits until the throttle is gone.
            begun = kafka_tool(REASSIGN, *server, *there, "--execute", "--replica-alter-log-dirs-throttle", "1")
            assert f"Successfully started moving log directory to {other} for replica orders-0" in begun.out, begun
            wait_for(lambda: directories(running) == {home.name: False, other.name: True}, "the future replica")
            assert "Reassignment of replica orders-0-0 is still in progress." in ours(running, *there, "--verify")
            assert "started moving log directory" in ours(running, *there, "--cancel")
            assert directories(running) == {home.name: False}
            cancelled = kafka_tool(REASSIGN, *server, *there, "--verify")
            assert f"is not being moved from log dir {home} to {other}" in cancelled.out, cancelled
            assert "Successfully started moving" in ours(running, *there, "--execute")
            wait_for(lambda: directories(running) == {other.name: False}, "the end of the move")
            finished = kafka_tool(REASSIGN, *server, *there, "--verify")
            assert "Reassignment of replica orders-0-0 completed successfully." in finished.out, finished
            count = len(load.acknowledged)
            wait_for(lambda: len(load.acknowledged) > count + 100, "records after the move")
        finally:
            load.stop()
        found = read_all(running.bootstrap)
        assert found == sorted(load.acknowledged), "each acknowledged record once and in order"
        assert not (home / "orders-0").exists() and running.stop() == 0
