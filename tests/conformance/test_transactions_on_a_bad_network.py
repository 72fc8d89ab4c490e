"""Requests that come late, twice, or whose answers are lost: no torn, no lost, no aborted-visible transaction."""

from __future__ import annotations

import random

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing import broker
from tests.support.chaos_proxy import ChaosProxy, Fates
from tests.support.effort import rounds
from tests.support.java_client import JavaError, JavaProgram
from tests.support.transactions import read_all

PRODUCE, END_TXN = 0, 26
PARTITIONS = 2
RECORDS = 3

COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"


def check(outcomes: list[str], visible: list[str]) -> None:
    """`visible` are values "transaction.record" in the order of their partitions."""
    assert len(visible) == len(set(visible)), "a record is visible twice"
    by_transaction: dict[int, int] = {}
    for value in visible:
        number = int(value.split(".")[0])
        by_transaction[number] = by_transaction.get(number, 0) + 1
    whole = RECORDS * PARTITIONS
    for number, outcome in enumerate(outcomes):
        seen = by_transaction.get(number, 0)
        allowed = {COMMITTED: {whole}, ABORTED: {0}, UNKNOWN: {0, whole}}[outcome]
        assert seen in allowed, f"transaction {number} ({outcome}): {seen} of {whole} records are visible"


@pytest.mark.needs("kafka")
@pytest.mark.needs("javac")
def test_java_transactions_survive_late_doubled_and_unanswered_requests() -> None:
    count = rounds(short=120, long=2_000)
    mishaps = {
        PRODUCE: Fates(late=0.05, twice=0.2, unanswered=0.02, longest=0.08),
        END_TXN: Fates(late=0.05, twice=0.4, unanswered=0.05, longest=0.08),
    }
    with (
        ChaosProxy(3, mishaps) as proxy,
        broker({"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}) as running,
    ):
        proxy.broker_port = running.broker.listeners.bound[0].port
        bootstrap = f"127.0.0.1:{proxy.port}"
        create(bootstrap)
        with JavaProgram("TransactionalClient") as java:
            outcomes = run_java(java, bootstrap, count)
        check(outcomes, read_all(f"127.0.0.1:{proxy.port}", "t"))
        assert proxy.copies and proxy.cut and proxy.late
        assert outcomes.count(COMMITTED) > count // 3


def run_java(java: JavaProgram, bootstrap: str, count: int) -> list[str]:
    choice = random.Random(5)
    outcomes: list[str] = []
    name = ""

    def open_producer() -> str:
        fresh = f"p{len(outcomes)}"
        java.ask(f"open {fresh} bootstrap.servers={bootstrap} transactional.id=chaos retry.backoff.ms=10")
        java.ask(f"init {fresh}")
        return fresh

    while len(outcomes) < count:
        name = name or open_producer()
        outcome = ABORTED
        try:
            java.ask(f"begin {name}")
            for partition in range(PARTITIONS):
                values = " ".join(f"{len(outcomes)}.{partition * RECORDS + i}" for i in range(RECORDS))
                java.ask(f"send {name} t {partition} {values}")
            if choice.random() < 0.7:
                outcome = UNKNOWN
                java.ask(f"commit {name}")
                outcome = COMMITTED
            else:
                java.ask(f"abort {name}")
        except JavaError:
            try:
                java.ask(f"abort {name}")
            except JavaError:
                java.ask(f"close {name}")
                name = ""
        outcomes.append(outcome)
    return outcomes


def create(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic("t", PARTITIONS, 1)])["t"].result(10)


def test_classic_transactions_survive_late_and_unanswered_requests() -> None:
    """Without copies of EndTxn: that a late one can end the next transaction is why version 2 came to be (KIP-890)."""
    count = rounds(short=100, long=2_000)
    mishaps = {
        PRODUCE: Fates(late=0.1, unanswered=0.03, longest=0.05),
        END_TXN: Fates(late=0.1, unanswered=0.05, longest=0.05),
    }
    with (
        ChaosProxy(4, mishaps) as proxy,
        broker({"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}) as running,
    ):
        proxy.broker_port = running.broker.listeners.bound[0].port
        bootstrap = f"127.0.0.1:{proxy.port}"
        create(bootstrap)
        outcomes = run_classic(bootstrap, count)
        check(outcomes, read_all(bootstrap, "t"))
        assert proxy.cut and proxy.late
        assert outcomes.count(COMMITTED) > count // 3


def run_classic(bootstrap: str, count: int) -> list[str]:
    choice = random.Random(6)
    outcomes: list[str] = []
    producer: Producer | None = None
    while len(outcomes) < count:
        if producer is None:
            producer = Producer(
                {
                    "bootstrap.servers": bootstrap,
                    "transactional.id": "chaos",
                    "linger.ms": 0,
                    "retry.backoff.ms": 10,
                    "reconnect.backoff.ms": 5,
                    "reconnect.backoff.max.ms": 20,
                    "metadata.recovery.strategy": "none",
                    "log_level": 0,
                }
            )
            producer.init_transactions(30)
        outcome = ABORTED
        try:
            producer.begin_transaction()
            for number in range(RECORDS * PARTITIONS):
                producer.produce("t", f"{len(outcomes)}.{number}", partition=number % PARTITIONS)
            producer.flush(30)
            if choice.random() < 0.7:
                outcome = UNKNOWN
                producer.commit_transaction(30)
                outcome = COMMITTED
            else:
                producer.abort_transaction(30)
        except KafkaException as problem:
            if problem.args[0].txn_requires_abort():
                producer.abort_transaction(30)
                outcome = ABORTED
            else:
                producer = None
        outcomes.append(outcome)
    return outcomes
