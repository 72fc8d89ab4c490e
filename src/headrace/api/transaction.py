"""Consume, transform and produce in one transaction: exactly once, also after a crash.

    with orders.transaction("copy-1", group="copy") as copying:
        for transaction in copying:
            for record in transaction:
                transaction.send(copies, record.value, key=record.key)

What was sent and the group's offsets become visible together at the end of the body, or not at all. If the body raises
or leaves the loop, the transaction is aborted and the next run reads its records again. Use the same id after a
restart: it ends what a crashed run left open.

`cluster.transactions(id)` gives the parts: transactions without a reader, or smaller than what has arrived at once.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from confluent_kafka import KafkaException, Producer

from headrace.api.bounded_call import CallStuck, call_within
from headrace.api.errors import DeliveryFailed, NotPossible
from headrace.api.reader import GroupReader
from headrace.api.record import Record

if TYPE_CHECKING:
    from headrace.api.topic import Topic

T = TypeVar("T")
_TIMEOUT_S: Final = 60.0
# How long the offsets of a transaction may take: several times as long as brokers need to find a new coordinator.
OFFSETS_TIMEOUT_S: Final = 30.0


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


class RecordsTransaction(Transaction, Generic[T]):
    """One open transaction with the records that it finishes."""

    def __init__(self, transaction: Transaction, records: list[Record[T]]) -> None:
        super().__init__(transaction._producer)
        self.records = records

    def __iter__(self) -> Iterator[Record[T]]:
        return iter(self.records)


class TransactionalReader(Generic[T]):
    """Transactions one after the other, each with the records that have arrived. Made by `topic.transaction`."""

    def __init__(self, transactions: Transactions, reader: GroupReader[T]) -> None:
        self._transactions = transactions
        self._reader = reader
        self._running = self._all()

    def __enter__(self) -> TransactionalReader[T]:
        return self

    def __exit__(self, *_: object) -> None:
        """Aborts the transaction that is open, and leaves the group."""
        self._running.close()
        self._reader.close()

    def __iter__(self) -> Iterator[RecordsTransaction[T]]:
        return self._running

    def _all(self) -> Generator[RecordsTransaction[T]]:
        for records in self._reader.batches():
            with self._transactions.begin(self._reader) as transaction:
                yield RecordsTransaction(transaction, records)
                for record in records:
                    self._reader.done(record)


class Transactions:
    """The transactions of one id, one after the other."""

    def __init__(self, settings: Mapping[str, object], id_: str) -> None:
        self._id = id_
        # Why the producer serves no other call, once it does not.
        self._stuck: str | None = None
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
        if self._stuck is not None:
            raise DeliveryFailed(self._stuck)
        self._producer.begin_transaction()
        try:
            yield Transaction(self._producer)
            if reader is not None and reader.positions:
                self._send_offsets(reader)
            self._commit()
            if reader is not None:
                reader.positions.clear()
        except KafkaException as error:
            self._abort()
            raise DeliveryFailed(f"the transaction was aborted: {error.args[0].str()}") from error
        except BaseException:  # whatever the body raised, nothing of the transaction may become visible
            self._abort()
            raise

    def _send_offsets(self, reader: GroupReader[T]) -> None:
        """Raises DeliveryFailed if librdkafka does not come back.

        librdkafka waits for the group coordinator that it knows. If that broker is gone from the cluster, it waits
        without end and ignores its own timeout (its issues 5511 and 5456). So the call has a thread of its own, which
        stays behind with the producer.
        """
        metadata, positions = reader.consumer.consumer_group_metadata(), reader.next_positions()
        try:
            call_within(
                OFFSETS_TIMEOUT_S,
                lambda: self._producer.send_offsets_to_transaction(positions, metadata, _TIMEOUT_S),
            )
        except CallStuck:
            self._stuck = (
                f"transactional id {self._id!r}: the offsets of the transaction were not taken in "
                f"{OFFSETS_TIMEOUT_S:g} s. Either the cluster refuses them (look at its log), or librdkafka waits for "
                "a group coordinator that is gone. Nothing of the transaction is visible: start the program again, or "
                "open the transactions of this id again"
            )
            raise DeliveryFailed(self._stuck) from None

    def _commit(self) -> None:
        """After its time librdkafka goes on with a commit, and refuses every other call."""
        try:
            self._producer.commit_transaction(_TIMEOUT_S)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
            self._stuck = (
                f"transactional id {self._id!r}: the commit was not answered in {_TIMEOUT_S:g} s. The transaction may "
                "become visible or not, as a whole: start the program again, or open the transactions of this id "
                "again, and look before you send the same records again. The offsets of a group are right in both "
                "cases"
            )
            raise DeliveryFailed(self._stuck) from error

    def _abort(self) -> None:
        if self._stuck is not None:
            return  # the producer serves no other call; the next run of this id ends the transaction
        try:
            self._producer.abort_transaction(_TIMEOUT_S)
        except KafkaException:
            pass  # the broker aborts it after its timeout, or the next run of this id does
