"""Topics rebuilt from logs: every log on disk is served, and topics of the store keep their settings."""

from __future__ import annotations

from uuid import UUID

from headrace.broker.core.topics_from_logs import KEEP_EVERYTHING, Findings, LogOnDisk, topics_from_logs
from headrace.cluster.core.changes import apply
from headrace.cluster.core.image import ClusterImage, PartitionInfo, TopicInfo

ONE, OTHER, NEW = UUID(int=1), UUID(int=2), UUID(int=99)
BROKER = 4


def found(image: ClusterImage, *logs: LogOnDisk) -> tuple[Findings, ClusterImage]:
    findings = topics_from_logs(
        image, logs, BROKER, new_id=lambda: NEW, internal_settings={"__consumer_offsets": {"cleanup.policy": "compact"}}
    )
    return findings, apply(image, findings.changes, image.version + 1)


def known(*epochs: int, replicas: tuple[int, ...] = (BROKER,)) -> ClusterImage:
    infos = tuple(PartitionInfo(BROKER, epoch, 3, replicas, replicas) for epoch in epochs)
    topic = TopicInfo("orders", ONE, infos)
    return ClusterImage(version=5, topics={"orders": topic}, topic_names={ONE: "orders"})


def test_a_topic_has_the_id_and_the_partitions_of_its_logs_and_keeps_everything() -> None:
    findings, image = found(ClusterImage(version=0), LogOnDisk("orders", 0, ONE, 6), LogOnDisk("orders", 2, ONE, -1))
    topic = image.topics["orders"]
    assert (topic.id, findings.made, findings.left) == (ONE, ("orders",), ())
    assert [(p.leader, p.leader_epoch, p.isr, p.replicas) for p in topic.partitions] == [
        (BROKER, epoch, (BROKER,), (BROKER,)) for epoch in (7, 0, 0)
    ]
    assert image.config_of("topic", "orders") == KEEP_EVERYTHING


def test_a_log_without_an_id_gets_one_and_an_internal_topic_its_own_settings() -> None:
    _, image = found(ClusterImage(version=0), LogOnDisk("__consumer_offsets", 1, None, 0))
    assert image.topics["__consumer_offsets"].id == NEW and image.topics["__consumer_offsets"].is_internal
    assert image.config_of("topic", "__consumer_offsets") == {"cleanup.policy": "compact"}


def test_a_topic_that_the_store_knows_stays_as_it_is() -> None:
    findings, image = found(known(7), LogOnDisk("orders", 0, ONE, 6))
    assert findings == Findings((), (), ())
    assert image.topics == known(7).topics


def test_a_store_that_is_older_than_the_logs_gets_their_partitions_and_a_higher_epoch() -> None:
    findings, image = found(known(2), LogOnDisk("orders", 0, ONE, 9), LogOnDisk("orders", 1, ONE, 0))
    assert findings.made == ()
    assert [p.leader_epoch for p in image.topics["orders"].partitions] == [10, 1]
    assert image.config_of("topic", "orders") == {}


def test_replicas_on_other_brokers_are_dropped() -> None:
    _, image = found(known(2, replicas=(BROKER, 5, 6)), LogOnDisk("orders", 0, ONE, 2))
    [info] = image.topics["orders"].partitions
    assert (info.leader, info.leader_epoch, info.replicas, info.isr) == (BROKER, 3, (BROKER,), (BROKER,))


def test_logs_of_another_topic_of_the_name_are_left_with_the_reason() -> None:
    findings, image = found(known(2), LogOnDisk("orders", 0, OTHER, 9))
    assert findings.left == ("orders-0 is of another topic of that name",)
    assert image.topics == known(2).topics
    findings, image = found(ClusterImage(version=0), LogOnDisk("orders", 0, ONE, 0), LogOnDisk("orders", 1, OTHER, 0))
    assert findings.left == (
        "orders-0: the logs of orders are of 2 different topics",
        "orders-1: the logs of orders are of 2 different topics",
    )
    assert image.topics == {}
