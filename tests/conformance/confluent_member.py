"""A confluent-kafka member of a consumer group (KIP-848) that prints its assignment and the records it reads.

Tests run it as `confluent_member.py TOPIC BOOTSTRAP GROUP`. It prints the same lines as
tests/support/java/GroupMember.java.
"""

from __future__ import annotations

import signal
import sys
import time

from confluent_kafka import Consumer, KafkaException, TopicPartition


def tell(*words: object) -> None:
    print(*words, flush=True)


def named(partitions: list[TopicPartition]) -> str:
    return ",".join(str(each.partition) for each in partitions)


def note(what: str) -> object:
    return lambda consumer, partitions: tell(what, time.monotonic_ns(), named(partitions))


def main() -> None:
    topic, bootstrap, group = sys.argv[1:]
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": 2_000,
        }
    )
    consumer.subscribe([topic], on_assign=note("assigned"), on_revoke=note("revoked"), on_lost=note("lost"))
    while not stopped:
        messages = [message for message in consumer.consume(500, 0.1) if message.error() is None]
        now = time.monotonic_ns()
        for message in messages:
            value = message.value()
            assert value is not None
            tell("read", now, message.partition(), message.offset(), value.decode())
        if messages:
            try:
                consumer.commit(asynchronous=False)
            except KafkaException:
                pass  # the next owner of the partitions reads these records again
    consumer.close()


if __name__ == "__main__":
    main()
