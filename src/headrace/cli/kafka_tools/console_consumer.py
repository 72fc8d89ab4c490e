"""kafka-console-consumer: prints records of topics to standard output."""

from __future__ import annotations

import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from headrace.cli.kafka_tools.support.connection_check import (
    CONTACT_SECONDS,
    existing_topics,
    missing_topic,
    require_cluster,
    sentences,
)
from headrace.cli.kafka_tools.support.formatters import CannotFormat, Formatter, Shown, formatter
from headrace.cli.kafka_tools.support.librdkafka import explain, quiet_log, settings, warn_deprecated
from headrace.cli.kafka_tools.support.options import Arguments, Option, UsageError, properties
from headrace.cli.kafka_tools.support.outages import Outages
from headrace.cli.kafka_tools.support.tool import CONNECTION, ToolFailed, bootstrap_address, command_properties, guarded
from headrace.kernel.ids import OTHER_SPELLINGS

if TYPE_CHECKING:
    from headrace.cli.support.kafka_client import Consumer as KafkaConsumer
    from headrace.cli.support.kafka_client import Message, Position, TopicMetadata

DEFAULT_FORMATTER = "DefaultMessageFormatter"
OPTIONS = (
    *CONNECTION,
    Option("topic", "The topic to read.", "topic"),
    Option("include", "A regular expression of topics to read.", "regex", also=("whitelist",)),
    Option("partition", "Read this partition only.", "number", int),
    Option("offset", "Where to begin: a number, earliest or latest.", "offset"),
    Option("from-beginning", "Begin with the oldest record when the group has no position yet."),
    Option("group", "The consumer group; one of its own when none is given.", "group"),
    Option("max-messages", "Stop after this many records.", "number", int),
    Option("timeout-ms", "Stop when no record comes for this long.", "ms", int),
    Option("isolation-level", "read_committed or read_uncommitted.", "level", default="read_uncommitted"),
    Option("formatter", "The formatter's class name.", "class", default=DEFAULT_FORMATTER),
    Option("formatter-property", "print.key, key.separator, value.deserializer, …", "name=value", repeated=True),
    Option("property", "The older spelling of --formatter-property.", "name=value", repeated=True),
    Option("formatter-config", "A properties file for the formatter.", "file"),
    Option("key-deserializer", "How keys become text.", "class"),
    Option("value-deserializer", "How values become text.", "class"),
    Option("skip-message-on-error", "Go on after a record that cannot be printed."),
    Option("enable-systest-events", "Accepted for old scripts."),
    Option("command-property", "A client setting.", "name=value", repeated=True, also=("consumer-property",)),
)
_TIMESTAMP_TYPES = {0: "NoTimestampType", 1: "CreateTime", 2: "LogAppendTime"}


def check(arguments: Arguments) -> None:
    if sum(arguments.given(name) for name in ("topic", "include")) != 1:
        raise UsageError("Exactly one of the following arguments is required: [topic], [include]")
    if arguments["partition"] is None and arguments["offset"] is not None:
        raise UsageError("The partition is required when offset is specified.")
    if arguments["partition"] is not None and not arguments.given("topic"):
        raise UsageError("The topic is required when partition is specified.")
    if arguments["partition"] is not None and arguments.given("group"):
        raise UsageError("Options group and partition cannot be specified together.")
    if arguments["from-beginning"] and arguments["offset"] is not None:
        raise UsageError("Options from-beginning and offset cannot be specified together.")
    offset = arguments["offset"]
    if offset is not None and offset.lower() not in ("earliest", "latest") and not offset.isdecimal():
        raise UsageError(
            f"The provided offset value '{offset}' is incorrect. "
            "Valid values are 'earliest', 'latest', or a non-negative long."
        )
    if arguments["isolation-level"] not in ("read_committed", "read_uncommitted"):
        raise UsageError(
            f"--isolation-level {arguments['isolation-level']!r}: must be read_committed or read_uncommitted"
        )


def formatter_properties(arguments: Arguments, *, warns: bool = True) -> dict[str, str]:
    found: dict[str, str] = {}
    if arguments.given("formatter-config"):
        from headrace.config import parse_properties

        found |= parse_properties(Path(arguments["formatter-config"]).read_text())
    if arguments.given("property"):
        if warns:
            warn_deprecated("property", "formatter-property")
        found |= properties(arguments["property"], "property")
    found |= properties(arguments["formatter-property"], "formatter-property")
    for name in ("key", "value"):
        if arguments.given(f"{name}-deserializer"):
            found[f"{name}.deserializer"] = arguments[f"{name}-deserializer"]
    return found


def consumer_settings(arguments: Arguments) -> dict[str, object]:
    java = command_properties(arguments) | properties(arguments["command-property"], "command-property")
    own_group = arguments["group"] or java.get("group.id")
    java["group.id"] = own_group or f"console-consumer-{random.randrange(100_000)}"
    java.setdefault("auto.offset.reset", "earliest" if arguments["from-beginning"] else "latest")
    # A generated group id is used once, so its offsets need no commit.
    java.setdefault("enable.auto.commit", "true" if own_group else "false")
    java["isolation.level"] = arguments["isolation-level"]
    java["client.id"] = java.get("client.id", "console-consumer")
    return {
        **settings(java, producer=False),
        "bootstrap.servers": bootstrap_address(arguments),
        # Finds a new topic soon. A pattern requests the metadata of all topics.
        "topic.metadata.refresh.interval.ms": "1000" if arguments.given("topic") else "5000",
        "enable.partition.eof": "true",
        "enable.auto.offset.store": "false",
    }


class _Source:
    """Reads records from the subscription, and finds the reason if none arrive."""

    def __init__(self, consumer: KafkaConsumer, arguments: Arguments, outages: Outages) -> None:
        self._consumer, self._arguments, self._outages = consumer, arguments, outages
        name = arguments["topic"]
        self._topic: str | None = None if name is None else OTHER_SPELLINGS.get(name, str(name))
        self._is_assigned = False

    def start(self, timeout_s: float) -> None:
        known = existing_topics(self._consumer, timeout_s)
        if self._arguments["partition"] is not None:
            self._assign(known)
            return
        if self._topic is not None and self._topic not in known:
            print(f"{missing_topic(self._topic, known)} Waiting for it.", file=sys.stderr)
        pattern = self._topic if self._topic is not None else f"^({self._arguments['include']})$"
        try:
            self._consumer.subscribe([pattern], on_assign=self._assigned)
        except KafkaException as error:
            wrong = self._arguments["include"] or self._topic
            raise ToolFailed(f"{wrong!r} is no topic and no regular expression of topics") from error

    def _assigned(self, consumer: KafkaConsumer, partitions: list[Position]) -> None:
        self._is_assigned = True

    def _assign(self, known: Mapping[str, TopicMetadata]) -> None:
        topic, partition = str(self._topic), self._arguments["partition"]
        if topic not in known:
            raise ToolFailed(missing_topic(topic, known))
        if partition not in known[topic].partitions:
            raise ToolFailed(f"topic {topic!r} has partitions 0 to {len(known[topic].partitions) - 1}, not {partition}")
        offset = self._arguments["offset"] or ("earliest" if self._arguments["from-beginning"] else "latest")
        position = {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END}.get(offset.lower())
        self._consumer.assign([TopicPartition(topic, partition, int(offset) if position is None else position)])
        self._is_assigned = True

    def messages(self) -> Iterator[Message]:
        """Records until the limit, the time-out or an interrupt. As in Kafka, the time-out includes joining the group.
        Raises ToolFailed if it ended for another reason than a lack of records."""
        limit, timeout_ms = self._arguments["max-messages"], self._arguments["timeout-ms"]
        given = 0
        last = time.monotonic()
        while limit is None or given < limit:
            message = self._consumer.poll(1.0 if timeout_ms is None else min(1.0, timeout_ms / 1000))
            if message is None:
                if timeout_ms is not None and (time.monotonic() - last) * 1000 >= timeout_ms:
                    self._check_that_it_could_read(timeout_ms)
                    return
                self._outages.look(self._consumer)
                continue
            error = message.error()
            if error is None:
                last = time.monotonic()
                given += 1
                yield message
                _store(self._consumer, message=message)
            elif error.code() == KafkaError._PARTITION_EOF:
                # As in Kafka's consumer, a partition without records has a position too, so that the group's next run
                # starts here and does not miss records written in between.
                end = TopicPartition(message.topic(), message.partition(), message.offset())
                _store(self._consumer, offsets=[end])
            elif error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART and (error.fatal() or not error.retriable()):
                # An unknown topic may still be created. librdkafka recovers from other errors that are not fatal.
                raise ToolFailed(explain(error))

    def _check_that_it_could_read(self, timeout_ms: int) -> None:
        if self._outages.lasts(self._consumer):
            raise ToolFailed("no broker answers any more")
        if self._is_assigned:
            return
        known = existing_topics(self._consumer)
        if self._topic is None:
            raise ToolFailed(f"no topic matches {self._arguments['include']!r}")
        if self._topic not in known:
            raise ToolFailed(missing_topic(self._topic, known))
        raise ToolFailed(
            f"the group assigned no partitions within {timeout_ms} ms: a new group waits for more members "
            "(group.initial.rebalance.delay.ms), others for members that are gone. Give a longer --timeout-ms."
        )


