"""kafka-console-producer: writes lines from standard input to a topic."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.cli.kafka_tools.support.connection_check import require_cluster, require_writable_topic, sentences
from headrace.cli.kafka_tools.support.librdkafka import explain, quiet_log, settings, warn_deprecated
from headrace.cli.kafka_tools.support.line_reader import Line, LineReader
from headrace.cli.kafka_tools.support.options import Arguments, Option, UsageError, properties
from headrace.cli.kafka_tools.support.outages import Outages
from headrace.cli.kafka_tools.support.tool import CONNECTION, bootstrap_address, client_id, command_properties, guarded

if TYPE_CHECKING:
    from headrace.cli.support.kafka_client import ClientError, Message
    from headrace.cli.support.kafka_client import Producer as KafkaProducer

_LOOK_SECONDS = 0.5
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
OPTIONS = (
    *CONNECTION,
    Option("topic", "The topic to write to.", "topic", required=True),
    Option("sync", "Wait for each record to be acknowledged before the next."),
    Option("compression-codec", "none, gzip, snappy, lz4 or zstd.", "codec"),
    Option("batch-size", "Bytes of a batch.", "bytes", int, also=("max-partition-memory-bytes",)),
    Option("message-send-max-retries", "Tries again after a failure.", "number", int),
    Option("retry-backoff-ms", "Pause between tries.", "ms", int),
    Option("timeout", "How long records wait for company in a batch.", "ms", int),
    Option("request-required-acks", "0, 1 or all (-1).", "acks", default="-1"),
    Option("request-timeout-ms", "How long the broker may take to acknowledge.", "ms", int),
    Option("metadata-expiry-ms", "How old metadata may grow.", "ms", int),
    Option("max-block-ms", "How long to wait for a topic that the broker has yet to create.", "ms", int, default=5000),
    Option("max-memory-bytes", "Memory for records not yet sent.", "bytes", int),
    Option("socket-buffer-size", "Socket buffer.", "bytes", int),
    Option("line-reader", "Only the line reader is built in.", "class"),
    Option("reader-property", "parse.key, key.separator, parse.headers, null.marker, …", "name=value", repeated=True),
    Option("property", "The older spelling of --reader-property.", "name=value", repeated=True),
    Option("reader-config", "A properties file for the reader.", "file"),
    Option("command-property", "A client setting.", "name=value", repeated=True, also=("producer-property",)),
)
_BY_OPTION = {
    "compression-codec": "compression.type",
    "batch-size": "batch.size",
    "message-send-max-retries": "retries",
    "retry-backoff-ms": "retry.backoff.ms",
    "timeout": "linger.ms",
    "request-required-acks": "acks",
    "request-timeout-ms": "request.timeout.ms",
    "metadata-expiry-ms": "metadata.max.age.ms",
    "max-memory-bytes": "buffer.memory",
    "socket-buffer-size": "send.buffer.bytes",
}


def check(arguments: Arguments) -> None:
    codec = arguments["compression-codec"]
    if codec is not None and codec not in CODECS:
        raise UsageError(f"--compression-codec {codec!r}: must be one of {', '.join(CODECS)}")
    reader = arguments["line-reader"]
    if reader is not None and not reader.rsplit(".", 1)[-1].startswith("LineMessageReader"):
        raise UsageError(f"--line-reader {reader!r}: only LineMessageReader is built in")


def reader_properties(arguments: Arguments, *, warns: bool = True) -> dict[str, str]:
    found: dict[str, str] = {}
    if arguments.given("reader-config"):
        from headrace.config import parse_properties

        found |= parse_properties(Path(arguments["reader-config"]).read_text())
    if arguments.given("property"):
        if warns:
            warn_deprecated("property", "reader-property", prefix="Warning:")
        found |= properties(arguments["property"], "property")
    return found | properties(arguments["reader-property"], "reader-property")


def producer_settings(arguments: Arguments) -> dict[str, object]:
    # Delivery time-out of Kafka's producer; librdkafka's default is five minutes.
    java = {"client.id": "console-producer", "linger.ms": "1000", "delivery.timeout.ms": "120000"}
    java |= {name: str(arguments[option]) for option, name in _BY_OPTION.items() if arguments[option] is not None}
    java |= command_properties(arguments) | properties(arguments["command-property"], "command-property")
    if _allows_idempotence(java):
        java.setdefault("enable.idempotence", "true")
    # Java hashes keys with murmur2. All clients must put a key into the same partition.
    return {
        "partitioner": "murmur2_random",
        **settings(java, producer=True),
        "bootstrap.servers": bootstrap_address(arguments),
    }


def _allows_idempotence(java: Mapping[str, str]) -> bool:
    """Kafka's producers are idempotent unless another setting excludes it. librdkafka's are not."""
    return (
        java.get("acks", "-1").strip() in ("-1", "all")
        and java.get("retries", "").strip() != "0"
        and java.get("max.in.flight.requests.per.connection", "5").strip() in ("1", "2", "3", "4", "5")
    )


def run(arguments: Arguments) -> int:
    return produce_lines(arguments, lambda line: line)


@sentences()
def produce_lines(arguments: Arguments, encode: Callable[[Line], Line]) -> int:
    """`encode` gets each line as a record, and returns what to send."""
    from confluent_kafka import Producer

    reader = LineReader(reader_properties(arguments))
    failures: list[str] = []

    def delivered(error: ClientError | None, message: Message) -> None:
        if error is not None:
            failures.append(f"a record for {message.topic()} was not written: {explain(error)}")
            print(f"{client_id()}: {failures[-1]}", file=sys.stderr)

    chosen, outages = producer_settings(arguments), Outages()
    require_cluster(chosen)
    producer = Producer({**chosen, **quiet_log(), "error_cb": outages.heard})
    topic = str(arguments["topic"])
    require_writable_topic(producer, topic, timeout_s=arguments["max-block-ms"] / 1000)
    interactive = sys.stdin.isatty()
    try:
        for number, text in enumerate(_lines(interactive), start=1):
            line = encode(reader.parse(text, number))
            while True:
                try:
                    producer.produce(
                        topic, value=line.value, key=line.key, headers=list(line.headers), on_delivery=delivered
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
            # At a prompt, the record must be written before the next prompt appears.
            if arguments["sync"] or interactive:
                _deliver_all(producer, outages)
    finally:
        _deliver_all(producer, outages)
    return 1 if failures else 0


def _deliver_all(producer: KafkaProducer, outages: Outages) -> None:
    """Waits until every record is acknowledged or has failed after delivery.timeout.ms. Ctrl-C ends it."""
    while producer.flush(_LOOK_SECONDS):
        outages.look(producer)


def _lines(interactive: bool) -> Iterator[str]:
    stream = sys.stdin
    stream.reconfigure(errors="surrogateescape")  # type: ignore[union-attr]
    while True:
        if interactive:
            print(">", end="", flush=True)
        text = stream.readline()
        if not text:
            return
        yield text.rstrip("\n").removesuffix("\r")


def main() -> int:
    return guarded("Read lines from standard input and write them to a topic.", OPTIONS, run, check=check)


if __name__ == "__main__":
    sys.exit(main())
