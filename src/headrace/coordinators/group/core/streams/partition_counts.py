"""Decides the number of partitions of the internal topics of a streams application.

A repartition topic without a fixed count gets the largest count of the inputs of the subtopology that writes it, which
may be another repartition topic. Copartitioned topics must agree: the source topics decide, and repartition topics
follow. A changelog topic gets one partition for each task of its subtopology. The messages are Kafka's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum

from headrace.cluster.core.image import ClusterImage
from headrace.coordinators.codec.streams_topology import CopartitionGroup, StreamsTopology, Subtopology
from headrace.coordinators.group.core.consumer.java_order import in_java_order
from headrace.kernel.errors import ErrorCode, Refused


class StatusCode(IntEnum):
    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class UnfitTopics(Exception):
    """The topics of the cluster do not fit the topology. Members learn it as a status of their group."""

    def __init__(self, status: StatusCode, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


class PartitionCounts:
    """Counts of existing topics, and of internal topics as far as they are decided. An existing topic keeps its own."""

    def __init__(self, topology: StreamsTopology, image: ClusterImage) -> None:
        """Raises UnfitTopics, and Refused with STREAMS_INVALID_TOPOLOGY."""
        self._image = image
        self._subtopologies = [topology.by_id[name] for name in in_java_order(topology.by_id)]
        self.decided: dict[str, int] = {}
        self._decide_repartition_topics()
        self._enforce_copartitioning()
        self._decide_changelog_topics()

    def get(self, topic: str) -> int | None:
        info = self._image.topics.get(topic)
        return self.decided.get(topic) if info is None else len(info.partitions)

    def __getitem__(self, topic: str) -> int:
        count = self.get(topic)
        if count is None:
            raise Refused(ErrorCode.unknown_server_error, f"topic {topic}: its number of partitions is not known")
        return count

    def tasks_of(self, subtopology: Subtopology) -> int:
        if not subtopology.input_topics:
            raise _invalid(f"No source topics found for subtopology {subtopology.id}")
        return max(self[topic] for topic in subtopology.input_topics)

    # Repartition topics

    def _decide_repartition_topics(self) -> None:
        counts = {
            topic.name: topic.partitions
            for each in self._subtopologies
            for topic in each.repartition_source_topics
            if topic.partitions != 0
        }
        while self._one_round(counts):
            pass
        for each in self._subtopologies:
            if any(topic.name not in counts for topic in each.repartition_source_topics):
                raise _invalid(
                    "Failed to compute number of partitions for all repartition topics, because a repartition source "
                    "topic is never used as a sink topic."
                )
        self.decided.update(counts)

    def _one_round(self, counts: dict[str, int]) -> bool:
        """Whether another round is needed, because a topic depends on a topic that was decided later."""
        is_open = has_progress = False
        for each in self._subtopologies:
            for sink in each.repartition_sink_topics:
                if sink in counts:
                    continue
                found = [counts[t.name] for t in each.repartition_source_topics if t.name in counts]
                found += [count for topic in each.source_topics if (count := self.get(topic)) is not None]
                if found:
                    counts[sink] = max(found)
                    has_progress = True
                else:
                    is_open = True
        if is_open and not has_progress:
            raise _invalid(
                "Failed to compute number of partitions for all repartition topics. There may be loops in the topology "
                "that cannot be resolved."
            )
        return is_open

    # Copartitioned topics

    def _enforce_copartitioning(self) -> None:
        infos = [topic for each in self._subtopologies for topic in each.repartition_source_topics]
        fixed = {topic.name for topic in infos if topic.partitions != 0}
        flexible = {topic.name for topic in infos if topic.partitions == 0}
        for each in self._subtopologies:
            for group in each.copartition_groups:
                topics = _copartitioned(each, group)
                if topics:
                    self.decided.update(self._enforced(topics, fixed, flexible))

    def _enforced(self, topics: frozenset[str], fixed: set[str], flexible: set[str]) -> dict[str, int]:
        repartition = {topic: self[topic] for topic in topics if topic in fixed or topic in flexible}
        others = {topic: self[topic] for topic in topics if topic not in repartition}
        if others:
            count = _same(others, others.values())
        elif fixed:
            count = _same(repartition, [self[topic] for topic in fixed])
        else:
            count = max(repartition.values())
        for topic, found in repartition.items():
            if topic in fixed and found != count:
                raise UnfitTopics(
                    StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Number of partitions [{found}] of repartition topic [{topic}] doesn't match number of partitions "
                    f"[{count}] of the source topic.",
                )
        return dict.fromkeys(repartition, count)

    # Changelog topics

    def _decide_changelog_topics(self) -> None:
        decided = {}
        for each in self._subtopologies:
            tasks = self.tasks_of(each)
            decided.update({topic.name: tasks for topic in each.changelog_topics})
        self.decided.update(decided)


def _copartitioned(subtopology: Subtopology, group: CopartitionGroup) -> frozenset[str]:
    try:
        return frozenset(
            (
                *(subtopology.source_topics[_index(i)] for i in group.source_topics),
                *(subtopology.repartition_source_topics[_index(i)].name for i in group.repartition_source_topics),
            )
        )
    except IndexError as wrong:
        raise Refused(
            ErrorCode.unknown_server_error,
            f"subtopology {subtopology.id} has a copartition group of topics that it does not read",
        ) from wrong


def _index(index: int) -> int:
    if index < 0:
        raise IndexError(index)
    return index


def _same(named: Mapping[str, int], counts: Iterable[int]) -> int:
    distinct: Collection[int] = set(counts)
    if len(distinct) > 1:
        listed = ", ".join(f"{topic}={count}" for topic, count in sorted(named.items()))
        raise UnfitTopics(
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
            f"Following topics do not have the same number of partitions: [{{{listed}}}]",
        )
    return next(iter(distinct))


def _invalid(message: str) -> Refused:
    return Refused(ErrorCode.streams_invalid_topology, message)
