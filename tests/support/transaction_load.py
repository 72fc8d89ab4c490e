"""Producers that run one transaction after the other under faults, and remember the outcomes they were told.

Every transaction writes the same number of records to each of several partitions. A value is "name-transaction.record".
`torn` returns the transactions that are only partly visible, or whose visibility differs from the outcome that their
producer got.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from confluent_kafka import KafkaException, Producer

from tests.support.java_client import JavaError, JavaProgram
from tests.support.names import unique

COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"


@dataclass
class TransactionLoad:
    name: str
    bootstrap: str
    topic: str
    partitions: int
    records: int = 2
    seed: int = 0
    commits: float = 0.75
    outcomes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._choice = random.Random(self.seed)

    @property
    def committed(self) -> int:
        return self.outcomes.count(COMMITTED)

    def run_java(self, more: Callable[[], bool], settings: Sequence[str] = ()) -> None:
        """Java's producer (version 2)."""
        opened = ""
        with JavaProgram("TransactionalClient") as java:
            while more():
                if not opened:
                    opened = unique(self.name)
                    options = [f"bootstrap.servers={self.bootstrap}", f"transactional.id={self.name}", *settings]
                    java.ask(f"open {opened} {' '.join(options)}")
                    try:
                        java.ask(f"init {opened}")
                    except JavaError:
                        java.ask(f"close {opened}")
                        opened = ""
                        continue
                self.outcomes.append(UNKNOWN)
                try:
                    self._java_transaction(java, opened)
                except JavaError:
                    # An open transaction can be aborted. After a fatal error the start of the next producer aborts it.
                    try:
                        java.ask(f"abort {opened}")
                    except JavaError:
                        java.ask(f"close {opened}")
                        opened = ""

    def _java_transaction(self, java: JavaProgram, opened: str) -> None:
        number = len(self.outcomes) - 1
        self.outcomes[number] = ABORTED
        java.ask(f"begin {opened}")
        for partition in range(self.partitions):
            values = (self._value(number, partition * self.records + i) for i in range(self.records))
            java.ask(f"send {opened} {self.topic} {partition} {' '.join(values)}")
        if self._choice.random() < self.commits:
            self.outcomes[number] = UNKNOWN
            java.ask(f"commit {opened}")
            self.outcomes[number] = COMMITTED
        else:
            java.ask(f"abort {opened}")

    def run_classic(self, more: Callable[[], bool], timeout: float = 30) -> None:
        """librdkafka's producer (the classic protocol)."""
        producer: Producer | None = None
        while more():
            try:
                if producer is None:
                    producer = self._classic_producer()
                    producer.init_transactions(timeout)
            except KafkaException:
                producer = None
                continue
            self.outcomes.append(ABORTED)
            try:
                self._classic_transaction(producer, timeout)
            except KafkaException as problem:
                if not problem.args[0].txn_requires_abort():
                    producer = None
                    continue
                try:
                    producer.abort_transaction(timeout)
                    self.outcomes[-1] = ABORTED
                except KafkaException:
                    producer = None

    def _classic_producer(self) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": self.name,
                "linger.ms": 0,
                "retry.backoff.ms": 20,
                "reconnect.backoff.ms": 5,
                "reconnect.backoff.max.ms": 50,
                "metadata.recovery.strategy": "none",
                "log_level": 0,
            }
        )

    def _classic_transaction(self, producer: Producer, timeout: float) -> None:
        number = len(self.outcomes) - 1
        producer.begin_transaction()
        for i in range(self.records * self.partitions):
            producer.produce(self.topic, self._value(number, i), partition=i % self.partitions)
        producer.flush(timeout)
        if self._choice.random() < self.commits:
            self.outcomes[number] = UNKNOWN
            producer.commit_transaction(timeout)
            self.outcomes[number] = COMMITTED
        else:
            producer.abort_transaction(timeout)

    def _value(self, number: int, record: int) -> str:
        return f"{self.name}-{number}.{record}"

    def torn(self, visible: Sequence[str]) -> list[str]:
        """Errors in the records that a `read_committed` consumer sees. Empty if there are none."""
        own = [value for value in visible if value.startswith(f"{self.name}-")]
        wrong = [f"{value} is visible {count} times" for value, count in Counter(own).items() if count > 1]
        seen = Counter(int(value.rsplit("-", 1)[1].split(".")[0]) for value in own)
        whole = self.records * self.partitions
        allowed = {COMMITTED: {whole}, ABORTED: {0}, UNKNOWN: {0, whole}}
        for number, outcome in enumerate(self.outcomes):
            if seen[number] not in allowed[outcome]:
                wrong.append(f"{self.name}-{number}, {outcome}: {seen[number]} of {whole} records are visible")
        return wrong
