"""kafka-verifiable-consumer: consumes in a group and prints every assignment, batch and commit."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

from headrace.cli.kafka_tools.support.connection_check import require_cluster, require_topic, sentences
from headrace.cli.kafka_tools.support.events import emit
from headrace.cli.kafka_tools.support.librdkafka import explain, quiet_log, settings
from headrace.cli.kafka_tools.support.options import Arguments, Option
from headrace.cli.kafka_tools.support.tool import CONNECTION, ToolFailed, bootstrap_address, command_properties, guarded

if TYPE_CHECKING:
    from headrace.cli.support.kafka_client import Consumer as KafkaConsumer
    from headrace.cli.support.kafka_client import Message, Position

OPTIONS = (
    *CONNECTION,
    Option("topic", "The topic to read.", "topic", required=True),
    Option("group-id", "The consumer group.", "group", required=True),
    Option("group-instance-id", "A static member's id.", "id"),
    Option("group-protocol", "classic or consumer.", "protocol", default="classic"),
    Option("max-messages", "How many records; -1 for no end.", "number", int, default=-1),
    Option("session-timeout", "The session time-out.", "ms", int, default=30000),
    Option("enable-autocommit", "Commit in the background."),
    Option("reset-policy", "earliest or latest.", "policy", default="earliest"),
    Option("assignment-strategy", "range, roundrobin or cooperative-sticky.", "name", default="range"),
    Option("verbose", "Tell every record."),
)


def _named(partitions: list[Position]) -> list[dict[str, object]]:
    return [{"topic": p.topic, "partition": p.partition} for p in partitions]


def consumer_settings(arguments: Arguments) -> dict[str, object]:
    java = command_properties(arguments) | {
        "group.id": arguments["group-id"],
        "auto.offset.reset": arguments["reset-policy"],
        "enable.auto.commit": str(bool(arguments["enable-autocommit"])).lower(),
        "group.protocol": arguments["group-protocol"].lower(),
    }
    if arguments.given("group-instance-id"):
        java["group.instance.id"] = arguments["group-instance-id"]
    if java["group.protocol"] == "classic":
        strategy = arguments["assignment-strategy"].rsplit(".", 1)[-1]
        known = {
            "RangeAssignor": "range",
            "RoundRobinAssignor": "roundrobin",
            "CooperativeStickyAssignor": "cooperative-sticky",
        }
        java["partition.assignment.strategy"] = known.get(strategy, strategy)
        java["session.timeout.ms"] = str(arguments["session-timeout"])
    return {**settings(java, producer=False), "bootstrap.servers": bootstrap_address(arguments), **quiet_log()}


@sentences()
def run(arguments: Arguments) -> int:
    from confluent_kafka import Consumer

    chosen = consumer_settings(arguments)
    require_cluster(chosen)
    consumer = Consumer(chosen)
    require_topic(consumer, arguments["topic"])
    stopping: list[int] = []
    for kind in (signal.SIGTERM, signal.SIGINT):
        signal.signal(kind, lambda number, frame: stopping.append(number))
    consumer.subscribe(
        [arguments["topic"]],
        on_assign=lambda _, parts: emit("partitions_assigned", partitions=_named(parts)),
        on_revoke=lambda _, parts: emit("partitions_revoked", partitions=_named(parts)),
    )
    emit("startup_complete")
    read, total = 0, arguments["max-messages"]
    try:
        while not stopping and (total < 0 or read < total):
            batch = consumer.consume(500 if total < 0 else min(500, total - read), timeout=0.2)
            for message in batch:
                if message.error():
                    raise ToolFailed(explain(message.error()))
            if batch:
                read += len(batch)
                _tell(batch, verbose=bool(arguments["verbose"]))
                if not arguments["enable-autocommit"]:
                    _commit(consumer)
    finally:
        consumer.close()
        emit("shutdown_complete")
    return 0


def _tell(batch: list[Message], *, verbose: bool) -> None:
    ranges: dict[tuple[str, int], list[int]] = {}
    for message in batch:
        ranges.setdefault((message.topic(), message.partition()), []).append(message.offset())
        if verbose:
            key, value = (
                None if part is None else part.decode(errors="replace") for part in (message.key(), message.value())
            )
            place = {"topic": message.topic(), "partition": message.partition(), "offset": message.offset()}
            emit("record_data", key=key, value=value, **place)
    summary = [
        {
            "topic": topic,
            "partition": partition,
            "count": len(offsets),
            "minOffset": min(offsets),
            "maxOffset": max(offsets),
        }
        for (topic, partition), offsets in ranges.items()
    ]
    emit("records_consumed", count=len(batch), partitions=summary)


def _commit(consumer: KafkaConsumer) -> None:
    from confluent_kafka import KafkaException

    try:
        committed = consumer.commit(asynchronous=False)
    except KafkaException as error:
        emit("offsets_committed", offsets=[], success=False, error=explain(error.args[0]))
        return
    offsets = [{"topic": p.topic, "partition": p.partition, "offset": p.offset} for p in committed or []]
    emit("offsets_committed", offsets=offsets, success=True)


def main() -> int:
    return guarded("Read in a group and tell every assignment, batch and commit.", OPTIONS, run)


if __name__ == "__main__":
    sys.exit(main())
