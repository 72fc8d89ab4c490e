"""A broker comes back without records that it had. The other replica has them, and no start in any order loses one.

Two brokers hold a topic, and all of its records are on both. They stop. Something happens to the files of broker 1, and
both start again, either one first. As long as no replica without losses is there, the partition has no leader, until a
person elects one.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing.in_process import RunningBroker
from tests.support.clock import wait_for
from tests.support.start_states import Ensemble, leader_of, produce, records
from tests.support.zookeeper import ZooKeeperServer, available

pytestmark = pytest.mark.skipif(not available(), reason="needs Java and a ZooKeeper server (pyspark carries one)")

TOPIC: Final = "shared"
EARLY: Final = tuple(b"early %d" % number for number in range(5))
LATE: Final = tuple(b"late %d" % number for number in range(50))


class Pair:
    """Brokers 1 and 2 on directories and nodes of this test."""

    def __init__(self, directory: Path, connect: str) -> None:
        self.directory = directory
        self.connect = connect
        self.running: dict[int, RunningBroker] = {}

    def data(self, number: int) -> Path:
        return self.directory / f"broker-{number}"

    @property
    def log(self) -> Path:
        """Of broker 1."""
        return self.data(1) / f"{TOPIC}-0"

    @property
    def segment(self) -> Path:
        return self.log / f"{0:020d}.log"

    @property
    def old_copy(self) -> Path:
        """The directory of broker 1 as it was before the late records."""
        return self.directory / "old-copy"

    def start(self, number: int) -> str:
        settings = {
            "broker.id": str(number),
            "zookeeper.connect": self.connect,
            "offsets.topic.replication.factor": "1",
            "controlled.shutdown.enable": "true",
        }
        self.running[number] = RunningBroker(settings, self.data(number))
        return self.running[number].bootstrap

    def stop(self, number: int) -> None:
        self.running.pop(number).stop()

    def in_sync(self) -> set[int]:
        bootstrap = next(iter(self.running.values())).bootstrap
        found = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(TOPIC, timeout=20)
        return set(found.topics[TOPIC].partitions[0].isrs)


class Made:
    """The pair after its life: once for each value of min.insync.replicas. Tests get copies."""

    def __init__(self, ensemble: Ensemble, directory: Path, min_insync: int) -> None:
        self._ensemble = ensemble
        self._directory = directory
        self._chroot = f"/pair-{min_insync}"
        self._copies = 0
        # The directories have no ZooKeeper in their identity that could differ: they are copied with the nodes.
        self.pair = pair = Pair(directory / f"pair-{min_insync}", ensemble.connect + self._chroot)
        bootstrap = pair.start(1)
        pair.start(2)
        settings = {"min.insync.replicas": str(min_insync)}
        topic = NewTopic(TOPIC, 1, replica_assignment=[[1, 2]], config=settings)
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        admin.create_topics([topic])[TOPIC].result(20)
        produce(bootstrap, *EARLY, topic=TOPIC)
        pair.stop(1)
        shutil.copytree(pair.data(1), pair.old_copy)
        bootstrap = pair.start(1)
        wait_for(lambda: pair.in_sync() == {1, 2}, "both replicas in sync")
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        wait_for(lambda: _elect(admin, ElectionType.PREFERRED) or leader_of(bootstrap, TOPIC) == 1, "broker 1 to lead")
        produce(bootstrap, *LATE, topic=TOPIC)
        # With two in-sync replicas needed, both stay eligible. With one, only the last one may lead again.
        first, last = (1, 2) if min_insync == 2 else (2, 1)
        pair.stop(first)
        pair.stop(last)

    def copy(self) -> Pair:
        """ZooKeeper is the same for all copies, so its nodes go back to what they were."""
        self._copies += 1
        directory = self._directory / f"copy-{self._copies}-{self._chroot[1:]}"
        shutil.copytree(self.pair.directory, directory)
        if self._copies == 1:
            self._ensemble.copy(self._chroot, f"{self._chroot}-kept")
        self._ensemble.copy(f"{self._chroot}-kept", self._chroot)
        return Pair(directory, self.pair.connect)


def _elect(admin: AdminClient, kind: ElectionType) -> bool:
    results = admin.elect_leaders(kind, [TopicPartition(TOPIC, 0)]).result(20)
    return all(error is None for error in results.values())


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as server:
        opened = Ensemble(server)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def made(ensemble: Ensemble, tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Made]:
    directory = tmp_path_factory.mktemp("pairs")
    return functools.cache(lambda min_insync: Made(ensemble, directory, min_insync))


# What happens to the files of broker 1


def empty_disk(pair: Pair) -> None:
    shutil.rmtree(pair.data(1))


def log_removed(pair: Pair) -> None:
    shutil.rmtree(pair.log)


def segment_removed(pair: Pair) -> None:
    pair.segment.unlink()


def last_byte_removed(pair: Pair) -> None:
    os.truncate(pair.segment, pair.segment.stat().st_size - 1)


def recovered_by_a_person(pair: Pair) -> None:
    """`headrace log recover` cuts a damaged log."""
    data = bytearray(pair.segment.read_bytes())
    data[200] ^= 1
    pair.segment.write_bytes(data)
    command = [sys.executable, "-m", "headrace.cli", "log", "recover", str(pair.log), "--yes"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


def old_copy_put_back(pair: Pair) -> None:
    shutil.rmtree(pair.data(1))
    pair.old_copy.rename(pair.data(1))


STATES: Final[tuple[Callable[[Pair], None], ...]] = (
    empty_disk,
    log_removed,
    segment_removed,
    last_byte_removed,
    recovered_by_a_person,
    old_copy_put_back,
)


# If broker 2 starts first and min.insync.replicas is 2, it is eligible and leads in any case.
@pytest.mark.parametrize(
    ("min_insync", "first"), [(1, 1), (1, 2), (2, 1)], ids=["last leader", "last leader later", "eligible"]
)
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_the_other_replica_keeps_all_records(
    made: Callable[[int], Made], state: Callable[[Pair], None], min_insync: int, first: int
) -> None:
    pair = made(min_insync).copy()
    state(pair)
    try:
        bootstrap = pair.start(first)
        if first == 1:
            assert leader_of(bootstrap, TOPIC) == -1
        bootstrap = pair.start(3 - first)
        if leader_of(bootstrap, TOPIC) == -1:
            # Broker 1 was the last leader, and the controller does not know that broker 2 has all records.
            admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
            wait_for(lambda: _elect(admin, ElectionType.UNCLEAN), "an election")
        wait_for(lambda: pair.in_sync() == {1, 2}, "broker 1 in sync")
        assert leader_of(bootstrap, TOPIC) == 2
        assert records(bootstrap, TOPIC) == (*EARLY, *LATE)
        pair.stop(2)
        assert records(pair.running[1].bootstrap, TOPIC) == (*EARLY, *LATE)
    finally:
        for number in tuple(pair.running):
            pair.stop(number)
