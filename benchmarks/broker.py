"""One Headrace broker and one Apache Kafka: throughput, latency, start, memory."""

from __future__ import annotations

import re
import socket
import statistics
import time
from pathlib import Path

from benchmarks import load, perf_tools
from benchmarks.report import Row
from benchmarks.servers import Headrace, Kafka, Server
from tests.reference.kafka import run_tool

MEGABYTE = 1 << 20
# Rounds of measurements below a second, which any disturbance can distort. The median counts.
PASSES = 9
STARTS = 3
WARM_UP = 12
ROWS = {
    "large": Row("produce, 1 KB records, 1 MB batches, acks=1", "MB/s", 1.5),
    "spread": Row("produce, 16 KB batches over 64 partitions, acks=all", "MB/s", 1.2),
    "consume": Row("consume the same from page cache", "MB/s", 1.1),
    "consume_1mb": Row("the same, fetches of 1 MB", "MB/s"),
    "small": Row("one-record produce requests, pipelined", "requests/s", 4.0),
    "warm": Row("the same, after twelve passes", "requests/s", 4.0),
    "cpu": Row("broker CPU per GB produced (1 MB batches)", "s/GB", 0.4, higher_is_better=False),
    "p50": Row("produce → consume latency p50 (EndToEndLatency)", "ms", 1.0, higher_is_better=False),
    "p99": Row("produce → consume latency p99 (EndToEndLatency)", "ms", 1.0, higher_is_better=False),
    "fine_p50": Row("produce → consume latency p50 (raw clients)", "ms", 1.0, higher_is_better=False),
    "fine_p99": Row("produce → consume latency p99 (raw clients)", "ms", 1.0, higher_is_better=False),
    "tools_produce": Row("Kafka's ProducerPerformance, 1 KB records, six partitions", "MB/s"),
    "tools_consume": Row("Kafka's ConsumerPerformance on the same", "MB/s"),
    "start": Row("start to first answered request", "s", 0.15, higher_is_better=False),
    "idle": Row("resident memory, idle", "MB", 0.25, higher_is_better=False),
    "loaded": Row("resident memory, after the load", "MB", 0.15, higher_is_better=False),
    "connection": Row("2,000 idle connections: memory each", "KB"),
    "beside_idle": Row("2,000 idle connections: p50 of an active one", "ms", 1.0, higher_is_better=False),
    "partitions_start": Row("2,000 partitions: start", "s", 1.0, higher_is_better=False),
    "partitions_metadata": Row("2,000 partitions: Metadata answer", "ms", 1.0, higher_is_better=False),
}


def run(directory: Path, rounds: int = 3) -> list[Row]:
    for round_number in range(rounds):
        for make in (Kafka, Headrace):
            _measure(make, directory / f"{make.__name__.lower()}-{round_number}", round_number)
    return list(ROWS.values())


def _measure(make: type[Server], directory: Path, round_number: int) -> None:
    for number in range(1, STARTS):
        with make(directory.with_name(f"{directory.name}-start-{number}")) as server:  # type: ignore[call-arg, arg-type]
            ROWS["start"].add(server.name, server.start_seconds)
    with make(directory) as server:  # type: ignore[call-arg, arg-type]
        name = server.name
        ROWS["start"].add(name, server.start_seconds)
        time.sleep(1)
        ROWS["idle"].add(name, server.resident_bytes() / 1e6)
        throughput(server)
        ROWS["loaded"].add(name, server.resident_bytes() / 1e6)
        _latency(server)
        for row, value in zip(("tools_produce", "tools_consume"), perf_tools.produce_and_consume(server), strict=True):
            ROWS[row].add(name, value)
        if round_number == 0:
            _idle_connections(server)
    if round_number == 0:
        _many_partitions(make, directory)


