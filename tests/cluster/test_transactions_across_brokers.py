"""Transactions on three brokers that are killed in turn: coordinators, partition leaders and groups all move."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.support.clock import wait_for
from tests.support.cluster import SESSION_TIMEOUT_MS, RunningCluster
from tests.support.effort import rounds
from tests.support.transaction_load import TransactionLoad
from tests.support.transactions import read_all, transactional_producer

pytestmark = [pytest.mark.needs("java"), pytest.mark.needs("kafka"), pytest.mark.needs("javac")]

PARTITIONS = 4


def test_a_transaction_survives_its_coordinator(tmp_path: Path) -> None:
    with RunningCluster(tmp_path) as cluster:
        cluster.create_topic("t", PARTITIONS)
        producer = transactional_producer(cluster.bootstrap, "outlives", wait=60)
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "outlives", "log_level": 0})
        producer.begin_transaction()
        for number in range(PARTITIONS):
            producer.produce("t", f"before {number}", partition=number)
        producer.send_offsets_to_transaction([TopicPartition("t", 0, 7)], consumer.consumer_group_metadata(), 60)
        assert producer.flush(60) == 0
        coordinator = cluster.leader("__transaction_state", transaction_partition("outlives"))
        cluster.brokers[coordinator].kill()
        producer.commit_transaction(90)
        assert len(read_all(cluster.bootstrap, "t", wait=60)) == PARTITIONS
        assert consumer.committed([TopicPartition("t", 0)], 60)[0].offset == 7
        consumer.close()


def transaction_partition(transactional_id: str) -> int:
    from headrace.kernel.ids import coordinator_partition
    from headrace.testing.in_process import TEST_SETTINGS

    return coordinator_partition(transactional_id, int(TEST_SETTINGS["transaction.state.log.num.partitions"]))


def test_transactions_stay_atomic_while_brokers_are_killed_and_frozen_in_turn(tmp_path: Path) -> None:
    kills = rounds(short=2, long=12)
    choice = random.Random(17)
    stop = threading.Event()
    with RunningCluster(tmp_path) as cluster:
        cluster.create_topic("t", PARTITIONS, {"min.insync.replicas": "2"})
        java, classic = (
            TransactionLoad(name, cluster.bootstrap, "t", PARTITIONS, seed=at)
            for at, name in enumerate(("java", "classic"))
        )
        patient = ["retry.backoff.ms=50", "delivery.timeout.ms=60000", "request.timeout.ms=15000"]
        threads = [
            threading.Thread(target=java.run_java, args=(lambda: not stop.is_set(), patient)),
            threading.Thread(target=classic.run_classic, args=(lambda: not stop.is_set(), 60)),
        ]
        for thread in threads:
            thread.start()
        try:
            for _ in range(kills):
                wait_for_progress(java, classic)
                victim = cluster.brokers[choice.choice(sorted(cluster.brokers))]
                if choice.random() < 0.3:
                    # Frozen for longer than its session: it resumes and believes that it still leads.
                    victim.pause()
                    time.sleep(2 * SESSION_TIMEOUT_MS / 1000)
                    victim.resume()
                else:
                    victim.kill()
                    time.sleep(choice.uniform(0, 4))
                    victim.start()
            wait_for_progress(java, classic)
        finally:
            stop.set()
            for thread in threads:
                thread.join(180)
        visible = read_stable(cluster.bootstrap)
        assert java.torn(visible) == []
        assert classic.torn(visible) == []


def wait_for_progress(*loads: TransactionLoad, transactions: int = 3) -> None:
    """Waits until the broker has returned and producers commit again. Otherwise the effects of the kills add up."""
    goals = [load.committed + transactions for load in loads]
    wait_for(
        lambda: all(load.committed >= goal for load, goal in zip(loads, goals, strict=True)),
        lambda: "commits: " + ", ".join(f"{load.name} has {load.committed}" for load in loads),
        within=180,
    )


def read_stable(bootstrap: str) -> list[str]:
    """Records that a `read_committed` consumer sees when no transaction is open."""

    def none_open() -> bool:
        return high_watermarks(bootstrap, "read_committed") == high_watermarks(bootstrap, "read_uncommitted")

    wait_for(none_open, "all transactions to end", poll=0.5)
    return read_all(bootstrap, "t", wait=60)


def high_watermarks(bootstrap: str, isolation: str) -> list[int]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "ends", "isolation.level": isolation, "log_level": 0}
    )
    try:
        return [consumer.get_watermark_offsets(TopicPartition("t", i), 30)[1] for i in range(PARTITIONS)]
    finally:
        consumer.close()
