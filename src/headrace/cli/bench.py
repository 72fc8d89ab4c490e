"""`headrace bench produce|consume|latency`: measures throughput and latency of a cluster from this machine."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.records.reader import Span, read
from headrace.cli.support.client_settings import client_settings, librdkafka_settings
from headrace.cli.support.connection import Bootstrap, Failed, Output, bootstrap_address, check_answer, connected
from headrace.cli.support.output import Format, show_one
from headrace.cli.support.progress import progress
from headrace.cli.topics import TIMEOUT_MS
from headrace.client.cluster_client import ClusterClient
from headrace.kernel.ids import TopicPartition
from headrace.kernel.plurals import counted
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.cli.support.kafka_client import ClientError, Message

app = typer.Typer(no_args_is_help=True, help="Measure a cluster: produce, consume, latency.")

Records = Annotated[int, typer.Option("--records", "-n", min=1, help="Number of records.")]
Size = Annotated[int, typer.Option("--size", "-s", min=1, help="Size of a value in bytes.")]
Partitions = Annotated[int, typer.Option("--partitions", "-p", min=1, help="Partitions of the benchmark topic.")]
Replication = Annotated[
    int | None, typer.Option("--replication", "-r", min=1, help="Replication factor of the benchmark topic.")
]


@contextmanager
def _topic(bootstrap: str | None, partitions: int, replication: int | None) -> Iterator[str]:
    """Creates a topic for the benchmark and deletes it afterwards."""
    name = f"headrace-bench-{os.getpid()}-{time.time_ns() % 1_000_000}"
    topic = {
        "name": name, "num_partitions": partitions, "replication_factor": replication or -1, "assignments": [],
        "configs": [],
    }  # fmt: skip

    async def create(client: ClusterClient) -> None:
        body = {"topics": [topic], "timeout": TIMEOUT_MS, "validate_only": False}
        check_answer((await client.to_controller(ApiKey.CREATE_TOPICS, body)).topics[0], f"topic {name}")

    async def delete(client: ClusterClient) -> None:
        named = [{"name": name, "topic_id": None}]
        await client.to_controller(
            ApiKey.DELETE_TOPICS, {"topics": named, "topic_names": [name], "timeout": TIMEOUT_MS}
        )

    connected(bootstrap, create, timeout=30)
    try:
        yield name
    finally:
        connected(bootstrap, delete, timeout=30)


def _send(address: str, topic: str, records: int, size: int, settings: dict[str, object]) -> list[float]:
    """Sends records and waits. Returns the seconds from send to acknowledgement of each record."""
    from confluent_kafka import Producer

    from headrace.cli.kafka_tools.support.librdkafka import quiet_log

    producer = Producer(
        {"bootstrap.servers": address, "queue.buffering.max.messages": 200_000, **settings, **quiet_log()}
    )
    payload = os.urandom(size)
    took: list[float] = []
    failed: list[str] = []

    def delivered(error: ClientError | None, message: Message) -> None:
        if error is not None:
            failed.append(error.str())
        else:
            took.append(message.latency())

    with progress("producing", total=records, unit="records") as advance:
        for _ in range(records):
            while True:
                try:
                    producer.produce(topic, payload, on_delivery=delivered)
                    break
                except BufferError:
                    producer.poll(0.05)
            producer.poll(0)
            advance(1)
        producer.flush()
    if failed:
        raise Failed(f"{len(failed)} of {counted(records, 'record')} not acknowledged: {failed[0]}")
    return took


def _share(values: list[float], part: float) -> float:
    return round(1000 * sorted(values)[min(len(values) - 1, int(len(values) * part))], 3)


def _result(what: str, records: int, size: int, seconds: float) -> dict[str, object]:
    return {
        "bench": what, "records": records, "size_bytes": size, "seconds": round(seconds, 3),
        "records_per_s": round(records / seconds), "mb_per_s": round(records * size / seconds / 1e6, 2),
    }  # fmt: skip


@app.command()
def produce(
    records: Records = 100_000,
    size: Size = 100,
    partitions: Partitions = 3,
    replication: Replication = None,
    acks: Annotated[str, typer.Option(help="Required acknowledgements: all, 1 or 0.")] = "all",
    compression: Annotated[
        str, typer.Option("--compression", "-z", help="Compression: none, gzip, snappy, lz4 or zstd.")
    ] = "none",
    bootstrap: Bootstrap = None,
    output: Output = Format.TABLE,
) -> None:
    """Send records as fast as one client can.

    $ headrace bench produce -n 2000 -s 100
    """
    address = bootstrap_address(bootstrap)
    settings = {"acks": acks, "compression.type": compression, "linger.ms": 5}
    with _topic(bootstrap, partitions, replication) as topic:
        began = time.monotonic()
        took = _send(address, topic, records, size, settings | librdkafka_settings(bootstrap))
        found = _result("produce", records, size, time.monotonic() - began)
    show_one({**found, "p50_ms": _share(took, 0.5), "p99_ms": _share(took, 0.99)}, output)


@app.command()
def consume(
    records: Records = 100_000,
    size: Size = 100,
    partitions: Partitions = 3,
    replication: Replication = None,
    bootstrap: Bootstrap = None,
    output: Output = Format.TABLE,
) -> None:
    """Send records, then read them as fast as one client can.

    $ headrace bench consume -n 2000 -o json
    """
    address = bootstrap_address(bootstrap)
    with _topic(bootstrap, partitions, replication) as topic:
        _send(address, topic, records, size, {"linger.ms": 5, **librdkafka_settings(bootstrap)})
        spans = {TopicPartition(topic, number): Span(0, None) for number in range(partitions)}
        began, seen = time.monotonic(), 0
        stream = read(address, spans, idle_s=10, client=client_settings(bootstrap))
        with progress("reading", total=records, unit="records") as advance:
            for _ in stream:
                seen += 1
                advance(1)
                if seen == records:
                    break
        seconds = time.monotonic() - began
        stream.close()
    if seen < records:
        raise Failed(f"only {seen} of {counted(records, 'record')} came back")
    show_one(_result("consume", records, size, seconds), output)


@app.command()
def latency(
    records: Records = 1_000,
    size: Size = 100,
    replication: Replication = None,
    bootstrap: Bootstrap = None,
    output: Output = Format.TABLE,
) -> None:
    """Send records one by one with acks=all. Each waits for the acknowledgement of the previous one.

    $ headrace bench latency -n 50
    """
    from confluent_kafka import Producer

    from headrace.cli.kafka_tools.support.librdkafka import quiet_log

    address = bootstrap_address(bootstrap)
    with _topic(bootstrap, 1, replication) as topic:
        security = librdkafka_settings(bootstrap)
        producer = Producer({"bootstrap.servers": address, "acks": "all", "linger.ms": 0, **security, **quiet_log()})
        payload, took = os.urandom(size), []
        began = time.monotonic()
        with progress("sending", total=records, unit="records") as advance:
            for _ in range(records):
                sent = time.perf_counter()
                producer.produce(topic, payload)
                if producer.flush(30):
                    raise Failed("a record was not acknowledged within 30 s")
                took.append(time.perf_counter() - sent)
                advance(1)
        found = _result("latency", records, size, time.monotonic() - began)
    shares = {f"p{name}_ms": _share(took, part) for name, part in (("50", 0.5), ("95", 0.95), ("99", 0.99))}
    show_one({**found, **shares, "max_ms": _share(took, 1.0)}, output)
