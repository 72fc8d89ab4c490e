"""A log that no topic of the cluster claims keeps its records. It is deleted only if the image has the deletion of its
topic.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cluster.core.changes import TopicCreated, TopicDeleted, apply
from headrace.cluster.core.image import BrokerInfo, ClusterImage, PartitionInfo, TopicInfo
from headrace.cluster.view import ClusterView
from headrace.replication.partitions import Partitions
from headrace.storage.dirs.log_dirs import LogDirs
from headrace.storage.dirs.strays import Stray, strays_in
from headrace.storage.log_config import LogConfig
from tests.support.logs import NOW_MS, a_batch, append, open_dirs

BROKER_EPOCH = 7
OLD_ID, NEW_ID = uuid.UUID(int=1 << 90), uuid.UUID(int=2 << 90)
HERE = PartitionInfo(1, 0, 0, (1,), (1,))
ELSEWHERE = PartitionInfo(2, 0, 0, (2,), (2,))


def image(*topics: TopicInfo, version: int = 1, cluster_id: str = "ours") -> ClusterImage:
    return ClusterImage(
        version=version,
        cluster_id=cluster_id,
        brokers={1: BrokerInfo(1, BROKER_EPOCH, ()), 2: BrokerInfo(2, 9, ())},
        topics={topic.name: topic for topic in topics},
        topic_names={topic.id: topic.name for topic in topics},
    )


def precious(topic_id: uuid.UUID = OLD_ID, info: PartitionInfo = HERE) -> TopicInfo:
    return TopicInfo("precious", topic_id, (info,))


class Broker:
    """The logs of broker 1, and its partitions according to a published image."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.view = ClusterView()
        self.dirs: LogDirs = open_dirs(directory, cluster_id="ours", now_ms=NOW_MS)
        self.partitions = Partitions(
            1, self.dirs, self.view, lambda topic, image: LogConfig(file_delete_delay_ms=0), wall_ms=lambda: NOW_MS
        )
        self.partitions.registered_as(BROKER_EPOCH)

    def end_of(self, topic: str = "precious") -> int | None:
        log = self.dirs.log(topic, 0)
        return None if log is None else log.log_end_offset

    def strays(self) -> list[Stray]:
        return strays_in(self.directory)

    def stop(self) -> None:
        self.partitions.close()
        self.dirs.close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory that was stopped cleanly with 100 records in `precious`."""
    dirs = open_dirs(tmp_path, cluster_id="ours")
    append(dirs.create("precious", 0, OLD_ID), a_batch(100))
    dirs.close()
    return tmp_path


@pytest.fixture
def broker(data: Path) -> Iterator[Broker]:
    running = Broker(data)
    yield running
    running.stop()


def test_a_log_of_an_older_topic_id_is_set_aside_with_its_records(broker: Broker) -> None:
    broker.view.publish(image(precious(NEW_ID)))
    assert broker.end_of() == 0, "the new topic begins empty"
    broker.dirs.deletions.purge(NOW_MS + 1_000_000)
    [stray] = broker.strays()
    assert stray.note is not None
    assert (stray.topic, stray.partition, stray.note.topic_id) == ("precious", 0, OLD_ID)
    assert (stray.note.first_offset, stray.note.end_offset, stray.note.cluster_id) == (0, 100, "ours")
    assert stray.note.set_aside_ms == NOW_MS and "older topic" in stray.note.reason
    assert stray.count_records() == 100


def test_a_log_that_no_topic_claims_is_set_aside_at_the_first_image(broker: Broker) -> None:
    broker.view.publish(image())
    assert broker.end_of() is None
    [stray] = broker.strays()
    assert stray.count_records() == 100 and "no topic" in stray.reason


def test_log_whose_replica_is_on_another_broker_is_set_aside_at_the_first_image(broker: Broker) -> None:
    broker.view.publish(image(precious(info=ELSEWHERE)))
    [stray] = broker.strays()
    assert stray.count_records() == 100 and "no replica" in stray.reason


def test_stray_is_not_opened_or_deleted_by_later_starts(data: Path) -> None:
    for _ in range(3):
        broker = Broker(data)
        broker.view.publish(image())
        broker.stop()
    [stray] = strays_in(data)
    assert stray.count_records() == 100


def test_unclaimed_log_without_records_is_deleted(tmp_path: Path) -> None:
    dirs = open_dirs(tmp_path, cluster_id="ours")
    dirs.create("empty", 0, OLD_ID)
    dirs.close()
    broker = Broker(tmp_path)
    broker.view.publish(image())
    assert broker.strays() == [] and broker.end_of("empty") is None
    broker.stop()


def test_delete_topics_deletes_the_log(broker: Broker) -> None:
    broker.view.publish(image(precious()))
    broker.view.publish(apply(broker.view.current, [TopicDeleted("precious", OLD_ID)], 2))
    broker.dirs.deletions.purge(NOW_MS + 1_000_000)
    assert broker.strays() == [] and not list(broker.directory.glob("precious*"))


def test_topic_deleted_and_recreated_in_one_image_starts_empty(broker: Broker) -> None:
    broker.view.publish(image(precious()))
    changes = [TopicDeleted("precious", OLD_ID), TopicCreated(precious(NEW_ID))]
    broker.view.publish(apply(broker.view.current, changes, 2))  # type: ignore[arg-type]
    assert broker.end_of() == 0 and broker.strays() == []


def test_topic_missing_from_the_image_without_a_deletion_is_set_aside(broker: Broker) -> None:
    """Its nodes were removed from ZooKeeper, or an older snapshot of ZooKeeper was restored."""
    broker.view.publish(image(precious()))
    broker.view.publish(image(version=9))
    [stray] = broker.strays()
    assert stray.count_records() == 100


def test_an_image_of_another_cluster_changes_nothing(broker: Broker) -> None:
    broker.view.publish(image(precious()))
    broker.view.publish(image(version=9, cluster_id="another"))
    assert broker.end_of() == 100 and broker.strays() == []


def test_a_replica_that_was_reassigned_to_another_broker_is_deleted(broker: Broker) -> None:
    broker.view.publish(image(precious()))
    broker.view.publish(image(precious(info=ELSEWHERE), version=2))
    assert broker.end_of() is None and broker.strays() == []
