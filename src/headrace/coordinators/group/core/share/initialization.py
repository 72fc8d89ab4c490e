"""Which share partitions of a group are initialised: its record of type 15, as Kafka writes it.

The group records a share partition as initialising before it asks the share coordinator to initialise it, and as
deleting before it asks to delete it. So the next group coordinator knows which operations to finish. Kafka's
ShareGroupStatePartitionMetadata.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from headrace.cluster.core.image import ClusterImage, TopicInfo
from headrace.coordinators.codec.share_groups import NamedPartitions, StatePartitionMetadata
from headrace.coordinators.codec.share_state import ShareKey
from headrace.coordinators.group.core.effects import Effects
from headrace.coordinators.group.core.share.group import ShareGroup
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class DeletionPlan:
    """The share partitions to delete, by topic, and the topics that have none."""

    share_partitions: Mapping[str, Sequence[ShareKey]]
    errors: Mapping[str, ErrorCode]


def note_initializing(
    group: ShareGroup, subscribed: Mapping[str, TopicInfo], image: ClusterImage, effects: Effects
) -> None:
    """Records the share partitions of subscribed topics that are not initialised yet."""
    before = group.noted or StatePartitionMetadata()
    known = {*before.initializing, *before.initialized, *before.deleting}
    noted = without_topics(before, {topic_id for topic_id in known if topic_id not in image.topic_names})
    missing: dict[uuid.UUID, tuple[str, frozenset[int]]] = {}
    for name, topic in subscribed.items():
        uninitialized = frozenset(range(len(topic.partitions))) - noted.initialized.get(topic.id, ("", frozenset()))[1]
        if uninitialized:
            missing[topic.id] = (name, uninitialized)
    begun = begin(noted, missing)
    if begun != before:
        group.write_state_partitions(begun, effects)


def begin(noted: StatePartitionMetadata, share_partitions: NamedPartitions) -> StatePartitionMetadata:
    deleting = {topic_id: name for topic_id, name in noted.deleting.items() if topic_id not in share_partitions}
    return replace(noted, initializing=joined(noted.initializing, share_partitions), deleting=deleting)


def have_begun(noted: StatePartitionMetadata, share_partitions: NamedPartitions) -> StatePartitionMetadata:
    """Share partitions that are initialising. A deleted topic is left out."""
    begun: dict[uuid.UUID, tuple[str, frozenset[int]]] = {}
    rest: dict[uuid.UUID, tuple[str, frozenset[int]]] = {}
    for topic_id, (name, indexes) in noted.initializing.items():
        done = indexes & share_partitions.get(topic_id, (name, frozenset()))[1]
        if done:
            begun[topic_id] = (name, done)
        if indexes - done:
            rest[topic_id] = (name, indexes - done)
    return replace(noted, initializing=rest, initialized=joined(noted.initialized, begun))


def note_going(group: ShareGroup, topics: Sequence[str], image: ClusterImage, effects: Effects) -> DeletionPlan:
    """Records the share partitions of some topics as deleting. A group without the record has none to delete."""
    share_partitions: dict[str, list[ShareKey]] = {}
    errors: dict[str, ErrorCode] = {}
    noted = group.noted
    if noted is None:
        return DeletionPlan(share_partitions, errors)
    initialized, deleting = dict(noted.initialized), dict(noted.deleting)
    for topic in topics:
        info = image.topics.get(topic)
        if info is not None and info.id in initialized:
            indexes: Collection[int] = initialized.pop(info.id)[1]
            deleting[info.id] = topic
        elif info is not None and info.id in deleting:
            indexes = range(len(info.partitions))
        else:
            errors[topic] = ErrorCode.unknown_topic_or_partition
            continue
        share_partitions[topic] = [ShareKey(group.group_id, info.id, index) for index in sorted(indexes)]
    group.write_state_partitions(replace(noted, initialized=initialized, deleting=deleting), effects)
    return DeletionPlan(share_partitions, errors)


def note_all_going(group: ShareGroup, image: ClusterImage, effects: Effects) -> list[ShareKey]:
    noted = group.noted
    if noted is None:
        return []
    half_gone: NamedPartitions = {
        topic_id: (name, frozenset(range(len(image.topics[name].partitions))))
        for topic_id, name in noted.deleting.items()
        if image.topic_names.get(topic_id) == name
    }
    share_partitions = joined(joined(noted.initialized, noted.initializing), half_gone)
    deleting = {topic_id: name for topic_id, (name, _) in share_partitions.items()}
    group.write_state_partitions(StatePartitionMetadata(deleting=deleting), effects)
    return [
        ShareKey(group.group_id, topic_id, index)
        for topic_id, (_, indexes) in share_partitions.items()
        for index in sorted(indexes)
    ]


def without_topics(noted: StatePartitionMetadata, gone: Collection[uuid.UUID]) -> StatePartitionMetadata:
    return StatePartitionMetadata(
        {topic_id: entry for topic_id, entry in noted.initializing.items() if topic_id not in gone},
        {topic_id: entry for topic_id, entry in noted.initialized.items() if topic_id not in gone},
        {topic_id: name for topic_id, name in noted.deleting.items() if topic_id not in gone},
    )


def joined(some: NamedPartitions, more: NamedPartitions) -> dict[uuid.UUID, tuple[str, frozenset[int]]]:
    found = dict(some)
    for topic_id, (name, indexes) in more.items():
        found[topic_id] = (name, found.get(topic_id, (name, frozenset()))[1] | indexes)
    return found
