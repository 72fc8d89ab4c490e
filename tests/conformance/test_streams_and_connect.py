"""Unchanged Kafka Streams and Kafka Connect, with their exactly-once guarantees enabled."""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.net.free_ports import free_port
from headrace.testing import RunningBroker, broker
from tests.reference import kafka
from tests.support.clock import wait_for
from tests.support.effort import is_long
from tests.support.java_client import JavaProgram
from tests.support.transactions import read_all

pytestmark = [pytest.mark.needs("kafka"), pytest.mark.needs("javac")]


@pytest.fixture
def running() -> Iterator[RunningBroker]:
    with broker() as started:
        yield started


def create(running: RunningBroker, *topics: str, partitions: int = 2) -> None:
    admin = AdminClient({"bootstrap.servers": running.bootstrap, "log_level": 0})
    for future in admin.create_topics([NewTopic(name, partitions, 1) for name in topics]).values():
        future.result(60)


def updates(running: RunningBroker, topic: str) -> dict[str, list[int]]:
    """Every count that the topology emitted for a word, in order."""
    consumer = Consumer(
        {
            "bootstrap.servers": running.bootstrap,
            "group.id": "check",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(2)])
    found: dict[str, list[int]] = {}
    ended = 0
    while ended < 2:
        message = consumer.poll(10)
        assert message is not None
        if message.error() is not None:
            ended += 1
        else:
            found.setdefault(message.key().decode(), []).append(int.from_bytes(message.value(), "big"))
    consumer.close()
    return found


def test_kafka_streams_word_count_counts_each_word_once(running: RunningBroker, tmp_path: Path) -> None:
    create(running, "lines", "counts")
    producer = Producer({"bootstrap.servers": running.bootstrap})

    def write(lines: int) -> None:
        for number in range(lines):
            producer.produce("lines", f"alpha beta{number % 3} gamma", partition=number % 2)
        assert producer.flush(60) == 0

    def wait_for_count(count: int) -> None:
        # The words are in two partitions, whose tasks commit at different times.
        def counted() -> int:
            return sum(counts[-1] for counts in updates(running, "counts").values())

        wait_for(lambda: counted() >= 3 * count, lambda: f"{count} words: {updates(running, 'counts')}", poll=0.2)

    arguments = (running.bootstrap, "lines", "counts", str(tmp_path / "state"))
    write(300)
    first = JavaProgram("WordCount", *arguments, heap="256m")
    try:
        wait_for_count(300)
        write(300)
    finally:
        # The application is killed in the middle of its work: it repeats uncommitted work, and the output shows each
        # result once.
        first.kill()
    with JavaProgram("WordCount", *arguments, heap="256m"):
        wait_for_count(600)
    shown = updates(running, "counts")
    assert {word: counts[-1] for word, counts in shown.items()} == {
        "alpha": 600,
        "gamma": 600,
        "beta0": 200,
        "beta1": 200,
        "beta2": 200,
    }
    assert all(counts == sorted(set(counts)) for counts in shown.values()), "a count was shown twice"


