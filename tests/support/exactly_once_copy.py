"""Consume, transform, produce, with offsets and records in one transaction. A test may kill this process at any moment.

    python -m tests.support.exactly_once_copy BOOTSTRAP SOURCE TARGET GROUP RECORDS_PER_TRANSACTION

Prints the number of copied records after each transaction and never ends by itself (the test stops it). If a fault ends
the transaction, the process exits with 3, and the test starts it again.
"""

from __future__ import annotations

import sys

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition


def transform(value: bytes) -> bytes:
    return b"copy of " + value


def copy(bootstrap: str, source: str, target: str, group: str, size: int) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "session.timeout.ms": 6_000,
            "metadata.recovery.strategy": "none",
            "log_level": 0,
        }
    )
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": f"copy-{source}-{target}",
            "transaction.timeout.ms": 60_000,
            # librdkafka 2.16 keeps waiting for a group coordinator that it has dropped (docs/client-problems.md).
            "metadata.recovery.strategy": "none",
            "log_level": 0,
        }
    )
    producer.init_transactions(60)
    partitions = sorted(consumer.list_topics(source, 30).topics[source].partitions)
    places = [TopicPartition(source, index) for index in partitions]
    # Assigned manually from the committed offsets: the transactional id alone fences a second copy.
    known = consumer.committed(places, 60)
    consumer.assign([TopicPartition(p.topic, p.partition, max(p.offset, 0)) for p in known])
    positions = {p.partition: max(p.offset, 0) for p in known}
    while True:
        messages = consumer.consume(size, 0.5)
        messages = [m for m in messages if m.error() is None]
        if not messages:
            continue
        producer.begin_transaction()
        for message in messages:
            producer.produce(target, transform(message.value()), key=message.key(), partition=message.partition())
            positions[message.partition()] = message.offset() + 1
        offsets = [TopicPartition(source, index, offset) for index, offset in positions.items()]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 60)
        producer.commit_transaction(60)
        print(len(messages), flush=True)


if __name__ == "__main__":
    try:
        copy(*sys.argv[1:5], int(sys.argv[5]))  # type: ignore[call-arg, arg-type]
    except KafkaException as problem:
        print(f"ended: {problem}", file=sys.stderr)
        sys.exit(3)
