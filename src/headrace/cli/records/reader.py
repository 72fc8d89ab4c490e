"""Reads partitions from one offset to another, or follows them, with librdkafka."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.cli.kafka_tools.support.tool import ToolFailed as Failed
from headrace.cli.records.text import Seen
from headrace.cli.records.unreadable_batch import why_unreadable
from headrace.kernel.ids import TopicPartition

if TYPE_CHECKING:
    from headrace.cli.support.kafka_client import Consumer, Message

_BATCH: Final = 500
_PATIENCE_S: Final = 30.0
_LOOK_EVERY_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets from `start` to before `end`. Without an end the reader follows the partition."""

    start: int
    end: int | None


_PLAIN: Final[Mapping[str, str]] = {}


def read(
    address: str,
    spans: Mapping[TopicPartition, Span],
    *,
    committed_only: bool = True,
    group: str | None = None,
    idle_s: float | None = None,
    on_idle: Callable[[], None] = lambda: None,
    client: Mapping[str, str] = _PLAIN,
) -> Generator[Seen, None, None]:
    """Records of the spans as they arrive, in order within a partition. Ends when every span is complete, or when no
    record arrived for `idle_s`. With a group it commits the offsets of yielded records. `client`: Kafka's TLS and SASL
    settings.
    """
    from confluent_kafka import KafkaError

    open_spans = {p: span for p, span in spans.items() if span.end is None or span.start < span.end}
    if not open_spans:
        return
    consumer = _consumer(address, committed_only, group, client)
    try:
        _assign(consumer, open_spans)
        positions = {place: span.start for place, span in open_spans.items()}
        heard = looked = time.monotonic()
        while open_spans:
            messages = consumer.consume(_BATCH, 0.2)
            now = time.monotonic()
            if messages:
                heard = now
            else:
                on_idle()
                if now - max(heard, looked) > _LOOK_EVERY_S:
                    _check_still_there(consumer, {place.topic for place in open_spans})
                    waiting = {place: positions[place] for place in open_spans}
                    _check_readable(consumer, address, client, waiting, committed_only=committed_only)
                    looked = time.monotonic()
                if idle_s is not None and now - heard > idle_s:
                    return
                if all(span.end is not None for span in open_spans.values()) and now - heard > _PATIENCE_S:
                    raise Failed(f"nothing came from {sorted(map(str, open_spans))[0]} for {_PATIENCE_S:g} s")
            for message in messages:
                error = message.error()
                place = TopicPartition(message.topic() or "", message.partition() or 0)
                if error is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        _close_if_done(open_spans, place, message.offset())
                    elif not error.retriable() or error.fatal():
                        at = positions.get(place, 0)
                        why = why_unreadable(address, client, place, at, committed_only=committed_only)
                        raise Failed(why or f"{place}: {error.str()}")
                    continue
                positions[place] = message.offset() + 1
                span = open_spans.get(place)
                if span is None or (span.end is not None and message.offset() >= span.end):
                    open_spans.pop(place, None)
                    continue
                try:
                    yield _seen(message)
                except GeneratorExit:
                    _store(consumer, group, message)  # the caller stops after this record
                    raise
                _store(consumer, group, message)
                if span.end is not None and message.offset() + 1 >= span.end:
                    open_spans.pop(place, None)
    finally:
        consumer.close()


def _check_still_there(consumer: Consumer, topics: set[str]) -> None:
    """A consumer waits for a deleted topic forever. Requests all topics, because a request by name may create one."""
    from confluent_kafka import KafkaException

    try:
        known = consumer.list_topics(timeout=2).topics
    except KafkaException:
        return  # no broker answers; the consumer retries by itself
    if gone := sorted(topics - set(known)):
        raise Failed(f"topic {gone[0]!r} is no longer there")


def _check_readable(
    consumer: Consumer,
    address: str,
    client: Mapping[str, str],
    positions: Mapping[TopicPartition, int],
    *,
    committed_only: bool,
) -> None:
    """librdkafka stops without a message at a batch that it can decompress but whose records it cannot decode."""
    from confluent_kafka import TopicPartition as Assigned

    for place, position in positions.items():
        _, end = consumer.get_watermark_offsets(Assigned(*place), cached=True)
        if end > position:
            why = why_unreadable(address, client, place, position, committed_only=committed_only)
            if why is not None:
                raise Failed(why)


def _store(consumer: Consumer, group: str | None, message: Message) -> None:
    if group is not None:
        consumer.store_offsets(message)


def _close_if_done(open_spans: dict[TopicPartition, Span], place: TopicPartition, offset: int) -> None:
    """Completes a span at the end of its partition: the remaining offsets are markers or compacted records."""
    span = open_spans.get(place)
    if span is not None and span.end is not None and offset >= span.end:
        del open_spans[place]


def _consumer(address: str, committed_only: bool, group: str | None, client: Mapping[str, str]) -> Consumer:
    from confluent_kafka import Consumer as Client
    from confluent_kafka import KafkaException

    from headrace.cli.kafka_tools.support.librdkafka import quiet_log
    from headrace.client.librdkafka_security import security_settings

    try:
        made: Consumer = Client(
            {
                "bootstrap.servers": address, "client.id": "headrace-cli", "group.id": group or "headrace-cli",
                "enable.auto.commit": group is not None, "enable.auto.offset.store": False,
                "auto.offset.reset": "earliest", "enable.partition.eof": True,
                "isolation.level": "read_committed" if committed_only else "read_uncommitted",
                "fetch.wait.max.ms": 100, **security_settings(client), **quiet_log(),
            }
        )  # fmt: skip
    except KafkaException as error:
        raise Failed(error.args[0].str()) from error
    return made


def _assign(consumer: Consumer, spans: Mapping[TopicPartition, Span]) -> None:
    from confluent_kafka import TopicPartition as Assigned

    consumer.assign([Assigned(p.topic, p.partition, span.start) for p, span in spans.items()])


def _seen(message: Message) -> Seen:
    return Seen(
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )
