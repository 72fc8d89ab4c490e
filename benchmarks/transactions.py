"""Transactions on Headrace and Apache Kafka: small transactions per second, with classic and version 2 producers."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from confluent_kafka import Producer

from benchmarks import load
from benchmarks.report import Row
from benchmarks.servers import Headrace, Kafka, Server
from tests.support.java_client import JavaProgram

ROWS = {
    "classic": Row("transactions of one record, librdkafka (classic)", "transactions/s", 1.5),
    "classic_8": Row("transactions of one record, 8 librdkafka producers", "transactions/s", 1.5),
    "java": Row("transactions of one record, Java (version 2)", "transactions/s", 1.5),
}


def run(directory: Path, rounds: int = 3) -> list[Row]:
    for round_number in range(rounds):
        for make in (Kafka, Headrace):
            with make(directory / f"{make.__name__.lower()}-{round_number}") as server:
                _measure(server)
    return list(ROWS.values())


def _measure(server: Server) -> None:
    load.create_topic(server.port, "small", 4)
    _classic(server, "warm-up", 300)
    ROWS["classic"].add(server.name, _classic(server, "one", 500))
    ROWS["classic_8"].add(server.name, _classic_parallel(server, 8, 150))
    with JavaProgram("TransactionalClient", heap="256m") as java:
        java.ask(f"open p bootstrap.servers={server.bootstrap} transactional.id=java")
        java.ask("init p")
        java.ask("many p small 500")
        ROWS["java"].add(server.name, 1_000 / (float(java.ask("many p small 1000")) / 1000))


def _producer(server: Server, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": server.bootstrap, "transactional.id": name, "linger.ms": 0})
    producer.init_transactions(30)
    return producer


def _transactions(producer: Producer, count: int) -> None:
    for _ in range(count):
        producer.begin_transaction()
        producer.produce("small", b"small")
        producer.commit_transaction(30)


def _classic(server: Server, name: str, count: int) -> float:
    producer = _producer(server, name)
    _transactions(producer, 20)
    began = time.perf_counter()
    _transactions(producer, count)
    return count / (time.perf_counter() - began)


def _classic_parallel(server: Server, clients: int, count: int) -> float:
    producers = [_producer(server, f"parallel-{i}") for i in range(clients)]
    threads = [threading.Thread(target=_transactions, args=(producer, count)) for producer in producers]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return clients * count / (time.perf_counter() - began)
