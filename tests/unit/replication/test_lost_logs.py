"""A log in a missing directory: the broker creates an empty one only where no record can be lost by it."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cluster.core.image import NO_LEADER, BrokerInfo, ClusterImage, PartitionInfo, TopicInfo
from headrace.cluster.view import ClusterView
from headrace.kernel.errors import StorageFault
from headrace.kernel.ids import TopicPartition
from headrace.replication import partitions as partitions_module
from headrace.replication.lost_logs import LostLogs
from headrace.replication.partitions import Partitions
from headrace.storage.dirs import log_dirs
from headrace.storage.dirs.log_dirs import LogDirs
from headrace.storage.log_config import LogConfig
from tests.support.logs import a_batch, append, open_dirs

OWN, OTHER = 1, 2
TOPIC_ID = uuid.UUID(int=1 << 90)
KEY = TopicPartition("precious", 0)


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

    def publish(self, **leaders: int) -> None:
        """One partition per topic. Each image has a higher leader epoch."""
        self._version += 1
        info = {
            name: PartitionInfo(leader, self._version, self._version, (leader,) if leader >= 0 else (), (OWN, OTHER))
            for name, leader in leaders.items()
        }
        topics = {name: TopicInfo(name, TOPIC_ID, (one,)) for name, one in info.items()}
        brokers = {OWN: BrokerInfo(OWN, self.epoch, ()), OTHER: BrokerInfo(OTHER, 9, ())}
        self.view.publish(ClusterImage(version=self._version, cluster_id="ours", brokers=brokers, topics=topics))

    def has_log(self, topic: str = "precious") -> bool:
        return self.dirs.log(topic, 0) is not None


@pytest.fixture
def dirs(tmp_path: Path) -> Iterator[LogDirs]:
    opened = open_dirs(tmp_path, cluster_id="ours")
    yield opened
    opened.close()


# The leaders in consecutive images, and whether the broker creates an empty log at the last of them.
@pytest.mark.parametrize(
    ("leaders", "creates"),
    [
        ([NO_LEADER], False),
        ([NO_LEADER, NO_LEADER], False),
        ([OWN], False),  # elected by a controller that does not know of the loss yet
        ([OWN, OWN], False),
        ([OWN, NO_LEADER], False),
        ([OTHER], True),  # the records come from the leader
        ([OWN, OTHER], True),
        ([NO_LEADER, OTHER], True),
        ([OWN, NO_LEADER, OTHER], True),
        ([NO_LEADER, OWN], True),  # an unclean election
        ([OWN, NO_LEADER, OWN], True),
    ],
)
@pytest.mark.parametrize("is_offline", [False, True])
def test_each_order_of_leaders(dirs: LogDirs, leaders: list[int], creates: bool, is_offline: bool) -> None:
    lost = LostLogs([KEY], "its disk is missing", are_offline=is_offline)
    broker = Broker(dirs, lost)
    for leader in leaders[:-1]:
        broker.publish(precious=leader)
        assert not broker.has_log()
    broker.publish(precious=leaders[-1])
    assert broker.has_log() == (creates and not is_offline)
    assert (KEY in lost) != broker.has_log()
    if not broker.has_log():
        with pytest.raises(StorageFault, match="precious-0 is offline here: its disk is missing"):
            broker.partitions.led("precious", 0)
        assert broker.partitions.offline_count == 1


def test_after_a_new_registration_the_controller_must_get_the_report_first(dirs: LogDirs) -> None:
    """It elects the broker at the registration, as if the disk were back."""
    broker = Broker(dirs, LostLogs([KEY], "missing"))
    broker.publish(precious=NO_LEADER)
    broker.register(8)
    broker.publish(precious=OWN)
    assert not broker.has_log()
    broker.publish(precious=NO_LEADER)
    broker.publish(precious=OWN)
    assert broker.has_log()


def test_other_partitions_get_their_logs(dirs: LogDirs) -> None:
    broker = Broker(dirs, LostLogs([KEY], "missing", are_offline=True))
    broker.publish(precious=OWN, new=OWN)
    assert broker.has_log("new") and broker.partitions.led("new", 0).is_leader


def test_deleted_partition_is_no_longer_lost(dirs: LogDirs) -> None:
    lost = LostLogs([KEY], "missing")
    broker = Broker(dirs, lost)
    broker.publish(precious=OWN)
    broker.publish()
    assert lost.partitions() == [] and broker.partitions.offline_count == 0


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


def _no_space(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