class ConnectWorker:
    """One distributed worker with exactly-once source support. `call` calls its REST API."""

    def __init__(self, running: RunningBroker, directory: Path) -> None:
        directory.mkdir()
        self.port = free_port()
        settings = {
            "bootstrap.servers": running.bootstrap,
            "group.id": "connect",
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            "offset.storage.topic": "connect-offsets",
            "config.storage.topic": "connect-configs",
            "status.storage.topic": "connect-status",
            "offset.storage.replication.factor": "1",
            "config.storage.replication.factor": "1",
            "status.storage.replication.factor": "1",
            "offset.storage.partitions": "2",
            "status.storage.partitions": "2",
            "exactly.once.source.support": "enabled",
            "listeners": f"http://127.0.0.1:{self.port}",
            "plugin.discovery": "service_load",
            # The worker is frozen. The sooner the group notices, the sooner the other worker gets the tasks.
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "1000",
            "scheduled.rebalance.max.delay.ms": "0",
            "consumer.session.timeout.ms": "6000",
            "consumer.heartbeat.interval.ms": "1000",
        }
        file = directory / "worker.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        self.output = directory / "connect.out"
        with self.output.open("ab") as out:
            self.process = subprocess.Popen(
                kafka.java_command("org.apache.kafka.connect.cli.ConnectDistributed", str(file), heap="320m"),
                stdout=out,
                stderr=out,
            )

    def call(self, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.loads(answer.read() or b"null")

    def create_connector(self, name: str, config: dict[str, str]) -> None:
        self.insist("POST", "/connectors", {"name": name, "config": config})

    def insist(self, method: str, path: str, body: Any = None) -> None:
        """Retries until a worker accepts: it rejects calls while it starts, and while its group rebalances or has
        no leader.
        """
        problem: Exception | None = None

        def is_taken() -> bool:
            nonlocal problem
            try:
                self.call(method, path, body)
                return True
            except (OSError, urllib.error.URLError) as error:
                assert self.process.poll() is None, self._tail()
                problem = error
                return False

        wait_for(is_taken, lambda: f"{method} {path}: {problem}\n{self._tail()}", poll=0.3)

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def wait_for_any_of(self, *words: str) -> None:
        def is_said() -> bool:
            assert self.process.poll() is None, self._tail()
            return any(word in self.output.read_text() for word in words)

        wait_for(is_said, lambda: f"{words}: {self._tail()}", poll=0.1)

    def wait_for_lines(self, file: Path, count: int) -> None:
        def are_there() -> bool:
            assert self.process.poll() is None, self._tail()
            return file.exists() and len(set(file.read_text().splitlines())) >= count

        wait_for(are_there, lambda: f"{count} lines in {file}: {self._tail()}", poll=0.3)

    def _tail(self) -> str:
        return self.output.read_text()[-5000:]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def test_kafka_connect_copies_a_file_through_a_topic_exactly_once(running: RunningBroker, tmp_path: Path) -> None:
    create(running, "letters", partitions=1)
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    lines = [f"line {number}" for number in range(400)]
    source.write_text("".join(f"{line}\n" for line in lines[:100]))
    workers = [ConnectWorker(running, tmp_path / "first")]
    try:
        create_copy(workers[0], source, target)
        workers[0].wait_for_lines(target, 100)
        # The first worker is frozen, the file grows, and a second worker continues after the last transaction.
        workers[0].pause()
        append(source, lines[100:200])
        workers.append(ConnectWorker(running, tmp_path / "second"))
        workers[1].wait_for_lines(target, 200)
        # The first worker resumes and tries to write. Its producer was fenced.
        workers[0].resume()
        workers[0].wait_for_any_of("ProducerFencedException", "InvalidProducerEpochException")
        assert copied(running) == lines[:200]
        if is_long():
            # Then the second worker dies. To Connect, on Apache Kafka too, the fenced task has failed and stays
            # assigned to the first worker. So the test restarts it, and the first worker continues alone.
            workers[1].kill()
            append(source, lines[200:300])
            workers[0].insist("POST", "/connectors/reads/tasks/0/restart")
            workers[0].wait_for_lines(target, 300)
            assert copied(running) == lines[:300]
            workers[0].kill()
            append(source, lines[300:])
            workers.append(ConnectWorker(running, tmp_path / "third"))
            workers[2].wait_for_lines(target, 400)
            assert copied(running) == lines
    finally:
        for worker in workers:
            worker.kill()


def copied(running: RunningBroker) -> list[str]:
    return [json.loads(value) for value in read_all(running.bootstrap, "letters")]


def append(file: Path, lines: list[str]) -> None:
    with file.open("a") as more:
        more.write("".join(f"{line}\n" for line in lines))


def create_copy(worker: ConnectWorker, source: Path, target: Path) -> None:
    file_stream = "org.apache.kafka.connect.file.FileStream"
    worker.create_connector(
        "reads",
        {
            "connector.class": f"{file_stream}SourceConnector",
            "tasks.max": "1",
            "file": str(source),
            "topic": "letters",
            "exactly.once.support": "required",
            "transaction.boundary": "poll",
        },
    )
    worker.create_connector(
        "writes",
        {
            "connector.class": f"{file_stream}SinkConnector",
            "tasks.max": "1",
            "file": str(target),
            "topics": "letters",
            "consumer.override.isolation.level": "read_committed",
        },
    )
