"""kafka-console-share-consumer: reads a topic as a member of a share group and prints the records.

Every printed record is accepted, or with `--release` and `--reject` given back or refused.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

from confluent_kafka import AcknowledgeType, Consumer, Message, ShareConsumer

from headrace.cli.kafka_tools.console_consumer import DEFAULT_FORMATTER, formatter_properties, shown
from headrace.cli.kafka_tools.support.connection_check import (
    CONTACT_SECONDS,
    existing_topics,
    missing_topic,
    require_cluster,
    sentences,
)
from headrace.cli.kafka_tools.support.formatters import CannotFormat, formatter
from headrace.cli.kafka_tools.support.librdkafka import explain, quiet_log, settings
from headrace.cli.kafka_tools.support.options import Arguments, Option, UsageError, properties
from headrace.cli.kafka_tools.support.tool import (
    ToolFailed,
    bootstrap_address,
    command_properties,
    connection_with,
    guarded,
)

_POLL_S = 0.5
OPTIONS = (
    *connection_with("consumer-config"),
    Option("topic", "The topic to read.", "topic"),
    Option("group", "The share group.", "group", default="console-share-consumer"),
    Option("max-messages", "Stop after this many records.", "number", int),
    Option("timeout-ms", "Stop when no record comes for this long.", "ms", int),
    Option("release", "Give every record back: another member gets it."),
    Option("reject", "Refuse every record: no member gets it again."),
    Option("reject-message-on-error", "Refuse a record that cannot be printed, and go on."),
    Option("formatter", "The formatter's class name.", "class", default=DEFAULT_FORMATTER),
    Option("formatter-property", "print.key, print.delivery, key.separator, …", "name=value", repeated=True),
    Option("property", "The older spelling of --formatter-property.", "name=value", repeated=True),
    Option("formatter-config", "A properties file for the formatter.", "file"),
    Option("key-deserializer", "How keys become text.", "class"),
    Option("value-deserializer", "How values become text.", "class"),
    Option("enable-systest-events", "Accepted for old scripts."),
    Option("command-property", "A client setting.", "name=value", repeated=True, also=("consumer-property",)),
)


def check(arguments: Arguments) -> None:
    if not arguments.given("topic"):
        raise UsageError("--topic is a required argument.")
    if arguments["release"] and arguments["reject"]:
        raise UsageError("At most one of --reject and --release may be specified.")


def client_settings(arguments: Arguments) -> dict[str, object]:
    java = command_properties(arguments) | properties(arguments["command-property"], "command-property")
    group = str(java.pop("group.id", arguments["group"]))
    return {
        **settings({**java, "client.id": java.get("client.id", "console-share-consumer")}, producer=False),
        "bootstrap.servers": bootstrap_address(arguments),
        "group.id": group,
    }


@sentences()
def run(arguments: Arguments) -> int:
    show = formatter(arguments["formatter"], formatter_properties(arguments))
    chosen = client_settings(arguments)
    require_cluster(chosen)
    _require_topic(chosen, arguments["topic"])
    how = (
        AcknowledgeType.RELEASE
        if arguments["release"]
        else AcknowledgeType.REJECT
        if arguments["reject"]
        else AcknowledgeType.ACCEPT
    )
    consumer = ShareConsumer({**chosen, **quiet_log(), "share.acknowledgement.mode": "explicit"})
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    printed = 0
    out = sys.stdout.buffer
    try:
        consumer.subscribe([arguments["topic"]])
        for message in _messages(consumer, arguments["max-messages"], arguments["timeout-ms"]):
            printed += 1
            try:
                text = show(replace(shown(message), delivery_count=message.delivery_count()))
            except CannotFormat as error:
                consumer.acknowledge(message, AcknowledgeType.REJECT)
                if not arguments["reject-message-on-error"]:
                    where = f"{message.topic()}-{message.partition()} at offset {message.offset()}"
                    raise ToolFailed(f"{where}: {error}") from error
                continue
            if text is not None:
                out.write(text)
                out.flush()
            consumer.acknowledge(message, how)
    except KeyboardInterrupt:
        pass
    finally:
        consumer.close()
        print(f"Processed a total of {printed} messages", file=sys.stderr)
    return 0


def _require_topic(chosen: dict[str, object], topic: str) -> None:
    known = existing_topics(Consumer({**chosen, **quiet_log()}), CONTACT_SECONDS)
    if topic not in known:
        raise ToolFailed(missing_topic(topic, known))


def _messages(consumer: ShareConsumer, limit: int | None, timeout_ms: int | None) -> Iterator[Message]:
    """Records until the limit or the time-out. A record that is not yielded any more is given back."""
    given, heard_at = 0, time.monotonic()
    while limit is None or given < limit:
        wait_s = _POLL_S if timeout_ms is None else min(_POLL_S, timeout_ms / 1000)
        batch = consumer.poll(wait_s) or []
        for message in batch:
            error = message.error()
            if error is not None:
                if error.fatal() or not error.retriable():
                    raise ToolFailed(explain(error))
                continue
            if limit is not None and given >= limit:
                consumer.acknowledge(message, AcknowledgeType.RELEASE)
                continue
            given += 1
            yield message
        if batch:
            heard_at = time.monotonic()
            consumer.commit_sync()
        elif timeout_ms is not None and (time.monotonic() - heard_at) * 1000 >= timeout_ms:
            return


def main() -> int:
    return guarded("Read records of a topic in a share group and print them.", OPTIONS, run, check=check)


if __name__ == "__main__":
    sys.exit(main())
