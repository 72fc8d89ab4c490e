"""kafka-verifiable-producer: writes increasing numbers and prints for each whether it was acknowledged."""

from __future__ import annotations

import signal
import sys
import time
from typing import TYPE_CHECKING

from headrace.cli.kafka_tools.support.connection_check import require_cluster, require_writable_topic, sentences
from headrace.cli.kafka_tools.support.events import emit
from headrace.cli.kafka_tools.support.librdkafka import explain, quiet_log, settings
from headrace.cli.kafka_tools.support.options import Arguments, Option
from headrace.cli.kafka_tools.support.tool import CONNECTION, bootstrap_address, command_properties, guarded

if TYPE_CHECKING:
    from headrace.cli.support.kafka_client import ClientError, Message

OPTIONS = (
    *CONNECTION,
    Option("topic", "The topic to write to.", "topic", required=True),
    Option("max-messages", "How many records; -1 for no end.", "number", int, default=-1),
    Option("throughput", "Records a second at the most; -1 for no limit.", "number", int, default=-1),
    Option("acks", "0, 1 or -1.", "acks", default="-1"),
    Option("message-create-time", "The first record's timestamp; -1 for now.", "ms", int, default=-1),
    Option("value-prefix", "Values become prefix.number.", "number"),
    Option("repeating-keys", "Keys count from 0 to this and begin again.", "number", int),
)


@sentences()
def run(arguments: Arguments) -> int:
    from confluent_kafka import Producer

    java = command_properties(arguments) | {"acks": arguments["acks"], "retries": "0"}
    own = {"bootstrap.servers": bootstrap_address(arguments), "linger.ms": "0", **quiet_log()}
    chosen = {**settings(java, producer=True), **own}
    require_cluster(chosen)
    producer = Producer(chosen)
    require_writable_topic(producer, arguments["topic"])
    stopping: list[int] = []
    for kind in (signal.SIGTERM, signal.SIGINT):
        signal.signal(kind, lambda number, frame: stopping.append(number))
    acknowledged = 0

    def delivered(error: ClientError | None, message: Message) -> None:
        nonlocal acknowledged
        key, value = message.key(), message.value()
        record = {"key": None if key is None else key.decode(), "value": None if value is None else value.decode()}
        if error is not None:
            emit("producer_send_error", topic=message.topic(), **record, exception=error.name(), message=explain(error))
            return
        acknowledged += 1
        place = {"offset": message.offset(), "topic": message.topic(), "partition": message.partition()}
        emit("producer_send_success", **record, **place)

    emit("startup_complete")
    began = time.monotonic()
    sent, total, rate = 0, arguments["max-messages"], arguments["throughput"]
    while not stopping and (total < 0 or sent < total):
        value = f"{arguments['value-prefix']}.{sent}" if arguments.given("value-prefix") else str(sent)
        key = None if not arguments["repeating-keys"] else str(sent % arguments["repeating-keys"])
        stamp = {} if arguments["message-create-time"] < 0 else {"timestamp": arguments["message-create-time"] + sent}
        try:
            producer.produce(arguments["topic"], value=value, key=key, on_delivery=delivered, **stamp)
        except BufferError:
            producer.poll(0.05)
            continue
        sent += 1
        ahead = sent / rate - (time.monotonic() - began) if rate > 0 else 0.0
        producer.poll(max(ahead, 0.0))
    producer.flush(30)
    elapsed = max(time.monotonic() - began, 1e-3)
    emit("shutdown_complete")
    emit("tool_data", sent=sent, acked=acknowledged, target_throughput=rate, avg_throughput=acknowledged / elapsed)
    return 0


def main() -> int:
    return guarded("Write increasing numbers and tell which were acknowledged.", OPTIONS, run)


if __name__ == "__main__":
    sys.exit(main())
