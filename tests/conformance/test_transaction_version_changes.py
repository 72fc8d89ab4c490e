"""Java's producer continues while `transaction.version` changes to 1 and back to 2, on Headrace and on Apache Kafka.

A client learns the level when it connects. A client that keeps its connections continues with its first protocol, and
the broker serves it. A client that reconnects uses the new level, even in the middle of a transaction. In both cases
every transaction is atomic: consumers read committed records once and in order, and no aborted records. Takes two
minutes: `HEADRACE_EFFORT=long pytest tests/conformance/test_transaction_version_changes.py`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing import broker
from tests.reference.kafka import ReferenceKafka
from tests.reference.tools import kafka_tool
from tests.support.clock import wait_for
from tests.support.effort import is_long, rounds
from tests.support.java_client import JavaProgram
from tests.support.names import unique
from tests.support.transactions import read_all

pytestmark = [
    pytest.mark.needs("kafka"),
    pytest.mark.needs("javac"),
    pytest.mark.skipif(not is_long(), reason="waits for idle connections to be closed (HEADRACE_EFFORT=long)"),
]
PARTITIONS = 3
IDLE = {"connections.max.idle.ms": "1000"}
# Long enough for the broker to close an idle connection: Headrace checks every five seconds, Kafka more often.
SILENCE_S = 6.5


@pytest.fixture(scope="module", params=["headrace", "kafka"])
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory: Path = tmp_path_factory.mktemp("node")
    if request.param == "kafka":
        with ReferenceKafka(directory, settings=IDLE, heap="512m") as reference:
            yield reference.bootstrap
    else:
        with broker(IDLE) as started:
            yield started.bootstrap


class Work:
    """Transactions of one producer: a record to every partition and an offset. Every third is aborted."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.topic = unique("level")
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(self.topic, PARTITIONS, 1)])[self.topic].result(60)
        self.java = JavaProgram("TransactionalClient")
        self.java.ask(f"open p bootstrap.servers={bootstrap} transactional.id={self.topic} max.block.ms=15000")
        self.java.ask("init p")
        self.begun = 0
        self.committed: list[int] = []

    def transaction(self, level_meanwhile: int | None = None) -> None:
        number, self.begun = self.begun, self.begun + 1
        self.java.ask("begin p")
        for partition in range(PARTITIONS):
            self.java.ask(f"send p {self.topic} {partition} {number}")
            if partition == 0 and level_meanwhile is not None:
                set_level(self.bootstrap, level_meanwhile)
        self.java.ask(f"offsets p g-{self.topic} {self.topic} 0 {number}")
        if number % 3 == 2:
            self.java.ask("abort p")
        else:
            self.java.ask("commit p")
            self.committed.append(number)

    @property
    def epoch(self) -> int:
        told = tool(self.bootstrap, "TransactionsCommand", "describe", "--transactional-id", self.topic).splitlines()
        return int(dict(zip(told[0].split(), told[1].split(), strict=False))["ProducerEpoch"])

    def check(self) -> None:
        """Waits for the records, because the markers of the last transaction may still be on their way."""
        expected = [str(number) for _ in range(PARTITIONS) for number in self.committed], self.committed[-1]

        def found() -> tuple[list[str], int]:
            return read_all(self.bootstrap, self.topic), self._resumes()

        wait_for(lambda: found() == expected, lambda: f"{expected}, and not {found()}", poll=0.2)

    def _resumes(self) -> int:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": f"g-{self.topic}", "log_level": 0})
        (place,) = consumer.committed([TopicPartition(self.topic, 0)], 20)
        consumer.close()
        return int(place.offset)


@pytest.fixture
def work(bootstrap: str) -> Iterator[Work]:
    made = Work(bootstrap)
    try:
        yield made
    finally:
        made.java.close()
        set_level(bootstrap, 2)


def tool(bootstrap: str, name: str, *arguments: str) -> str:
    done = kafka_tool(f"org.apache.kafka.tools.{name}", "--bootstrap-server", bootstrap, *arguments)
    assert done.code == 0, done.out + done.err
    return done.out


def set_level(bootstrap: str, level: int) -> None:
    """Succeeds also if the level is already set, which the tool reports as an error."""
    if f"FinalizedVersionLevel: {level}" in next(
        line for line in tool(bootstrap, "FeatureCommand", "describe").splitlines() if "transaction.version" in line
    ):
        return
    which_way = "upgrade" if level == 2 else "downgrade"
    tool(bootstrap, "FeatureCommand", which_way, "--feature", f"transaction.version={level}")


def test_a_producer_that_keeps_its_connections_is_served_at_every_level(work: Work) -> None:
    enough = threading.Event()

    def write() -> None:
        while not enough.is_set():
            work.transaction()

    with ThreadPoolExecutor(1) as pool:
        writer = pool.submit(write)
        try:
            for _ in range(rounds(short=2, long=5)):
                for level in (1, 2):
                    set_level(work.bootstrap, level)
                    wait_for_more(work, writer, 10)
        finally:
            enough.set()
    writer.result()
    work.check()
    # The producer never saw the other level: each end of a transaction increased the epoch.
    assert work.epoch >= work.begun


def wait_for_more(work: Work, writer: Future[None], count: int) -> None:
    wanted = work.begun + count

    def are_begun() -> bool:
        if writer.done():
            writer.result()
        return work.begun >= wanted

    wait_for(are_begun, lambda: f"{wanted} transactions, and there are {work.begun}")


def test_a_producer_that_reconnects_uses_the_new_level(work: Work) -> None:
    for _ in range(rounds(short=1, long=3)):
        for level in (1, 2):
            work.transaction(level_meanwhile=level)
            work.transaction()
            follow(work, level)
            work.check()


def follow(work: Work, level: int) -> None:
    """Lets the broker close idle connections until the epoch increases with every transaction (level 2) or stays
    (level 1).
    """

    def follows() -> bool:
        time.sleep(SILENCE_S)
        work.transaction()
        before = work.epoch
        for _ in range(3):
            work.transaction()
        return work.epoch - before == (3 if level == 2 else 0)

    wait_for(follows, f"the producer to work at level {level}")
