"""The differences between two images, found by identity: an unchanged topic is the same object in both."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from headrace.cluster.core.image import BrokerInfo, ClusterImage, ConfigResource, PartitionInfo, TopicInfo
from headrace.kernel.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ImageDelta:
    """Apply `deleted` first: a topic that was recreated under its old name is in both lists."""

    old: ClusterImage
    new: ClusterImage
    deleted: tuple[TopicInfo, ...]
    created: tuple[TopicInfo, ...]
    changed: tuple[tuple[TopicInfo, int, PartitionInfo | None, PartitionInfo], ...]  # topic, index, before, after
    brokers_joined: tuple[BrokerInfo, ...]  # new, or back with another epoch, or changed
    brokers_left: tuple[int, ...]
    configs_changed: tuple[ConfigResource, ...]
    quotas_changed: bool
    features_changed: bool


def diff(old: ClusterImage, new: ClusterImage) -> ImageDelta:
    deleted, created = [], []
    changed: list[tuple[TopicInfo, int, PartitionInfo | None, PartitionInfo]] = []
    if old.topics is not new.topics:
        for name, topic in old.topics.items():
            now = new.topics.get(name)
            if now is None or now.id != topic.id:
                deleted.append(topic)
        for name, topic in new.topics.items():
            before = old.topics.get(name)
            if before is topic:
                continue
            if before is None or before.id != topic.id:
                created.append(topic)
                changed.extend((topic, index, None, info) for index, info in enumerate(topic.partitions))
            else:
                changed.extend(_changed_partitions(before, topic))
    return ImageDelta(
        old=old,
        new=new,
        deleted=tuple(deleted),
        created=tuple(created),
        changed=tuple(changed),
        brokers_joined=tuple(b for i, b in new.brokers.items() if old.brokers.get(i) != b),
        brokers_left=tuple(i for i in old.brokers if i not in new.brokers),
        configs_changed=_changed_keys(old.configs, new.configs),
        quotas_changed=old.quotas is not new.quotas and old.quotas != new.quotas,
        features_changed=old.features is not new.features and old.features != new.features,
    )


def deleted_topics(old: ClusterImage, new: ClusterImage) -> dict[str, UUID]:
    """Topics of `old` whose deletion `new` has replayed. Does not include a topic that is only missing in `new`."""
    if old.topics is new.topics:
        return {}
    return {name: topic.id for name, topic in old.topics.items() if topic.id in new.deleted_topics}


def _changed_partitions(
    before: TopicInfo, after: TopicInfo
) -> list[tuple[TopicInfo, int, PartitionInfo | None, PartitionInfo]]:
    found: list[tuple[TopicInfo, int, PartitionInfo | None, PartitionInfo]] = []
    for index, info in enumerate(after.partitions):
        known = before.partitions[index] if index < len(before.partitions) else None
        if known is not info and known != info:
            found.append((after, index, known, info))
    return found


def _changed_keys(
    old: Mapping[ConfigResource, object], new: Mapping[ConfigResource, object]
) -> tuple[ConfigResource, ...]:
    if old is new:
        return ()
    return tuple(key for key in {**old, **new} if old.get(key) != new.get(key))
