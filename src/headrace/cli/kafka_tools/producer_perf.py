"""kafka-producer-perf-test: measures the throughput of a producer."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.cli.kafka_tools.support.connection_check import require_cluster, require_writable_topic, sentences
from headrace.cli.kafka_tools.support.latencies import Latencies
from headrace.cli.kafka_tools.support.librdkafka import explain, quiet_log, settings
from headrace.cli.kafka_tools.support.options import Arguments, Option, UsageError, properties
from headrace.cli.kafka_tools.support.tool import ToolFailed, command_properties, guarded
from headrace.kernel.plurals import counted

if TYPE_CHECKING:
    from headrace.cli.support.kafka_client import ClientError, Delivered, Message
    from headrace.cli.support.kafka_client import Producer as KafkaProducer

OPTIONS = (
    Option("bootstrap-server", "The broker to connect to.", "host:port"),
    Option("command-config", "A properties file with client settings.", "file", also=("producer.config",)),
    Option("topic", "The topic to write to.", "topic", required=True),
    Option("num-records", "How many records.", "number", int, required=True),
    Option("record-size", "Bytes of each record.", "bytes", int),
    Option("payload-file", "Take values from this file.", "file"),
    Option("payload-delimiter", "What separates values in the file.", "text", default="\\n"),
    Option("payload-monotonic", "Values are the record numbers."),
    Option("throughput", "Records a second at the most; -1 for no limit.", "number", float, default=-1.0),
    Option("producer-props", "Client settings: name=value …", "name=value", repeated=True, also=("command-property",)),
    Option("transactional-id", "Write in transactions under this id.", "id"),
    Option("transaction-duration-ms", "Commit a transaction after this long.", "ms", int),
    Option("print-metrics", "Accepted; librdkafka keeps its own statistics."),
    Option("warmup-records", "Records that do not count.", "number", int, default=0),
    Option("reporting-interval", "How often to report.", "ms", int, default=5000),
)


def spread_producer_props(argv: list[str]) -> list[str]:
    """`--producer-props a=1 b=2` takes several arguments. Converts each to a separate option."""
    words: list[str] = []
    taking = False
    for word in argv:
        if word == "--producer-props":
            taking = True
        elif taking and not word.startswith("--"):
            words += ["--producer-props", word]
        else:
            taking = False
            words.append(word)
    return words


def check(arguments: Arguments) -> None:
    sources = [name for name in ("record-size", "payload-file", "payload-monotonic") if arguments.given(name)]
    if len(sources) != 1:
        raise UsageError("one of --record-size, --payload-file or --payload-monotonic is required")


def payloads(arguments: Arguments) -> Callable[[int], bytes]:
    if arguments["payload-monotonic"]:
        return lambda number: str(number).encode()
    if arguments.given("payload-file"):
        delimiter = arguments["payload-delimiter"].encode().decode("unicode_escape").encode()
        values = [value for value in Path(arguments["payload-file"]).read_bytes().split(delimiter) if value]
        if not values:
            raise ToolFailed(f"payload file {arguments['payload-file']} is empty")
        return lambda number: random.choice(values)
    value = bytes(random.randrange(65, 91) for _ in range(arguments["record-size"]))
    return lambda number: value


class Report:
    """Counts acknowledged records. Prints a line at intervals and one at the end."""

    def __init__(self, arguments: Arguments) -> None:
        self._interval = arguments["reporting-interval"] / 1000
        self._expected = arguments["num-records"]
        self.total = Latencies(self._expected)
        self._window = Latencies(self._expected)
        self._bytes = self._window_bytes = 0
        self.began = self._window_began = time.monotonic()

    def acknowledged(self, latency_ms: float, size: int) -> None:
        self.total.add(latency_ms)
        self._window.add(latency_ms)
        self._bytes += size
        self._window_bytes += size
        elapsed = time.monotonic() - self._window_began
        if elapsed >= self._interval and self.total.count < self._expected:
            rate = self._window.count / elapsed
            speed = f"{rate:.1f} records/sec ({self._window_bytes / elapsed / 2**20:.2f} MB/sec)"
            delay = f"{self._window.average:.1f} ms avg latency, {self._window.maximum:.1f} ms max latency"
            print(f"{self._window.count} records sent, {speed}, {delay}.")
            self._window = Latencies(self._expected)
            self._window_bytes = 0
            self._window_began = time.monotonic()

    def finish(self) -> None:
        elapsed = max(time.monotonic() - self.began, 1e-9)
        p50, p95, p99, p999 = self.total.percentiles(0.5, 0.95, 0.99, 0.999)
        print(
            f"{self.total.count} records sent, {self.total.count / elapsed:f} records/sec "
            f"({self._bytes / elapsed / 2**20:.2f} MB/sec), {self.total.average:.2f} ms avg latency, "
            f"{self.total.maximum:.2f} ms max latency, {p50:.0f} ms 50th, {p95:.0f} ms 95th, {p99:.0f} ms 99th, "
            f"{p999:.0f} ms 99.9th."
        )


def producer_settings(arguments: Arguments) -> dict[str, object]:
    java = command_properties(arguments) | properties(arguments["producer-props"], "producer-props")
    if arguments.given("bootstrap-server"):
        java["bootstrap.servers"] = arguments["bootstrap-server"]
    if "bootstrap.servers" not in java:
        raise UsageError("--bootstrap-server is required (or bootstrap.servers in --producer-props)")
    if arguments.given("transactional-id"):
        java["transactional.id"] = arguments["transactional-id"]
    return {"queue.buffering.max.messages": "1000000", "linger.ms": "5", **settings(java, producer=True), **quiet_log()}


@sentences()
def run(arguments: Arguments) -> int:
    from confluent_kafka import Producer

    value_of = payloads(arguments)
    chosen = producer_settings(arguments)
    require_cluster(chosen)
    producer = Producer(chosen)
    require_writable_topic(producer, arguments["topic"])
    transactional = arguments.given("transactional-id")
    if transactional:
        producer.init_transactions(60)
        producer.begin_transaction()
    failures = _send(producer, arguments, value_of, transactional)
    if failures:
        raise ToolFailed(f"{counted(len(failures), 'record')} not written; the first: {failures[0]}")
    return 0


def _send(
    producer: KafkaProducer, arguments: Arguments, value_of: Callable[[int], bytes], transactional: bool
) -> list[str]:
    report = Report(arguments)
    failures: list[str] = []
    total, limit = arguments["num-records"], arguments["throughput"]
    commit_after = (arguments["transaction-duration-ms"] or 1000) / 1000
    transaction_began = report.began

    def sent(began: float, size: int) -> Delivered:
        def delivered(error: ClientError | None, message: Message) -> None:
            if error is not None:
                failures.append(explain(error))
            else:
                report.acknowledged((time.monotonic() - began) * 1000, size)

        return delivered

    for number in range(total):
        value = value_of(number)
        while True:
            try:
                producer.produce(arguments["topic"], value=value, on_delivery=sent(time.monotonic(), len(value)))
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
        if limit > 0 and (ahead := (number + 1) / limit - (time.monotonic() - report.began)) > 0:
            producer.poll(ahead)
        if transactional and time.monotonic() - transaction_began >= commit_after:
            producer.commit_transaction()
            producer.begin_transaction()
            transaction_began = time.monotonic()
    if transactional:
        producer.commit_transaction()
    producer.flush()
    report.finish()
    return failures


def main(argv: list[str] | None = None) -> int:
    words = spread_producer_props(sys.argv[1:] if argv is None else argv)
    return guarded("Measure how fast records can be written.", OPTIONS, run, words, check=check)


if __name__ == "__main__":
    sys.exit(main())
