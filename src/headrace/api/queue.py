"""Share groups as a queue: several members share the records of a partition, and each record is acknowledged.

    for delivery in orders.queue("workers", idle=5):
        try:
            work(delivery.value)
        except Busy:
            delivery.release()          # another member gets it
        except ValueError:
            delivery.reject()           # no member gets it again

A delivery that the loop body leaves alone is accepted when the body ends.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Generic, TypeVar

from confluent_kafka import AcknowledgeType, KafkaError, KafkaException, Message, ShareConsumer

from headrace.api.errors import ReadFailed
from headrace.api.reader import Decoder, checked
from headrace.api.record import Record

T = TypeVar("T")
_WAIT_S: Final = 0.5


class Delivery(Generic[T]):
    """A record of the queue, until it is acknowledged."""

    def __init__(self, consumer: ShareConsumer, message: Message, record: Record[T]) -> None:
        self._consumer = consumer
        self._message = message
        self.record = record
        self.is_open = True

    @property
    def value(self) -> T | None:
        return self.record.value

    @property
    def attempt(self) -> int:
        """1 for the first delivery of the record, 2 after it was released or its member had died."""
        return self._message.delivery_count() or 1

    def ack(self) -> None:
        """The record is done."""
        self._acknowledge(AcknowledgeType.ACCEPT)

    def release(self) -> None:
        """Another member gets the record."""
        self._acknowledge(AcknowledgeType.RELEASE)

    def reject(self) -> None:
        """No member gets the record again."""
        self._acknowledge(AcknowledgeType.REJECT)

    def _acknowledge(self, how: AcknowledgeType) -> None:
        if self.is_open:
            self.is_open = False
            self._consumer.acknowledge(self._message, how)


def deliveries(
    settings: Mapping[str, object], topic: str, decoder: Decoder[T], idle_s: float | None
) -> Iterator[Delivery[T]]:
    consumer = ShareConsumer({**settings, "share.acknowledgement.mode": "explicit"})
    consumer.subscribe([topic])
    heard_at = time.monotonic()
    try:
        while idle_s is None or time.monotonic() - heard_at < idle_s:
            messages = _polled(consumer, settings)
            for message in checked(messages):
                delivery = Delivery(consumer, message, decoder.record(message))
                yield delivery
                delivery.ack()
            if messages:
                heard_at = time.monotonic()
                consumer.commit_sync()
    finally:
        consumer.close()


def _polled(consumer: ShareConsumer, settings: Mapping[str, object]) -> Sequence[Message]:
    """Raises ReadFailed."""
    try:
        return consumer.poll(_WAIT_S) or []
    except KafkaException as error:
        group, reason = settings.get("group.id"), error.args[0]
        if reason.code() == KafkaError.GROUP_ID_NOT_FOUND:
            # What a broker answers to a member of a share group if the group is a consumer group.
            raise ReadFailed(
                f"group {group!r} is a consumer group already: queue() needs a group that read() does not use"
            ) from None
        raise ReadFailed(f"group {group!r} cannot be read: {reason.str()}") from None
