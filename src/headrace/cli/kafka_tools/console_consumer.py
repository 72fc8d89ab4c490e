"""kafka-console-consumer: records of topics to standard output."""

from __future__ import annotations

import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headrace.cli.kafka_tools.formatters import CannotFormat, Formatter, Shown, formatter
from headrace.cli.kafka_tools.librdkafka import explain, quiet_log, settings, warn_deprecated
from headrace.cli.kafka_tools.options import Arguments, Option, UsageError, properties
from headrace.cli.kafka_tools.running import CONNECTION, ToolFailed, bootstrap_address, command_properties, guarded
from headrace.kernel.ids import OTHER_SPELLINGS

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


def formatter_properties(arguments: Arguments) -> dict[str, str]:
    found: dict[str, str] = {}
    if arguments.given("formatter-config"):
        from headrace.config import parse_properties

        found |= parse_properties(Path(arguments["formatter-config"]).read_text())
    if arguments.given("property"):
        warn_deprecated("property", "formatter-property")
        found |= properties(arguments["property"], "property")
    found |= properties(arguments["formatter-property"], "formatter-property")
    for name in ("key", "value"):
        if arguments.given(f"{name}-deserializer"):
            found[f"{name}.deserializer"] = arguments[f"{name}-deserializer"]
    return found


def consumer_settings(arguments: Arguments) -> dict[str, Any]:
    java = command_properties(arguments) | properties(arguments["command-property"], "command-property")
    own_group = arguments["group"] or java.get("group.id")
    java["group.id"] = own_group or f"console-consumer-{random.randrange(100_000)}"
    java.setdefault("auto.offset.reset", "earliest" if arguments["from-beginning"] else "latest")
    # A group made up for one run has no future to remember positions for.
    java.setdefault("enable.auto.commit", "true" if own_group else "false")
    java["isolation.level"] = arguments["isolation-level"]
    java["client.id"] = java.get("client.id", "console-consumer")
    return {
        **settings(java, producer=False),
        "bootstrap.servers": bootstrap_address(arguments),
        "topic.metadata.refresh.interval.ms": "5000",
        "allow.auto.create.topics": "true",
        "enable.partition.eof": "true",
        "enable.auto.offset.store": "false",
        **quiet_log(),
    }


def _start(consumer: Any, arguments: Arguments) -> None:
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaException, TopicPartition

    if arguments["partition"] is None:
        pattern = (
            f"^({arguments['include']})$"
            if arguments.given("include")
            else OTHER_SPELLINGS.get(arguments["topic"], str(arguments["topic"]))
        )
        try:
            consumer.subscribe([pattern])
        except KafkaException as error:
            wrong = arguments["include"] or arguments["topic"]
            raise ToolFailed(f"{wrong!r} is no topic and no regular expression of topics") from error
        return
    offset = (arguments["offset"] or ("earliest" if arguments["from-beginning"] else "latest")).lower()
    position = {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END}.get(offset)
    consumer.assign(
        [TopicPartition(arguments["topic"], arguments["partition"], int(offset) if position is None else position)]
    )


def _messages(consumer: Any, arguments: Arguments) -> Iterator[Any]:
    """Messages until the limit, the time-out or an interrupt."""
    from confluent_kafka import KafkaError, TopicPartition

    limit, timeout_ms = arguments["max-messages"], arguments["timeout-ms"]
    given = 0
    last = time.monotonic()
    while limit is None or given < limit:
        wait = 1.0 if timeout_ms is None else min(1.0, timeout_ms / 1000)
        message = consumer.poll(wait)
        if message is None:
            if timeout_ms is not None and (time.monotonic() - last) * 1000 >= timeout_ms:
                return
            continue
        error = message.error()
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            # A partition without records has a position too, as with Kafka's consumer: the group's next run starts here
            # and does not miss what was written in between.
            _store(consumer, offsets=[TopicPartition(message.topic(), message.partition(), message.offset())])
            continue
        if error is not None:
            # An unknown topic may still be created; the rest that is not fatal librdkafka mends by itself.
            if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART or (error.retriable() and not error.fatal()):
                continue
            raise ToolFailed(explain(error))
        last = time.monotonic()
        given += 1
        yield message
        _store(consumer, message=message)


def _store(consumer: Any, **position: Any) -> None:
    """What the group commits next for this partition."""
    from confluent_kafka import KafkaException

    try:
        consumer.store_offsets(**position)
    except KafkaException:
        pass  # a rebalance took the partition away: its position is the next owner's


def _shown(message: Any) -> Shown:
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
    from confluent_kafka import Consumer, KafkaException

    if arguments["formatter"] != DEFAULT_FORMATTER:
        # Formatters of the coordinators' own topics are rarely asked for and cost time to load.
        import headrace.cli.kafka_tools.internal_records  # noqa: F401
    show: Formatter = formatter(arguments["formatter"], formatter_properties(arguments))
    try:
        consumer = Consumer(consumer_settings(arguments))
    except KafkaException as error:
        raise ToolFailed(explain(error.args[0])) from error
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    printed = 0
    out = sys.stdout.buffer
    try:
        _start(consumer, arguments)
        for message in _messages(consumer, arguments):
            printed += 1
            try:
                text = show(_shown(message))
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
