"""One broker with 10,000 partitions and 5,000 connections, and one Apache Kafka with the same: start, memory, latency.

Half of the connections are consumers that wait for records in a long poll; the others are idle. The rows with CPU time
depend little on other work of the machine.
"""

from __future__ import annotations

import socket
import statistics
import time
from pathlib import Path

from benchmarks import load
from benchmarks.report import Row
from benchmarks.servers import Headrace, Kafka, Server

TOPICS = 20
PARTITIONS = 500
CONNECTIONS = 5000
RECORDS = 2000
_API_VERSIONS = b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff"
ROWS = {
    "create": Row("10,000 partitions created, 500 in a request: the broker's CPU", "s", 1.0, higher_is_better=False),
    "start": Row("start to the first answered request, after a clean stop", "s", 1.0, higher_is_better=False),
    "start_cpu": Row("the same: CPU", "s", 1.0, higher_is_better=False),
    "memory": Row("resident memory after the start", "MB", 1.0, higher_is_better=False),
    "metadata": Row("Metadata answer of all partitions", "ms", 1.0, higher_is_better=False),
    "connection": Row("5,000 connections, half of them in a long poll: memory each", "KB"),
    "p50": Row("beside them: produce → consume latency p50", "ms", 1.0, higher_is_better=False),
    "p99": Row("beside them: produce → consume latency p99", "ms", 1.0, higher_is_better=False),
    "idle_cpu": Row("beside them, without requests: CPU of a second", "ms", 1.0, higher_is_better=False),
}


def run(directory: Path, rounds: int = 1) -> list[Row]:
    for round_number in range(rounds):
        for make in (Kafka, Headrace):
            _measure(make(directory / f"{make.__name__.lower()}-{round_number}"))
    return list(ROWS.values())


def _cpu_seconds(server: Server) -> float:
    """With microseconds, where the kernel counts them for all threads."""
    tasks = Path(f"/proc/{server.pid}/task")
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9


def _measure(server: Server) -> None:
    name = server.name
    with server:
        cpu = _cpu_seconds(server)
        for number in range(TOPICS):
            load.create_topic(server.port, f"many-{number}", PARTITIONS)
        ROWS["create"].add(name, _cpu_seconds(server) - cpu)
        load.create_topic(server.port, "latency", 1)
        server.stop()
        server.start()
        ROWS["start"].add(name, server.start_seconds)
        ROWS["start_cpu"].add(name, _cpu_seconds(server))
        _wait_until_calm(server)
        ROWS["memory"].add(name, server.resident_bytes() / 1e6)
        _metadata(server)
        _connections(server)


def _metadata(server: Server) -> None:
    body: dict[str, object] = {"topics": None, "allow_auto_topic_creation": False}
    with load.Wire(server.port) as wire:
        for number in range(23):
            began = time.monotonic()
            wire.call(load.METADATA, 5, body)
            if number >= 3:
                ROWS["metadata"].add(server.name, (time.monotonic() - began) * 1000)


def _connections(server: Server) -> None:
    before = server.resident_bytes()
    open_ones = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(CONNECTIONS)]
    try:
        for connection in open_ones:
            connection.settimeout(60)
            connection.sendall(_API_VERSIONS)
        for connection in open_ones:
            assert connection.recv(4)
        for number, connection in enumerate(open_ones[::2]):
            topic, partition = f"many-{number % TOPICS}", number // TOPICS % PARTITIONS
            connection.sendall(load.long_poll_frame(topic, partition))
        _wait_until_calm(server)
        ROWS["connection"].add(server.name, (server.resident_bytes() - before) / CONNECTIONS / 1000)
        times = load.end_to_end_ms(server.port, "latency", RECORDS)[RECORDS // 4 :]
        ROWS["p50"].add(server.name, statistics.median(times))
        ROWS["p99"].add(server.name, statistics.quantiles(times, n=100)[98])
        cpu, began = _cpu_seconds(server), time.monotonic()
        time.sleep(5)
        ROWS["idle_cpu"].add(server.name, (_cpu_seconds(server) - cpu) / (time.monotonic() - began) * 1000)
    finally:
        for connection in open_ones:
            connection.close()


def _wait_until_calm(server: Server) -> None:
    """Until the broker needs less than a tenth of a core."""
    while True:
        cpu = _cpu_seconds(server)
        time.sleep(1)
        if _cpu_seconds(server) - cpu < 0.1:
            return
