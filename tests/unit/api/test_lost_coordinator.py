"""A group coordinator that is killed and leaves the metadata: a transaction ends with an error, not never."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import headrace
from headrace.api import transaction as module
from headrace.api.cluster import Cluster
from headrace.api.errors import DeliveryFailed
from headrace.kernel.ids import GROUP_METADATA_TOPIC, coordinator_partition
from headrace.testing.in_process_cluster import cluster as running_cluster
from tests.support.clock import wait_for

PARTITIONS = 5  # of the offsets topic in a cluster of a test


def copy(cluster: Cluster, *, idle: float) -> None:
    orders, copies = cluster.topic("orders", str), cluster.topic("copies", str)
    with orders.transaction("copy", group="copy", idle=idle) as copying:
        for transaction in copying:
            for record in transaction:
                transaction.send(copies, record.value)


def test_a_transaction_does_not_wait_for_a_dead_coordinator_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OFFSETS_TIMEOUT_S", 3.0)
    failures: list[BaseException] = []

    def run(cluster: Cluster, transactions: Any, reader: Any) -> None:
        copies = cluster.topic("copies", str)
        try:
            for batch in reader.batches():
                with transactions.begin(reader) as transaction:
                    for record in batch:
                        transaction.send(copies, record.value)
                        reader.done(record)
                if batch[-1].value == "second":
                    return
        except DeliveryFailed as failure:
            failures.append(failure)

    with running_cluster(3) as brokers, headrace.connect(brokers.bootstrap, settings={"log_level": 0}) as cluster:
        for name in ("orders", "copies"):
            cluster.topics.create(name)
        orders = cluster.topic("orders", str)
        orders.send_all(["first"])
        reader = orders.read(group="copy", guarantee="exactly-once")
        transactions = cluster.transactions("copy")
        batch = next(reader.batches())
        with transactions.begin(reader) as transaction:  # now the producer knows the coordinator
            transaction.send(cluster.topic("copies", str), batch[0].value)
            reader.done(batch[0])
        partition = coordinator_partition("copy", PARTITIONS)
        dead = brokers.leader(GROUP_METADATA_TOPIC, partition)
        brokers.kill(dead)
        wait_for(lambda: brokers.leader(GROUP_METADATA_TOPIC, partition) not in (dead, -1), "a new coordinator")
        producer = transactions._producer
        wait_for(lambda: dead not in producer.list_topics(timeout=20).brokers, "metadata without the dead broker")
        orders.send_all(["second"])
        copying = threading.Thread(target=run, args=(cluster, transactions, reader), daemon=True)
        copying.start()
        wait_for(lambda: not copying.is_alive(), "the transaction to end", within=60)
        reader.close()
        if failures:
            assert "start the program again" in str(failures[0])
            with (
                pytest.raises(DeliveryFailed, match="were not taken in 3 s"),
                transactions.begin(),
            ):
                pass
        copy(cluster, idle=2)
        assert [record.value for record in cluster.topic("copies", str).records()] == ["first", "second"]
