"""Consumer groups and share groups on three brokers that are killed in turn: coordinators move, members and
offsets survive.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from headrace.kernel.ids import coordinator_partition
from headrace.testing.in_process import TEST_SETTINGS
from tests.reference.kafka import run_tool
from tests.support.clock import wait_for
from tests.support.cluster import RunningCluster

pytestmark = [pytest.mark.needs("java"), pytest.mark.needs("kafka")]

PARTITIONS = 4


def coordinator_of(cluster: RunningCluster, group: str) -> int:
    return cluster.leader(
        "__consumer_offsets", coordinator_partition(group, int(TEST_SETTINGS["offsets.topic.num.partitions"]))
    )


class Reader(threading.Thread):
    """A member that commits the offsets of the records it has read. It keeps the records and the commits, in order."""

    def __init__(self, bootstrap: str, group: str, protocol: str) -> None:
        super().__init__(daemon=True)
        self.seen: set[bytes] = set()
        self.committed: list[dict[int, int]] = []
        self.stop = threading.Event()
        session = {} if protocol == "consumer" else {"session.timeout.ms": 10_000}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
                **session,
            }
        )
        self.start()

    def run(self) -> None:
        self._consumer.subscribe(["t"])
        while not self.stop.is_set():
            messages = [m for m in self._consumer.consume(100, 0.2) if m.error() is None]
            self.seen.update(m.value() for m in messages)
            if not messages:
                continue
            try:
                done = self._consumer.commit(asynchronous=False)
            except KafkaException:
                continue  # the coordinator is moving; the next commit covers more
            self.committed.append({p.partition: p.offset for p in done or () if p.offset >= 0})
        self._consumer.close()


def test_groups_of_both_protocols_survive_their_coordinators(tmp_path: Path) -> None:
    with RunningCluster(tmp_path) as cluster:
        cluster.create_topic("t", PARTITIONS)
        stop = threading.Event()
        produced: list[bytes] = []

        def produce() -> None:
            producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})

            def delivered(error: object, message: object) -> None:
                if error is None:
                    produced.append(message.value())  # type: ignore[attr-defined]

            number = 0
            while not stop.is_set():
                for _ in range(20):
                    producer.produce("t", b"%d" % number, partition=number % PARTITIONS, callback=delivered)
                    number += 1
                producer.poll(0)
                time.sleep(0.05)
            producer.flush(60)

        load = threading.Thread(target=produce)
        load.start()
        groups = {
            f"readers-{protocol}": [Reader(cluster.bootstrap, f"readers-{protocol}", protocol) for _ in range(2)]
            for protocol in ("classic", "consumer")
        }
        readers = [reader for members in groups.values() for reader in members]
        try:
            wait_for(lambda: all(len(reader.committed) > 2 for reader in readers), "a commit of every reader")
            for group in groups:
                before = [len(reader.committed) for reader in readers]
                victim = coordinator_of(cluster, group)
                cluster.brokers[victim].kill()
                wait_for(
                    lambda before=before: all(len(r.committed) > b + 2 for r, b in zip(readers, before, strict=True)),
                    f"commits of every reader without broker {victim}, the coordinator of {group}",
                )
                cluster.brokers[victim].start()
                cluster.wait_in_sync("t")
                cluster.wait_in_sync("__consumer_offsets")
        finally:
            stop.set()
            load.join(90)
        for group, members in groups.items():
            wait_for(
                lambda members=members: set(produced) <= members[0].seen | members[1].seen,
                f"{group} to read all that was acknowledged",
            )
        for reader in readers:
            reader.stop.set()
            reader.join(30)
        for group, members in groups.items():
            asker = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "log_level": 0})
            kept = asker.committed([TopicPartition("t", p) for p in range(PARTITIONS)], 30)
            highest = {p: max(c.get(p, -1) for member in members for c in member.committed) for p in range(PARTITIONS)}
            assert all(p.offset >= highest[p.partition] for p in kept), f"{group}: a committed offset went back"
            asker.close()


def test_share_groups_survive_their_leaders_and_coordinators(tmp_path: Path) -> None:
    with RunningCluster(
        tmp_path,
        settings={
            "share.coordinator.state.topic.replication.factor": "3",
            "share.coordinator.state.topic.min.isr": "2",
            "share.coordinator.state.topic.num.partitions": "5",
        },
    ) as cluster:
        cluster.create_topic("t", 3)
        told = run_tool(
            "kafka.admin.ConfigCommand",
            *("--bootstrap-server", cluster.bootstrap, "--alter", "--entity-type", "groups"),
            *("--entity-name", "workers", "--add-config", "share.auto.offset.reset=earliest"),
        )
        assert told.returncode == 0, told.stdout + told.stderr
        seen: list[str] = []

        def consume(count: int, first: int) -> set[str]:
            producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
            for number in range(first, first + count):
                producer.produce("t", f"r{number}", partition=number % 3)
            assert producer.flush(60) == 0
            told = run_tool(
                "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
                *("--bootstrap-server", cluster.bootstrap, "--topic", "t", "--group", "workers"),
                *("--max-messages", str(count), "--timeout-ms", "60000"),
                timeout=120,
            )
            found = [line for line in told.stdout.splitlines() if line.startswith("r")]
            seen.extend(found)
            return set(found)

        assert consume(30, 0) == {f"r{n}" for n in range(30)}
        for round_number in (1, 2):
            victim = cluster.leader("t", round_number)
            cluster.brokers[victim].kill()
            wanted = {f"r{n}" for n in range(30 * round_number, 30 * round_number + 30)}
            assert consume(30, 30 * round_number) == wanted
            cluster.brokers[victim].start()
            cluster.wait_in_sync("t")
            cluster.wait_in_sync("__share_group_state")
        assert len(seen) == len(set(seen)), "accepted records were delivered again"
