"""An in-memory service: its state is a dictionary, and the compacted topic `stock` is the log of all changes.

`store NAME` owns some partitions of the requests, as the group decides. It changes its dictionary and the log in one
transaction with the request's offset. It also follows the changes of the other services, so each can answer for all.
A service that gets a partition, at its start or from a service that died, first reads that partition of the log.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections import defaultdict

from confluent_kafka import Consumer, TopicPartition

from headrace import connect


class Store:
    def __init__(self, bootstrap: str, name: str) -> None:
        self.bootstrap, self.name = bootstrap, name
        self.owned: dict[int, dict[str, int]] = {}
        self.copy: dict[str, int] = {}
        self.stopping = threading.Event()

    def serve(self) -> None:
        # The others take over when a dead service has been silent for so long. Its open transaction hides the log
        # behind it until the broker aborts it: a minute with Kafka's default.
        cluster = connect(self.bootstrap, settings={"session.timeout.ms": 6000, "transaction.timeout.ms": 6000})
        requests, log = cluster.topic("stock-requests", dict), cluster.topic("stock", dict)
        with (
            cluster.transactions(f"stock-{self.name}") as transactions,
            # After a rebalance another service may have changed what this one remembers.
            requests.read(group="stock", guarantee="exactly-once", idle=0.5, on_rebalance=self.owned.clear) as reader,
        ):
            while not self.stopping.is_set():
                for batch in reader.batches():
                    with transactions.begin(reader) as transaction:
                        for record in batch:
                            state = self.state_of(record.partition)
                            request = record.value or {}
                            article = request["article"]
                            state[article] = state.get(article, 0) + request["change"]
                            transaction.send(log, {"stock": state[article], "by": self.name}, key=article)
                            reader.done(record)
                    if self.stopping.is_set():
                        return

    def state_of(self, partition: int) -> dict[str, int]:
        if partition not in self.owned:
            self.owned[partition] = restored(self.bootstrap, partition)
        return self.owned[partition]

    def follow(self) -> None:
        """Applies the changes of all services to a copy, and publishes it a few times a second."""
        states = connect(self.bootstrap).topic("stock-copies", dict)
        consumer = reader_of(self.bootstrap)
        consumer.assign([TopicPartition("stock", index, 0) for index in partitions_of(consumer)])
        published: dict[str, int] = {}
        at = 0.0
        while not self.stopping.is_set():
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                self.copy[message.key().decode()] = json.loads(message.value())["stock"]
            if self.copy != published and time.monotonic() - at > 0.3:
                published, at = dict(self.copy), time.monotonic()
                states.send({"copy": published}, key=self.name)
                states.flush()
        consumer.close()


def reader_of(bootstrap: str) -> Consumer:
    settings = {"group.id": "none", "enable.auto.commit": False, "isolation.level": "read_committed"}
    return Consumer({"bootstrap.servers": bootstrap, **settings})


def partitions_of(consumer: Consumer) -> list[int]:
    return sorted(consumer.list_topics("stock", 30).topics["stock"].partitions)


def restored(bootstrap: str, partition: int) -> dict[str, int]:
    """The state of one partition, from its log. The transactions of a service that died are not part of it."""
    consumer, state = reader_of(bootstrap), defaultdict[str, int](int)
    low, end = consumer.get_watermark_offsets(TopicPartition("stock", partition), timeout=30)
    consumer.assign([TopicPartition("stock", partition, low)])
    while (consumer.position([TopicPartition("stock", partition)])[0].offset if end > low else end) < end:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            state[message.key().decode()] = json.loads(message.value())["stock"]
    consumer.close()
    return dict(state)


def store(bootstrap: str, name: str) -> None:
    service = Store(bootstrap, name)
    signal.signal(signal.SIGTERM, lambda *_: service.stopping.set())
    follower = threading.Thread(target=service.follow, daemon=True)
    follower.start()
    service.serve()
    follower.join(10)


if __name__ == "__main__":
    {"store": store}[sys.argv[1]](*sys.argv[2:])
