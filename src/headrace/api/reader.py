"""Readers of a topic.

A reader of a group commits after the loop body: it asks for the next record only when the body has finished with the
last one. If the body raises or leaves the loop, the record it had is not committed and comes again (at-least-once).
`at-most-once` commits before the body. A reader of a transaction leaves the commit to the transaction.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Generic, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from headrace.api.errors import ReadFailed, WrongValue
from headrace.api.record import Record
from headrace.api.value_codec import ValueCodec

T = TypeVar("T")

logger = logging.getLogger(__name__)

_BATCH: Final = 500
_WAIT_S: Final = 0.2
_COMMIT_EVERY_S: Final = 1.0
_JOIN_TIMEOUT_S: Final = 30.0
_OPTIONAL_ERRORS: Final = frozenset({KafkaError._PARTITION_EOF, KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT})


class Decoder(Generic[T]):
    """Records of messages. A value that does not fit becomes a record with its error."""

    def __init__(self, codec: ValueCodec) -> None:
        self._codec = codec

    def record(self, message: Message) -> Record[T]:
        headers = tuple(message.headers() or ())
        raw, error, value = message.value(), None, None
        if raw is not None:
            try:
                value = self._codec.decode(raw, headers)
            except WrongValue as wrong:
                error = str(wrong)
        place = message.topic(), message.partition(), message.offset(), message.timestamp()[1]
        return Record(*place, message.key(), raw, value, error, headers)  # type: ignore[arg-type]


def checked(messages: Sequence[Message]) -> Iterator[Message]:
    """Messages with records. Raises ReadFailed."""
    for message in messages:
        error = message.error()
        if error is None:
            yield message
        elif error.code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL:
            raise ReadFailed(
                "the group is used in another way already, by queue() or by members with another protocol: choose "
                f"another group ({error.str()})"
            )
        elif error.code() not in _OPTIONAL_ERRORS:
            raise ReadFailed(f"{message.topic() or 'the topic'} cannot be read: {error.str()} ({error.name()})")


def next_messages(consumer: Consumer, count: int, wait_s: float) -> list[Message]:
    """What has arrived, up to `count`; waits for the first message only."""
    first = consumer.poll(wait_s)
    return [] if first is None else [first, *consumer.consume(count - 1, 0)]


class GroupReader(Generic[T]):
    """Iterates over records as a member of a group. `close`, the end of `with` or the end of the loop leaves it."""

    def __init__(
        self,
        settings: Mapping[str, object],
        topic: str,
        decoder: Decoder[T],
        guarantee: str,
        *,
        idle_s: float | None,
        on_rebalance: Callable[[], None] = lambda: None,
    ) -> None:
        self.consumer = Consumer({**settings, "enable.auto.commit": False})
        self._is_member = False
        self._on_rebalance = on_rebalance
        self._taken_away: set[tuple[str, int]] = set()
        self.consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked)
        self._decoder = decoder
        self.guarantee = guarantee
        self._idle_s = idle_s
        self.positions: dict[tuple[str, int], int] = {}
        self._committed_at = self._heard_at = time.monotonic()
        self._closed = False

    def __enter__(self) -> GroupReader[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Record[T]]:
        try:
            for batch in self.batches():
                for record in batch:
                    if self.guarantee == "at-most-once":
                        self.done(record)
                        self.commit()
                    yield record
                    self.done(record)
                if time.monotonic() - self._committed_at >= _COMMIT_EVERY_S:
                    self.commit()
        finally:
            self.close()

    def batches(self) -> Iterator[list[Record[T]]]:
        """Lists of records as they come. Nothing is committed: call `done` and `commit`, or use a transaction."""
        self._heard_at = time.monotonic()
        wait_s = _WAIT_S if self._idle_s is None else min(_WAIT_S, self._idle_s)
        while not self._closed:
            messages = list(checked(self._next_messages(wait_s)))
            if messages:
                yield [self._decoder.record(one) for one in messages]
                self._heard_at = time.monotonic()
            else:
                self._commit_if_due()
                if self._idle_s is not None and time.monotonic() - self._heard_at >= self._idle_after(self._idle_s):
                    return

    def _next_messages(self, wait_s: float) -> list[Message]:
        """Without a first message whose partition was taken away while the others were fetched. The reader that
        has it now, perhaps this one again, begins at the committed offset: that message comes again."""
        first = self.consumer.poll(wait_s)
        if first is None:
            return []
        self._taken_away.clear()
        others = self.consumer.consume(_BATCH - 1, 0)
        return others if (first.topic(), first.partition()) in self._taken_away else [first, *others]

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._is_member = True
        # The first records of the new partitions are on their way: the time before does not count as idle.
        self._heard_at = time.monotonic()
        self._on_rebalance()

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """The next reader of these partitions begins at the committed offsets. A commit after it began would set back
        what it has committed itself, so their positions are committed now or never."""
        if self.guarantee != "exactly-once":
            try:
                self.commit()
            except KafkaException as error:  # the group gave the partitions away before this reader knew
                logger.info("not committed before partitions were taken away: %s", error.args[0].str())
            for one in partitions:
                self.positions.pop((one.topic, one.partition), None)
        self._taken_away.update((one.topic, one.partition) for one in partitions)
        self._on_rebalance()

    def _idle_after(self, idle_s: float) -> float:
        """A reader that waits for its group to form is not idle."""
        return idle_s if self._is_member else max(idle_s, _JOIN_TIMEOUT_S)

    def done(self, record: Record[T]) -> None:
        """The program has finished with a record."""
        self.positions[record.topic, record.partition] = record.offset + 1

    def next_positions(self) -> list[TopicPartition]:
        return [TopicPartition(topic, index, offset) for (topic, index), offset in self.positions.items()]

    def _commit_if_due(self) -> None:
        if self.guarantee != "exactly-once":
            self.commit()

    def commit(self) -> None:
        """Commits the records that are done."""
        self._committed_at = time.monotonic()
        if self.positions and self.guarantee != "exactly-once":
            self.consumer.commit(offsets=self.next_positions(), asynchronous=False)
            self.positions.clear()

    def close(self) -> None:
        """Commits what is done and leaves the group. A second call does nothing."""
        if not self._closed:
            self._closed = True
            try:
                self.commit()
            finally:
                self.positions.clear()
                self.consumer.close()
