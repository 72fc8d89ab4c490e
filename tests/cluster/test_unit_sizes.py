"""A unit that starts with fewer processes than before, alone and as a part of a ZooKeeper cluster: partitions,
committed offsets and transactions move to the processes that stay, or the start is refused. Nothing is lost.

| before → now                                            | result                                                    |
|---|---|
| 3 → 2                                                   | the third process is drained and unregistered             |
| 2 → 1, a topic needs two replicas in sync               | refused, the topic is named; two processes serve as before |
| 2 → 1, its minimum lowered                              | one broker with all records; its lists have one replica   |
| 2 → 1 → 3                                               | the same directories serve again, partitions spread       |
| 3 → no `--cores`                                        | refused: start it with --cores 3                          |
| 3 alone → 2 with ZooKeeper                              | the state moves, then the third process is drained        |
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.support.clock import PATIENCE_S, wait_for
from tests.support.effort import is_long
from tests.support.names import unique
from tests.support.unit import RunningUnit, refusal
from tests.support.zookeeper import ZooKeeperServer

PARTITIONS = 6
FIRST_ID = 10
RETRIED = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError._TIMED_OUT,
)

pytestmark = [
    pytest.mark.skipif(not is_long(), reason="long: HEADRACE_EFFORT=long"),
    pytest.mark.timeout(900),
]


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    server = ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"))
    server.start()
    try:
        yield server
    finally:
        server.stop()


class Written:
    """What clients wrote: records, committed offsets, transactions. `check` reads all of it again."""

    def __init__(self, unit: RunningUnit) -> None:
        self.unit = unit
        self.topic, self.group, self.transactional_id = unique("kept"), unique("group"), unique("transactions")
        self.count = 0
        self.committed: dict[int, int] = {}

    def write(self, count: int = 60) -> None:
        producer = Producer({**self.unit.client, "transactional.id": self.transactional_id})
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        for number in range(self.count, self.count + count):
            producer.produce(self.topic, b"%d" % number, partition=number % PARTITIONS)
        producer.commit_transaction(PATIENCE_S)
        producer.begin_transaction()
        producer.produce(self.topic, b"-1", partition=0)
        producer.flush(PATIENCE_S)
        producer.abort_transaction(PATIENCE_S)
        self.count += count
        self._commit()

    def _commit(self) -> None:
        consumer = self._consumer()
        wanted = {index: self.count // PARTITIONS + index for index in range(PARTITIONS)}
        consumer.commit(offsets=[TopicPartition(self.topic, *one) for one in wanted.items()], asynchronous=False)
        consumer.close()
        self.committed = wanted

    def _consumer(self) -> Consumer:
        return Consumer(
            {
                **self.unit.client,
                "group.id": self.group,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
            }
        )

    def check(self) -> None:
        consumer = self._consumer()
        partitions = [TopicPartition(self.topic, index, 0) for index in range(PARTITIONS)]
        found: dict[int, int] = {}

        def read_offsets() -> bool:
            try:
                answer = consumer.committed(partitions, timeout=5)
            except KafkaException as problem:
                # In the first moment after a start, one broker may name a coordinator that does not know it yet
                # (NOT_COORDINATOR, as in Kafka). librdkafka leaves the retry to its caller: docs/client-problems.md.
                assert problem.args[0].code() in RETRIED, problem
                return False
            found.update({one.partition: one.offset for one in answer})
            return True

        wait_for(read_offsets, "the committed offsets")
        assert found == self.committed
        consumer.assign(partitions)
        seen: list[int] = []
        ends = 0
        while ends < PARTITIONS:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"no answer after {len(seen)} records"
            if message.error() is None:
                seen.append(int(message.value() or b""))
            else:
                assert message.error().name() == "_PARTITION_EOF", message.error()
                ends += 1
        consumer.close()
        assert sorted(seen) == list(range(self.count))


def set_minimum(unit: RunningUnit, topic: str, value: int) -> None:
    entry = ConfigEntry("min.insync.replicas", str(value), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    client = AdminClient(unit.client)  # kept until the answer
    client.incremental_alter_configs([resource])[resource].result(PATIENCE_S)


def brokers(unit: RunningUnit) -> list[int]:
    return sorted(AdminClient(unit.client).list_topics(timeout=PATIENCE_S).brokers)


def replicas(unit: RunningUnit, topic: str) -> set[int]:
    return {broker for info in unit.metadata(topic).values() for broker in info.replicas}


def shrink(unit: RunningUnit, cores: int) -> None:
    word = "process" if cores == 1 else "processes"
    unit.start(cores, until=rf"all partitions are on {cores} {word}\n(.*\n)*.*serves .*; started in")


@pytest.mark.parametrize("with_zookeeper", [False, True], ids=["alone", "zookeeper"])
def test_fewer_processes_keep_records_offsets_and_transactions(
    tmp_path: Path, zookeeper: ZooKeeperServer, with_zookeeper: bool
) -> None:
    settings = {
        "broker.id": str(FIRST_ID),
        "offsets.topic.num.partitions": "6",
        "transaction.state.log.num.partitions": "6",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        **({"zookeeper.connect": zookeeper.chroot()} if with_zookeeper else {}),
    }
    with RunningUnit(tmp_path, 3, settings) as unit:
        written, strict = Written(unit), unique("strict")
        unit.create_topic(written.topic, PARTITIONS)
        written.write()
        assert unit.stop() == 0
        said = refusal(unit.data, None, None, **settings)
        assert "start it with --cores 3 (broker.processes=3)" in said

        shrink(unit, 2)
        assert brokers(unit) == [10, 11]
        written.check()
        written.write()
        unit.create_topic(strict, 1, {"min.insync.replicas": "2"}, replicas=2)
        assert unit.stop() == 0

        said = refusal(unit.data, 1, unit.port, **settings)
        assert f"the unit cannot shrink to 1 process: topic {strict} has min.insync.replicas=2" in said
        unit.start(2)
        written.check()
        set_minimum(unit, strict, 1)
        assert unit.stop() == 0

        shrink(unit, 1)
        assert replicas(unit, strict) == replicas(unit, written.topic) == {10}
        written.check()
        written.write()
        assert unit.stop() == 0

        unit.start(3, until=r"moved (\d+) of \1 partitions")
        wait_for(lambda: brokers(unit) == [10, 11, 12], "three brokers")
        assert replicas(unit, written.topic) == {10, 11, 12}
        written.check()
        written.write()
        written.check()
        assert unit.stop() == 0


def test_a_unit_moves_to_zookeeper_and_shrinks_in_one_start(tmp_path: Path, zookeeper: ZooKeeperServer) -> None:
    settings = {"broker.id": str(FIRST_ID), "offsets.topic.num.partitions": "6"}
    with RunningUnit(tmp_path, 3, settings) as unit:
        written = Written(unit)
        unit.create_topic(written.topic, PARTITIONS)
        written.write()
        assert unit.stop() == 0
        unit.settings |= {
            "zookeeper.connect": zookeeper.chroot(),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
        }
        shrink(unit, 2)
        assert brokers(unit) == [10, 11]
        written.check()
        written.write()
        written.check()
        assert unit.stop() == 0
