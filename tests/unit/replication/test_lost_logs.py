"""A log in a missing directory: the broker creates an empty one only where no record can be lost by it."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cluster.core.image import NO_LEADER, BrokerInfo, ClusterImage, PartitionInfo, TopicInfo
from headrace.cluster.core.losses import NO_LOSSES
from headrace.cluster.view import ClusterView
from headrace.kernel.errors import StorageFault
from headrace.replication import partitions as partitions_module
from headrace.replication.lost_logs import LostLogs
from headrace.replication.partitions import Partitions
from headrace.storage.dirs import incomplete_logs, log_dirs
from headrace.storage.dirs.incomplete_logs import is_marked
from headrace.storage.dirs.log_dirs import LogDirs
from headrace.storage.log import Log
from headrace.storage.log_config import LogConfig
from tests.support.logs import a_batch, append, open_dirs

OWN, OTHER = 1, 2
TOPIC_ID = uuid.UUID(int=1 << 90)
KEY = (TOPIC_ID, 0)


class Broker:
    """The partitions of broker 1, according to published images."""

    def __init__(self, dirs: LogDirs, lost: LostLogs | None = None) -> None:
        self.view = ClusterView()
        self.dirs = dirs
        self.now_ms = 0
        self.partitions = Partitions(
            OWN,
            dirs,
            self.view,
            lambda topic, image: LogConfig(),
            lost_logs=lost,
            monotonic_ms=lambda: self.now_ms,
        )
        self._version = 0
        self.register(7)

    def register(self, epoch: int) -> None:
        self.epoch = epoch
        self.partitions.registered_as(epoch)

    def publish(self, *, knows: bool = True, **leaders: int) -> None:
        """One partition per topic. Each image has a higher leader epoch. `knows`: the controller accepted the losses
        that the broker has now."""
        self._version += 1
        info = {
            name: PartitionInfo(leader, self._version, self._version, (leader,) if leader >= 0 else (), (OWN, OTHER))
            for name, leader in leaders.items()
        }
        topics = {
            name: TopicInfo(name, TOPIC_ID if name == "precious" else uuid.uuid5(TOPIC_ID, name), (one,))
            for name, one in info.items()
        }
        losses = self.partitions.lost_logs.losses() if knows else NO_LOSSES
        brokers = {OWN: BrokerInfo(OWN, self.epoch, (), losses=losses), OTHER: BrokerInfo(OTHER, 9, ())}
        self.view.publish(ClusterImage(version=self._version, cluster_id="ours", brokers=brokers, topics=topics))

    def has_log(self, topic: str = "precious") -> bool:
        return self.dirs.log(topic, 0) is not None


@pytest.fixture
def dirs(tmp_path: Path) -> Iterator[LogDirs]:
    opened = open_dirs(tmp_path, cluster_id="ours")
    yield opened
    opened.close()


@pytest.mark.parametrize("is_offline", [False, True])
@pytest.mark.parametrize("knows", [False, True])
@pytest.mark.parametrize("leader", [NO_LEADER, OWN, OTHER])
def test_each_state_of_the_partition(dirs: LogDirs, leader: int, knows: bool, is_offline: bool) -> None:
    """It creates an empty log to follow another leader, and if a controller that knows of the loss elects it."""
    lost = LostLogs({KEY: "its disk is missing"}, are_offline=is_offline)
    broker = Broker(dirs, lost)
    fewer: list[int] = []
    lost.when_fewer(lambda: fewer.append(1))
    broker.publish(precious=NO_LEADER, knows=False)
    assert not broker.has_log()
    broker.publish(precious=leader, knows=knows)
    creates = not is_offline and (leader == OTHER or (leader == OWN and knows))
    assert broker.has_log() == creates
    losses = lost.losses()
    assert bool(losses.missing) != creates and bool(fewer) == creates
    assert bool(losses.incomplete) == (creates and leader == OTHER), "its records are not fetched yet"
    if not creates:
        with pytest.raises(StorageFault, match="precious-0 is offline here: its disk is missing"):
            broker.partitions.led("precious", 0)
        assert broker.partitions.offline_count == 1


def test_an_incomplete_log_is_complete_when_the_replica_is_in_sync(dirs: LogDirs) -> None:
    lost = LostLogs({KEY: "its disk is missing"})
    broker = Broker(dirs, lost)
    broker.publish(precious=OTHER)
    log = dirs.log("precious", 0)
    assert log is not None and is_marked(log.directory) and lost.losses().incomplete == {KEY}
    broker.publish(precious=OWN)
    assert not lost.losses() and not is_marked(log.directory)


def test_a_log_that_cannot_be_marked_is_not_used(dirs: LogDirs, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(dirs, lost := LostLogs({KEY: "its disk is missing"}))
    with monkeypatch.context() as full:
        full.setattr(incomplete_logs, "write_small_file", _no_space)
        broker.publish(precious=OTHER)
    assert lost.losses().missing == {KEY} and broker.partitions.get("precious", 0) is None
    broker.now_ms += partitions_module._RETRY_MS
    broker.partitions.tick()
    assert broker.partitions.get("precious", 0) is not None


def test_other_partitions_get_their_logs(dirs: LogDirs) -> None:
    broker = Broker(dirs, LostLogs({KEY: "missing"}, are_offline=True))
    broker.publish(precious=OWN, new=OWN)
    assert broker.has_log("new") and broker.partitions.led("new", 0).is_leader


def test_deleted_partition_is_no_longer_lost(dirs: LogDirs) -> None:
    lost = LostLogs({KEY: "missing"}, [KEY])
    broker = Broker(dirs, lost)
    broker.publish(precious=NO_LEADER)
    broker.publish()
    assert not lost.losses() and broker.partitions.offline_count == 0


def test_a_replica_that_leaves_a_failed_disk_is_no_longer_lost(tmp_path: Path) -> None:
    """The controller must hear that. If the replica returned to another disk, it could never join the ISR."""
    dirs = open_dirs(tmp_path / "a", tmp_path / "b", cluster_id="ours")
    broker = Broker(dirs, lost := LostLogs())
    broker.publish(precious=OTHER)
    log = dirs.log("precious", 0)
    assert log is not None
    dirs.take_offline(dirs.directory_of(log), "it failed")
    assert dirs.logs_on_failed_disks() == [log]
    left: list[list[Log]] = []
    lost.when_fewer(lambda: left.append(dirs.logs_on_failed_disks()))
    broker.publish()
    assert left == [[]]
    dirs.close()


def test_log_that_did_not_fit_on_the_disk_is_created_later(dirs: LogDirs, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as full:
        full.setattr(log_dirs, "make_directory", _no_space)
        broker = Broker(dirs)
        broker.publish(precious=OWN)
        with pytest.raises(StorageFault, match="No space left"):
            broker.partitions.led("precious", 0)
        broker.now_ms += partitions_module._RETRY_MS
        broker.partitions.tick()
        assert not broker.has_log()
    broker.partitions.tick()
    assert not broker.has_log(), "not at every tick"
    broker.now_ms += partitions_module._RETRY_MS
    broker.partitions.tick()
    assert broker.partitions.led("precious", 0).is_leader and broker.partitions.offline_count == 0


def test_broker_that_lost_its_registration_does_not_lead_by_an_old_image(
    dirs: LogDirs, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        full.setattr(log_dirs, "make_directory", _no_space)
        broker = Broker(dirs)
        broker.publish(precious=OWN)
    broker.register(8)
    broker.now_ms += partitions_module._RETRY_MS
    broker.partitions.tick()
    assert not broker.has_log()
    broker.publish(precious=OWN)
    assert broker.has_log()


def test_log_that_cannot_be_deleted_does_not_stop_the_rest_of_the_image(
    dirs: LogDirs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker would otherwise never apply the changes of the other partitions in that image."""
    broker = Broker(dirs)
    broker.publish(precious=OWN, other=OTHER)
    append(broker.partitions.led("precious", 0).log, a_batch(3))
    with monkeypatch.context() as full:
        full.setattr(log_dirs, "set_aside", _no_space)
        broker.publish(other=OWN, new=OWN)
    assert broker.partitions.led("other", 0).is_leader and broker.partitions.led("new", 0).is_leader
    assert dirs.log("precious", 0) is None and (dirs.directories[0].path / "precious-0").exists()


def test_a_log_of_an_older_topic_that_cannot_be_closed_does_not_stop_the_rest_of_the_image(
    dirs: LogDirs, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(dirs.create("precious", 0, uuid.uuid4()), a_batch(3))
    append(dirs.create("stray", 0, uuid.uuid4()), a_batch(3))
    append(dirs.create("stray", 1, uuid.uuid4()), a_batch(3))
    broker = Broker(dirs, LostLogs({KEY: "its disk is missing"}))
    with monkeypatch.context() as failing:
        failing.setattr(Log, "close", _no_space)
        broker.publish(precious=NO_LEADER, other=OWN)
    assert broker.partitions.led("other", 0).is_leader
    assert [log.topic for log in dirs.logs()] == ["other"], "all strays are set aside"


def _no_space(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
