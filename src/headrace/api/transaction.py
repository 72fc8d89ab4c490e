"""Consume, transform and produce in one transaction: exactly once, also after a crash.

    with cluster.transactions("copy-1") as transactions, orders.read(group="copy", guarantee="exactly-once") as reader:
        for batch in reader.batches():
            with transactions.begin(reader) as transaction:
                for record in batch:
                    transaction.send(copies, record.value, key=record.key)
                    reader.done(record)

The records of the batch and the group's offsets become visible together, or not at all. If the body raises, the
transaction is aborted and the next run reads the batch again. Use the same id after a restart: it ends what a crashed
run left open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from confluent_kafka import KafkaException, Producer

from headrace.api.errors import DeliveryFailed, NotPossible
from headrace.api.reader import GroupReader

if TYPE_CHECKING:
    from headrace.api.topic import Topic

T = TypeVar("T")
_TIMEOUT_S: Final = 60.0


class Transaction:
    """One open transaction."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    def send(self, topic: Topic[T], value: T | None, *, key: str | bytes | None = None) -> None:
        data = topic.encoded(value)
        while True:
            try:
                self._producer.produce(topic.name, data, key)
                return
            except BufferError:
                self._producer.poll(0.5)


class Transactions:
    """The transactions of one id, one after the other."""

    def __init__(self, settings: Mapping[str, object], id_: str) -> None:
        self._producer = Producer({**settings, "transactional.id": id_})
        try:
            self._producer.init_transactions(_TIMEOUT_S)
        except KafkaException as error:
            raise DeliveryFailed(f"transactional id {id_!r} cannot be used: {error.args[0].str()}") from None

    def __enter__(self) -> Transactions:
        return self

    def __exit__(self, *_: object) -> None:
        """A transaction that is open was aborted by `begin`."""

    @contextmanager
    def begin(self, reader: GroupReader[T] | None = None) -> Iterator[Transaction]:
        """Commits at the end of the block, with the positions of `reader`. Aborts if the block raises."""
        if reader is not None and reader.guarantee != "exactly-once":
            raise NotPossible('a reader of a transaction needs read(…, guarantee="exactly-once")')
        self._producer.begin_transaction()
        try:
            yield Transaction(self._producer)
            if reader is not None and reader.positions:
                metadata = reader.consumer.consumer_group_metadata()
                self._producer.send_offsets_to_transaction(reader.next_positions(), metadata, _TIMEOUT_S)
            self._producer.commit_transaction(_TIMEOUT_S)
            if reader is not None:
                reader.positions.clear()
        except KafkaException as error:
            self._abort()
            raise DeliveryFailed(f"the transaction was aborted: {error.args[0].str()}") from error
        except BaseException:  # whatever the body raised, nothing of the transaction may become visible
            self._abort()
            raise

    def _abort(self) -> None:
        try:
            self._producer.abort_transaction(_TIMEOUT_S)
        except KafkaException:
            pass  # the broker aborts it after its timeout, or the next run of this id does
