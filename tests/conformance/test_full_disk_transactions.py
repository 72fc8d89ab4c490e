"""The disk is full at each write of a transaction in turn: the transaction ends, and its id stays usable.

A transaction of one record and one offset has about nine writes: its states, the record, the offset, two markers. After
a failed write the client or the broker must try again. If neither does, the id gets CONCURRENT_TRANSACTIONS for good.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from headrace.testing.in_process import RunningBroker, broker
from tests.support.clock import PATIENCE_S
from tests.support.effort import is_long
from tests.support.full_writes import FullWrites
from tests.support.names import unique

# Two transactions have 18 writes, and some more while the broker still makes the files of new topics.
MOST_WRITES = 60
# So many writes in a row fail.
AT_ONCE = (1, 2, 4, 12) if is_long() else (1,)


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    with broker() as one:
        one.create_topic("orders")
        copy(one, unique("first"), "orders")  # creates the internal topics
        yield one


def producer(running: RunningBroker, id_: str) -> Producer:
    made = Producer(
        {"bootstrap.servers": running.bootstrap, "transactional.id": id_, "retry.backoff.ms": 20, "log_level": 0}
    )
    made.init_transactions(PATIENCE_S)
    return made


def copy(running: RunningBroker, id_: str, topic: str) -> None:
    """Two transactions, each with a record and the offset of a group. An aborted one is done again."""
    group = Consumer({"bootstrap.servers": running.bootstrap, "group.id": id_, "log_level": 0})
    try:
        writer = producer(running, id_)
        for number in (1, 2):
            while True:
                writer.begin_transaction()
                try:
                    writer.produce(topic, f"{id_} {number}")
                    offsets = [TopicPartition(topic, 0, number)]
                    writer.send_offsets_to_transaction(offsets, group.consumer_group_metadata(), PATIENCE_S)
                    writer.commit_transaction(PATIENCE_S)
                except KafkaException as failed:
                    assert failed.args[0].txn_requires_abort(), failed
                    writer.abort_transaction(PATIENCE_S)
                else:
                    break
    finally:
        group.close()


def committed(running: RunningBroker, topic: str, id_: str) -> list[str]:
    """The records of this id, as a reader of committed records sees them."""
    settings = {"bootstrap.servers": running.bootstrap, "group.id": unique("reader"), "log_level": 0}
    reader = Consumer({**settings, "isolation.level": "read_committed", "enable.partition.eof": True})
    try:
        reader.assign([TopicPartition(topic, 0, 0)])
        found: list[str] = []
        while (message := reader.poll(PATIENCE_S)) is not None and message.error() is None:
            found.append((message.value() or b"").decode())
        assert message is not None, "the reader does not reach the end: a transaction is open"
        return [value for value in found if value.startswith(f"{id_} ")]
    finally:
        reader.close()


@pytest.mark.parametrize("count", AT_ONCE)
def test_a_transaction_ends_although_the_disk_was_full(running: RunningBroker, count: int) -> None:
    """Each write in turn, until there is none left that could fail."""
    for first in range(1, MOST_WRITES):
        id_ = unique("full")
        with FullWrites(running.data_dir, first, count) as writes:
            copy(running, id_, "orders")
            # A second producer of the same id waits for the end of the last transaction.
            producer(running, id_)
        assert committed(running, "orders", id_) == [f"{id_} 1", f"{id_} 2"], (first, writes.failed)
        if not writes.failed:
            return
    raise AssertionError(f"two transactions have more than {MOST_WRITES} writes")