def throughput(server: Server) -> None:
    batch = load.batch_of(1000, 1024)
    load.create_topic(
        server.port, "large", 1, {"segment.bytes": str(256 * MEGABYTE), "retention.bytes": str(512 * MEGABYTE)}
    )
    frames = [load.produce_frame("large", {0: batch}, acks=1)]
    count = 600
    # The first pass writes new disk blocks and warms the JIT. The second pass counts.
    load.produce(server.port, frames, count, depth=5)
    cpu = server.cpu_seconds()
    seconds = load.produce(server.port, frames, count, depth=5)
    produced = count * len(batch)
    ROWS["large"].add(server.name, produced / seconds / 1e6)
    ROWS["cpu"].add(server.name, (server.cpu_seconds() - cpu) / (produced / 1e9))

    load.create_topic(server.port, "spread", 64)
    small_batch = load.batch_of(15, 1024)
    spread = [
        load.produce_frame("spread", dict.fromkeys(range(first, first + 8), small_batch), acks=-1)
        for first in range(0, 64, 8)
    ]
    load.produce(server.port, spread, 400, depth=5)
    seconds = load.produce(server.port, spread, 2000, depth=5)
    ROWS["spread"].add(server.name, 2000 * 8 * len(small_batch) / seconds / 1e6)

    load.create_topic(server.port, "read", 1)
    load.produce(server.port, [load.produce_frame("read", {0: batch}, acks=1)], 400, depth=5)
    for row, max_bytes in (("consume", 8 * MEGABYTE), ("consume_1mb", MEGABYTE)):
        for number in range(PASSES + 2):
            read = load.consume(server.port, "read", 400 * len(batch), max_bytes=max_bytes)
            if number >= 2:  # the first ones warm the JIT
                ROWS[row].add(server.name, read.megabytes_per_second)

    small_requests(server)


def small_requests(server: Server) -> None:
    """The JVM compiles the code of small requests better and better, so both are also measured after many passes."""
    load.create_topic(server.port, "small", 1)
    one = [load.produce_frame("small", {0: load.batch_of(1, 100)}, acks=1)] * 64
    load.produce(server.port, one, 20_000, depth=256, burst=64)
    total = 64 * 500
    for number in range(WARM_UP + 3):
        rate = total / load.produce(server.port, one, total, depth=256, burst=64)
        if number < 3:
            ROWS["small"].add(server.name, rate)
        elif number >= WARM_UP:
            ROWS["warm"].add(server.name, rate)


def _latency(server: Server) -> None:
    load.create_topic(server.port, "latency", 1)
    done = run_tool(
        "org.apache.kafka.tools.EndToEndLatency", server.bootstrap, "latency", "3000", "1", "100", timeout=240
    )
    found = re.search(r"50th = (\d+), 99th = (\d+), 99.9th = (\d+)", done.stdout)
    assert found, f"EndToEndLatency said: {done.stdout}{done.stderr}"
    ROWS["p50"].add(server.name, float(found[1]))
    ROWS["p99"].add(server.name, float(found[2]))
    # The tool prints whole milliseconds, which is 0 or 1 for both.
    p50, p99 = fine_latency(server, "fine-latency")
    ROWS["fine_p50"].add(server.name, p50)
    ROWS["fine_p99"].add(server.name, p99)


def fine_latency(server: Server, topic: str, count: int = 3000) -> tuple[float, float]:
    load.create_topic(server.port, topic, 1)
    times = load.end_to_end_ms(server.port, topic, count)[count // 6 :]
    return statistics.median(times), statistics.quantiles(times, n=100)[98]


def _idle_connections(server: Server, count: int = 2000) -> None:
    before = server.resident_bytes()
    connections = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(count)]
    for connection in connections:
        connection.sendall(b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff")
    for connection in connections:
        connection.settimeout(10)
        assert connection.recv(4)
    ROWS["connection"].add(server.name, (server.resident_bytes() - before) / count / 1000)
    ROWS["beside_idle"].add(server.name, fine_latency(server, "beside-idle")[0])
    for connection in connections:
        connection.close()


def _many_partitions(make: type[Server], directory: Path) -> None:
    server = make(directory.with_name(directory.name + "-partitions"))  # type: ignore[call-arg, arg-type]
    server.start()
    try:
        for number in range(4):
            load.create_topic(server.port, f"many-{number}", 500)
        with load.Wire(server.port) as wire:
            wire.call(load.METADATA, 5, {"topics": None, "allow_auto_topic_creation": False})
            began = time.monotonic()
            for _ in range(20):
                wire.call(load.METADATA, 5, {"topics": None, "allow_auto_topic_creation": False})
            ROWS["partitions_metadata"].add(server.name, (time.monotonic() - began) / 20 * 1000)
        server.stop()
        server.start()
        ROWS["partitions_start"].add(server.name, server.start_seconds)
    finally:
        server.__exit__(None, None, None)
