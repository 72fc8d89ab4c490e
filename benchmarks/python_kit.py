"""The Python developer's kit: a broker for a test, typed topics beside the bare client, frames.

Goals: a broker for a test in 25 ms and 20 MB over the interpreter, typed bytes at 0.8 of the bare client, a million
small records a second of one core into Arrow. The bare client checks deliveries with a callback, as a program must that
wants to know about lost records; `without a callback` leaves that out.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pydantic
from confluent_kafka import Producer

import headrace
from benchmarks.report import Row
from headrace.api.cluster import Cluster
from headrace.testing.process import broker_process

RECORDS = 100_000
VALUE = b"x" * 100
# Median of starts and stops after the first, and the memory of a process with one running broker over the interpreter
# with pytest: that is what a test run has anyway.
BROKER = """
import statistics, time
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6
import pytest
before = resident()
from headrace.testing import broker
with broker():
    used = resident() - before
times = []
for _ in range(20):
    began = time.perf_counter()
    with broker():
        pass
    times.append((time.perf_counter() - began) * 1000)
print(statistics.median(times), used)
"""
ROWS = {
    "time": Row("broker of a test, start and stop (asked 25)", "ms", higher_is_better=False),
    "memory": Row("broker of a test, memory over Python with pytest (asked 20)", "MB", higher_is_better=False),
    "bare": Row("bare client, bytes, delivery callback", "records/s of the caller's CPU"),
    "bare_quiet": Row("bare client, bytes, without a callback", "records/s of the caller's CPU"),
    "bytes": Row("typed topic, bytes", "records/s of the caller's CPU"),
    "ratio": Row("typed bytes / bare client with a callback (asked 0.8)", ""),
    "ratio_quiet": Row("typed bytes / bare client without a callback", ""),
    "dataclass": Row("typed topic, dataclass as JSON", "records/s of the caller's CPU"),
    "pydantic": Row("typed topic, Pydantic as JSON", "records/s of the caller's CPU"),
    "arrow_bytes": Row("bytes into Arrow (asked 1 M)", "records/s of CPU"),
    "arrow_json": Row("dataclass as JSON into Arrow", "records/s of CPU"),
}


@dataclasses.dataclass
class Order:
    id: str
    cents: int
    rate: float
    note: str | None = None


class Model(pydantic.BaseModel):
    id: str
    cents: int
    rate: float
    note: str | None = None


def _caller_rate(work: Callable[[], object]) -> float:
    """The threads of librdkafka do the same for both."""
    began = time.thread_time()
    work()
    return RECORDS / (time.thread_time() - began)


def _cpu_rate(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return RECORDS / (time.process_time() - began)


def _bare(producer: Producer, *, callback: bool) -> None:
    failures: list[object] = []

    def told(error: object, message: object) -> None:
        if error is not None:
            failures.append(error)

    more = {"on_delivery": told} if callback else {}
    for number in range(RECORDS):
        try:
            producer.produce("bare", VALUE, **more)
        except BufferError:
            producer.poll(0.5)
            producer.produce("bare", VALUE, **more)
        if not number % 64:
            producer.poll(0)
    assert not failures


def _send(cluster: Cluster, name: str, type_: type[Any], value: object) -> None:
    send = cluster.topic(name, type_).send
    for _ in range(RECORDS):
        send(value)


def run(directory: Path, rounds: int = 3) -> list[Row]:
    with broker_process(data_dir=directory / "data") as running:
        settings = {"log_level": 0, "queue.buffering.max.messages": 2 * RECORDS}
        cluster = headrace.connect(running.bootstrap, settings=settings)
        for name in ("bare", "bytes", "dataclass", "pydantic"):
            cluster.topics.create(name)
        producer = Producer({"bootstrap.servers": running.bootstrap, "acks": "all", **settings})
        for _ in range(rounds):
            done = subprocess.run([sys.executable, "-c", BROKER], capture_output=True, text=True, check=True)
            time_ms, memory_mb = map(float, done.stdout.split())
            rates = {"time": time_ms, "memory": memory_mb}
            for name, callback in (("bare", True), ("bare_quiet", False)):
                rates[name] = _caller_rate(partial(_bare, producer, callback=callback))
                producer.flush(60)
            for name, type_, value in (
                ("bytes", bytes, VALUE),
                ("dataclass", Order, Order("order-1", 950, 0.5)),
                ("pydantic", Model, Model(id="order-1", cents=950, rate=0.5)),
            ):
                rates[name] = _caller_rate(partial(_send, cluster, name, type_, value))
                cluster.flush(60)
            rates["ratio"] = rates["bytes"] / rates["bare"]
            rates["ratio_quiet"] = rates["bytes"] / rates["bare_quiet"]
            rates["arrow_bytes"] = _cpu_rate(lambda: cluster.topic("bytes", bytes).to_arrow(end=RECORDS))
            rates["arrow_json"] = _cpu_rate(lambda: cluster.topic("dataclass", Order).to_arrow(end=RECORDS))
            for name, rate in rates.items():
                ROWS[name].add("headrace", rate)
    return list(ROWS.values())
