"""All replicas of a broker: created, led, followed and dropped by images that have the present broker epoch."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from headrace.cluster.core.image import BrokerInfo, ClusterImage, PartitionInfo, TopicInfo
from headrace.cluster.view import ClusterView
from headrace.kernel.errors import NotLeader, UnknownPartition, UnknownTopicId
from headrace.replication.partition import Partition
from headrace.replication.partitions import Partitions
from headrace.storage.log_config import LogConfig
from headrace.testing.simulation.log import SimulatedLogs, encode

TOPIC_ID = uuid.uuid4()
EPOCH = 101


class NoWatcher:
    def marked(self, log: Any) -> None:
        pass

    def led(self, broker: int, partition: Any) -> None:
        pass


class Setting:
    def __init__(self) -> None:
        self.view = ClusterView()
        self.logs = SimulatedLogs(1, NoWatcher())
        self.min_insync = 1
        self.partitions = Partitions(
            1,
            self.logs,  # type: ignore[arg-type]
            self.view,
            lambda topic, image: LogConfig(
                min_insync_replicas=int(image.config_of("topic", topic).get("min.insync.replicas", "1"))
            ),
        )
        self.roles: list[tuple[int, bool, bool]] = []
        self.partitions.subscribe(self._role)
        self._version = 0

    def _role(self, partition: Partition) -> None:
        self.roles.append((partition.leader_epoch, partition.is_leader, partition.closed))

    def publish(
        self,
        *infos: PartitionInfo,
        topic_id: uuid.UUID = TOPIC_ID,
        epoch: int = EPOCH,
        configs: dict[Any, Any] | None = None,
    ) -> None:
        self._version += 1
        topics = {"t": TopicInfo("t", topic_id, infos)} if infos else {}
        image = ClusterImage(
            version=self._version,
            brokers={1: BrokerInfo(1, epoch, ()), 2: BrokerInfo(2, 202, ())},
            topics=topics,
            topic_names={topic_id: "t"} if infos else {},
            configs=configs or {},
        )
        self.view.publish(image)


@pytest.fixture
def setting() -> Setting:
    made = Setting()
    made.partitions.registered_as(EPOCH)
    return made


def led(epoch: int = 1, partition_epoch: int = 1, replicas: tuple[int, ...] = (1, 2)) -> PartitionInfo:
    return PartitionInfo(1, epoch, partition_epoch, replicas, replicas)


def followed(epoch: int = 1, partition_epoch: int = 1) -> PartitionInfo:
    return PartitionInfo(2, epoch, partition_epoch, (1, 2), (1, 2))


def elsewhere() -> PartitionInfo:
    return PartitionInfo(2, 5, 5, (2,), (2,))


def test_assigned_partition_gets_a_log_and_a_role(setting: Setting) -> None:
    setting.publish(led(), followed(), elsewhere())
    assert setting.partitions.led("t", 0).is_leader
    assert not setting.partitions.held("t", 1).is_leader
    assert setting.partitions.get("t", 2) is None
    assert len(setting.logs.logs()) == 2
    assert setting.partitions.by_id(TOPIC_ID.bytes, 0) is setting.partitions.get("t", 0)


def test_lookup_of_a_missing_partition_raises_the_matching_fault(setting: Setting) -> None:
    setting.publish(led(), followed(), elsewhere())
    with pytest.raises(NotLeader):
        setting.partitions.led("t", 1)
    with pytest.raises(NotLeader):
        setting.partitions.held("t", 2)
    with pytest.raises(UnknownPartition):
        setting.partitions.led("t", 9)
    with pytest.raises(UnknownTopicId):
        setting.partitions.by_id(uuid.uuid4().bytes, 0)


def test_image_without_the_present_broker_epoch_is_not_applied(setting: Setting) -> None:
    setting.publish(led(), epoch=99)  # an earlier registration of this broker
    assert setting.partitions.get("t", 0) is None
    setting.publish(led(epoch=2))
    assert setting.partitions.led("t", 0).leader_epoch == 2


def test_unregistered_broker_leads_nothing() -> None:
    setting = Setting()
    setting.publish(led())
    assert setting.partitions.get("t", 0) is None
    setting.partitions.registered_as(EPOCH)
    assert setting.partitions.led("t", 0).is_leader


def test_new_registration_gives_up_every_leadership_until_a_new_image(setting: Setting) -> None:
    setting.publish(led(epoch=1))
    setting.partitions.registered_as(EPOCH + 1)
    with pytest.raises(NotLeader):
        setting.partitions.led("t", 0)
    setting.publish(led(epoch=1, partition_epoch=2), epoch=EPOCH + 1)
    with pytest.raises(NotLeader):
        setting.partitions.led("t", 0)
    setting.publish(led(epoch=2, partition_epoch=3), epoch=EPOCH + 1)
    assert setting.partitions.led("t", 0).is_leader


def test_subscribers_are_called_when_a_role_changes(setting: Setting) -> None:
    setting.publish(followed(epoch=1))
    setting.publish(led(epoch=2, partition_epoch=2))
    setting.publish(led(epoch=2, partition_epoch=3))  # only the ISR may have changed
    setting.publish()
    assert setting.roles == [(1, False, False), (2, True, False), (2, False, True)]


def test_a_deleted_or_moved_partition_loses_its_log(setting: Setting) -> None:
    setting.publish(led(), followed())
    setting.publish(led(), PartitionInfo(2, 2, 2, (2,), (2,)))
    assert setting.partitions.get("t", 1) is None
    assert setting.logs.log("t", 1) is None
    setting.publish()
    assert setting.logs.logs() == []


def test_recreated_topic_starts_empty(setting: Setting) -> None:
    setting.publish(led())
    old = setting.logs.log("t", 0)
    other = uuid.uuid4()
    setting.publish(led(), topic_id=other)
    new = setting.logs.log("t", 0)
    assert new is not old
    assert new is not None
    assert new.topic_id == other
    assert setting.partitions.led("t", 0).topic_id == other


def test_log_with_an_older_topic_id_is_set_aside(setting: Setting) -> None:
    stale = setting.logs.create("t", 0, uuid.uuid4(), LogConfig())
    setting.publish(led())
    assert setting.partitions.led("t", 0).log is not stale
    assert setting.logs.strays == [stale]


def test_logs_that_are_not_in_the_image_are_set_aside(setting: Setting) -> None:
    unclaimed = setting.logs.create("stray", 0, uuid.uuid4(), LogConfig())
    setting.publish(led())
    assert setting.logs.log("stray", 0) is None
    assert setting.logs.strays == [unclaimed]


def test_changed_setting_applies_to_log_and_isr(setting: Setting) -> None:
    setting.publish(led())
    setting.publish(led(), configs={("topic", "t"): {"min.insync.replicas": "2"}})
    partition = setting.partitions.led("t", 0)
    assert partition.log.config.min_insync_replicas == 2
    assert partition.isr is not None
    assert partition.isr.min_insync == 2


def test_live_brokers_are_those_of_the_image(setting: Setting) -> None:
    setting.publish(led())
    assert setting.partitions.live_brokers == {1: EPOCH, 2: 202}
    isr = setting.partitions.led("t", 0).isr
    assert isr is not None
    assert isr.live == {1: EPOCH, 2: 202}


MIN_TWO = {("topic", "t"): {"min.insync.replicas": "2"}}


def test_replaced_leader_does_not_commit_because_of_a_lower_min_insync(setting: Setting) -> None:
    """Both changes are in one image, as for a broker that was disconnected for a moment."""
    alone = PartitionInfo(1, 1, 1, (1,), (1, 2))
    setting.publish(alone, configs=MIN_TWO)
    partition = setting.partitions.led("t", 0)
    partition.append(encode([7]), acks=1, now_ms=0)
    setting.publish(followed(2, 2))
    assert not partition.is_leader
    assert partition.high_watermark == 0


def test_higher_min_insync_is_applied_before_a_smaller_isr(setting: Setting) -> None:
    setting.publish(led())
    partition = setting.partitions.led("t", 0)
    partition.append(encode([7]), acks=1, now_ms=0)
    setting.publish(PartitionInfo(1, 1, 2, (1,), (1, 2), eligible=(2,)), configs=MIN_TWO)
    assert partition.is_leader
    assert partition.high_watermark == 0, "broker 2 may still be elected"
