"""kafka-e2e-latency: measures the time of single records from producer to consumer."""

from __future__ import annotations

import secrets
import sys
import time
from typing import TYPE_CHECKING

from headrace.cli.kafka_tools.support.connection_check import existing_topics, require_cluster, sentences
from headrace.cli.kafka_tools.support.latencies import Latencies
from headrace.cli.kafka_tools.support.librdkafka import explain, quiet_log, settings
from headrace.cli.kafka_tools.support.options import Arguments, Option, UsageError
from headrace.cli.kafka_tools.support.tool import CONNECTION, ToolFailed, bootstrap_address, command_properties, guarded

if TYPE_CHECKING:
    from headrace.cli.support.kafka_client import Consumer as KafkaConsumer
    from headrace.cli.support.kafka_client import Producer as KafkaProducer

OPTIONS = (
    *CONNECTION,
    Option("topic", "The topic; made when it is missing.", "topic", required=True),
    Option("num-records", "How many records.", "number", int, required=True),
    Option("producer-acks", "1 or all.", "acks", required=True),
    Option("record-size", "Bytes of each record.", "bytes", int, required=True),
)
_ORDER = ("bootstrap-server", "topic", "num-records", "producer-acks", "record-size", "command-config")
_PATIENCE_SECONDS = 60.0
_PAUSE_SECONDS = 0.05


def name_positions(argv: list[str]) -> list[str]:
    """Converts the old positional form `broker topic records acks size [file]` to options."""
    if not argv or argv[0].startswith("--"):
        return argv
    print(
        "WARNING: positional arguments are the old way; name them: " + ", ".join(f"--{n}" for n in _ORDER),
        file=sys.stderr,
    )
    return [part for name, value in zip(_ORDER, argv, strict=False) for part in (f"--{name}", value)]


def check(arguments: Arguments) -> None:
    if arguments["producer-acks"] not in ("1", "all"):
        raise UsageError("Latency testing requires synchronous acknowledgement: --producer-acks must be 1 or all")


@sentences()
def run(arguments: Arguments) -> int:
    from confluent_kafka import Consumer, Producer

    bootstrap = {"bootstrap.servers": bootstrap_address(arguments), **quiet_log()}
    java = command_properties(arguments)
    acks = {"acks": arguments["producer-acks"], "linger.ms": "0"}
    require_cluster({**java, **bootstrap})
    producer = Producer({**settings(java, producer=True), **acks, **bootstrap})
    consumer = Consumer(
        {
            **settings(java, producer=False),
            "group.id": f"test-group-{time.time_ns()}",
            "auto.offset.reset": "latest",
            "enable.auto.commit": "false",
            "fetch.wait.max.ms": "100",
            **bootstrap,
        }
    )
    _create_if_missing(producer, {**settings(java, producer=False), **bootstrap}, arguments["topic"])
    latencies = Latencies(arguments["num-records"])
    try:
        _assign_at_end(producer, consumer, arguments["topic"])
        for number in range(arguments["num-records"]):
            took = _round_trip(producer, consumer, arguments["topic"], arguments["record-size"])
            latencies.add(took)
            if number % 1000 == 0:
                print(f"{number}\t{took:f}")
    finally:
        consumer.close()
    p50, p99, p999 = latencies.percentiles(0.5, 0.99, 0.999)
    print(
        f"Avg latency: {latencies.average:.4f} ms\nPercentiles: 50th = {p50:.0f}, 99th = {p99:.0f}, 99.9th = {p999:.0f}"
    )
    return 0


def _create_if_missing(producer: KafkaProducer, chosen: dict[str, object], topic: str) -> None:
    """Creates the topic with one partition and one replica, as Kafka's tool does."""
    from confluent_kafka.admin import AdminClient, NewTopic

    if topic in existing_topics(producer):
        return
    admin = AdminClient(chosen)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(_PATIENCE_SECONDS)
    while topic not in existing_topics(producer):
        time.sleep(_PAUSE_SECONDS)


def _assign_at_end(producer: KafkaProducer, consumer: KafkaConsumer, topic: str) -> None:
    from confluent_kafka import TopicPartition

    found = producer.list_topics(topic, timeout=_PATIENCE_SECONDS).topics[topic]
    positions = []
    for partition in found.partitions:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_PATIENCE_SECONDS)
        positions.append(TopicPartition(topic, partition, end))
    consumer.assign(positions)


def _round_trip(producer: KafkaProducer, consumer: KafkaConsumer, topic: str, size: int) -> float:
    value = secrets.token_bytes(size)
    began = time.monotonic()
    producer.produce(topic, value=value)
    producer.flush()
    message = consumer.poll(_PATIENCE_SECONDS)
    took = (time.monotonic() - began) * 1000
    if message is None:
        raise ToolFailed(
            f"poll() timed out before finding a result: nothing came back from {topic} in {_PATIENCE_SECONDS:.0f} s"
        )
    if message.error():
        raise ToolFailed(explain(message.error()))
    if message.value() != value:
        raise ToolFailed(f"the record read from {topic} is not the one written: another client writes to the topic")
    return took


def main(argv: list[str] | None = None) -> int:
    words = name_positions(list(sys.argv[1:] if argv is None else argv))
    return guarded("Measure the latency from producer to consumer.", OPTIONS, run, words, check=check)


if __name__ == "__main__":
    sys.exit(main())
