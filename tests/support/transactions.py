"""Transactional producers, and the records that a `read_committed` consumer sees."""

from __future__ import annotations

from confluent_kafka import Consumer, Producer, TopicPartition


def transactional_producer(
    bootstrap: str, transactional_id: str, *, timeout_ms: int = 60_000, wait: float = 15
) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "linger.ms": 0,
            "log_level": 0,
        }
    )
    producer.init_transactions(wait)
    return producer


def read_all(bootstrap: str, topic: str, *, isolation: str = "read_committed", wait: float = 10) -> list[str]:
    """Every record up to the current end, by partition, in order."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    partitions = consumer.list_topics(topic, wait).topics[topic].partitions
    found: dict[int, list[str]] = {index: [] for index in partitions}
    consumer.assign([TopicPartition(topic, index, 0) for index in partitions])
    ended: set[int] = set()
    try:
        while len(ended) < len(partitions):
            message = consumer.poll(wait)
            assert message is not None, f"{topic}: no end within {wait} s, ended: {ended}"
            if message.error() is not None:
                ended.add(message.partition())
            else:
                found[message.partition()].append(message.value().decode())
    finally:
        consumer.close()
    return [value for index in sorted(found) for value in found[index]]
