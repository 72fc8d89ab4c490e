"""The topology of a streams group with the topics of the cluster: number of tasks, missing and unfit topics.

Mirrors Kafka's InternalTopicManager and ConfiguredTopology, with its messages.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final, NamedTuple

from headrace.cluster.core.image import ClusterImage
from headrace.coordinators.codec.streams_topology import InternalTopicInfo, StreamsTopology, Subtopology
from headrace.coordinators.group.core.consumer.java_order import in_java_order
from headrace.coordinators.group.core.streams.partition_counts import PartitionCounts, StatusCode, UnfitTopics
from headrace.coordinators.group.core.streams.sticky_assignor import TaskSource

_MOST_NAMED: Final = 3


class ConfiguredSubtopology(NamedTuple):
    """The counts of internal topics are decided."""

    tasks: int
    source_topics: frozenset[str]
    repartition_sink_topics: frozenset[str]
    repartition_source_topics: tuple[InternalTopicInfo, ...]
    changelog_topics: tuple[InternalTopicInfo, ...]

    @property
    def input_topics(self) -> frozenset[str]:
        return self.source_topics.union(topic.name for topic in self.repartition_source_topics)


class ConfiguredTopology(NamedTuple):
    epoch: int
    # By id, in order. None: the topics do not fit, so the number of tasks is not known.
    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    missing: Mapping[str, InternalTopicInfo]
    problem: tuple[StatusCode, str] | None

    @property
    def is_ready(self) -> bool:
        return self.problem is None

    @property
    def sources(self) -> dict[str, TaskSource]:
        return {
            name: TaskSource(each.tasks, bool(each.changelog_topics))
            for name, each in (self.subtopologies or {}).items()
        }


def configure(topology: StreamsTopology, image: ClusterImage) -> ConfiguredTopology:
    """Raises Refused for a topology that fits no topics: STREAMS_INVALID_TOPOLOGY."""
    try:
        _check_source_topics(topology, image)
        counts = PartitionCounts(topology, image)
        subtopologies = {name: _configured(each, counts) for name, each in sorted(topology.by_id.items())}
        missing = _missing(subtopologies, topology, image)
    except UnfitTopics as unfit:
        return ConfiguredTopology(topology.epoch, None, {}, (unfit.status, unfit.detail))
    problem = None
    if missing:
        problem = (StatusCode.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {_summary(list(missing))}")
    return ConfiguredTopology(topology.epoch, subtopologies, missing, problem)


def topics_hash(topology: StreamsTopology, image: ClusterImage) -> int:
    """Changes when a topic of the application is created, deleted, grows or moves to other racks. 0: none exists."""
    digest = hashlib.blake2b(digest_size=8)
    found = False
    for name in sorted(topology.required_topics):
        topic = image.topics.get(name)
        if topic is None:
            continue
        found = True
        racks = sorted(
            {image.brokers[b].rack or "" for p in topic.partitions for b in p.replicas if b in image.brokers}
        )
        digest.update(f"{name}\0{topic.id}\0{len(topic.partitions)}\0{racks}\0".encode())
    return int.from_bytes(digest.digest(), "big", signed=True) if found else 0


def _check_source_topics(topology: StreamsTopology, image: ClusterImage) -> None:
    wanted = {topic for each in topology.by_id.values() for topic in each.source_topics}
    absent = sorted(topic for topic in wanted if topic not in image.topics)
    if absent:
        raise UnfitTopics(StatusCode.MISSING_SOURCE_TOPICS, f"Source topics {_summary(absent)} are missing.")


def _configured(subtopology: Subtopology, counts: PartitionCounts) -> ConfiguredSubtopology:
    return ConfiguredSubtopology(
        counts.tasks_of(subtopology),
        frozenset(subtopology.source_topics),
        frozenset(subtopology.repartition_sink_topics),
        tuple(_with_count(topic, counts) for topic in subtopology.repartition_source_topics),
        tuple(_with_count(topic, counts) for topic in subtopology.changelog_topics),
    )


def _with_count(topic: InternalTopicInfo, counts: PartitionCounts) -> InternalTopicInfo:
    return topic._replace(partitions=topic.partitions or counts.decided[topic.name])


def _missing(
    subtopologies: Mapping[str, ConfiguredSubtopology], topology: StreamsTopology, image: ClusterImage
) -> dict[str, InternalTopicInfo]:
    """The internal topics that do not exist, in the order of Kafka's map, which its message shows."""
    wanted = {
        topic.name: topic
        for each in subtopologies.values()
        for topic in (*each.repartition_source_topics, *each.changelog_topics)
    }
    most = len(wanted)
    for name in sorted(topology.required_topics):
        info, topic = image.topics.get(name), wanted.get(name)
        if info is None or topic is None:
            continue
        if len(info.partitions) != topic.partitions:
            raise UnfitTopics(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected {topic.partitions}, found "
                f"{len(info.partitions)}",
            )
        del wanted[name]
    return {name: wanted[name] for name in in_java_order(wanted, most=most)}


def _summary(topics: list[str]) -> str:
    rest = len(topics) - _MOST_NAMED
    return ", ".join(topics[:_MOST_NAMED]) + (f" and {rest} additional topics" if rest > 0 else "")