def _store(consumer: KafkaConsumer, message: Message | None = None, offsets: list[Position] | None = None) -> None:
    """Stores the offset that the group commits next for this partition."""
    try:
        consumer.store_offsets(message) if offsets is None else consumer.store_offsets(offsets=offsets)
    except KafkaException:
        pass  # a rebalance revoked the partition: its new owner commits the offset


def shown(message: Message) -> Shown:
    kind, timestamp = message.timestamp()
    return Shown(
        topic=message.topic(),
        partition=message.partition(),
        offset=message.offset(),
        timestamp_type=_TIMESTAMP_TYPES.get(kind, "NoTimestampType"),
        timestamp_ms=timestamp,
        leader_epoch=message.leader_epoch(),
        headers=tuple(message.headers() or ()),
        key=message.key(),
        value=message.value(),
    )


def run(arguments: Arguments) -> int:
    return print_records(arguments, lambda record: record)


@sentences()
def print_records(arguments: Arguments, decode: Callable[[Shown], Shown]) -> int:
    """`decode` gets each record, and returns what to format. It raises CannotFormat."""
    if arguments["formatter"] != DEFAULT_FORMATTER:
        # Formatters of the coordinators' topics are rarely used and slow to import.
        import headrace.cli.kafka_tools.support.internal_records  # noqa: F401
    show: Formatter = formatter(arguments["formatter"], formatter_properties(arguments))
    chosen, outages = consumer_settings(arguments), Outages()
    timeout_ms = arguments["timeout-ms"]
    contact_s = CONTACT_SECONDS if timeout_ms is None else max(3.0, min(CONTACT_SECONDS, timeout_ms / 1000))
    require_cluster(chosen, contact_s)
    consumer = Consumer({**chosen, **quiet_log(), "error_cb": outages.heard})
    source = _Source(consumer, arguments, outages)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    printed = 0
    out = sys.stdout.buffer
    try:
        source.start(contact_s)
        for message in source.messages():
            printed += 1
            try:
                text = show(decode(shown(message)))
            except CannotFormat as error:
                if not arguments["skip-message-on-error"]:
                    raise ToolFailed(
                        f"{message.topic()}-{message.partition()} at offset {message.offset()}: {error}"
                    ) from error
                continue
            if text is not None:
                out.write(text)
                out.flush()
    except KeyboardInterrupt:
        pass
    finally:
        consumer.close()
        print(f"Processed a total of {printed} messages", file=sys.stderr)
    return 0


def main() -> int:
    return guarded("Read records of topics and print them.", OPTIONS, run, check=check)


if __name__ == "__main__":
    sys.exit(main())
