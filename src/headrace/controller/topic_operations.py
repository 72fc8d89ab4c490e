"""Creating, growing and deleting topics: operations for the ledger. Each topic has its own result."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from headrace.cluster.core.changes import Change, ConfigSet, PartitionsAdded, TopicCreated, TopicDeleted, apply
from headrace.cluster.core.image import ClusterImage
from headrace.config import BrokerConfig
from headrace.controller.core.config_changes import check_values, replaced
from headrace.controller.core.topics import NewTopic, PlacementDraw, more_partitions, new_topic
from headrace.controller.ledger import Decision, Operation
from headrace.controller.results import TopicResult
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault, Refused, UnknownPartition, UnknownTopicId
from headrace.kernel.ids import new_topic_id


@dataclass(frozen=True, slots=True)
class Growth:
    name: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None


def _chance(image: ClusterImage) -> PlacementDraw:
    count = max(1, len(image.brokers))
    return PlacementDraw(random.randrange(count), random.randrange(count))


def create_topics(asked: Sequence[NewTopic], config: BrokerConfig, *, validate_only: bool) -> Operation:
    def decide(image: ClusterImage) -> Decision[list[TopicResult]]:
        results: list[TopicResult] = []
        changes: list[Change] = []
        counts: dict[str, int] = {}
        for topic in asked:
            counts[topic.name] = counts.get(topic.name, 0) + 1
        # Topics of one request are checked against each other (names, placement) through the growing image.
        grown = image
        for topic in asked:
            if counts[topic.name] > 1:
                if not any(result.name == topic.name for result in results):
                    results.append(TopicResult(topic.name, ErrorCode.invalid_request, "Duplicate topic name."))
                continue
            try:
                created = new_topic(
                    grown,
                    topic,
                    new_topic_id(),
                    _chance(image),
                    default_partitions=config.num_partitions,
                    default_factor=config.default_replication_factor,
                )
                overrides = check_values("topic", topic.name, replaced(topic.configs, ErrorCode.invalid_config), config)
            except Fault as fault:
                results.append(TopicResult.failed(topic.name, fault))
                continue
            if overrides:
                changes.append(ConfigSet("topic", topic.name, overrides))
            changes.append(TopicCreated(created))
            if len(asked) > 1:
                grown = apply(grown, [TopicCreated(created)], image.version)
            results.append(TopicResult(topic.name, topic_id=created.id, topic=created, configs=overrides))
        return Decision(results, [] if validate_only else changes)

    return decide


def delete_topics(asked: Sequence[tuple[str | None, UUID | None]], *, enabled: bool) -> Operation:
    """Each topic is given by its name or by its id."""

    def decide(image: ClusterImage) -> Decision[list[TopicResult]]:
        results: list[TopicResult] = []
        changes: list[TopicDeleted] = []
        by_id = {image.topic_names.get(topic_id): topic_id for _, topic_id in asked if topic_id is not None}
        doubly = {name: by_id[name] for name, _ in asked if name is not None and name in by_id}
        doubly_given = set(doubly.values())
        for (name, topic_id), times in Counter(asked).items():
            if topic_id in doubly_given:
                continue
            try:
                if times > 1:
                    kind = "id" if name is None else "name"
                    raise Refused(ErrorCode.invalid_request, f"Duplicate topic {kind}.")
                if name in doubly:
                    topic_id = doubly[name]
                    why = "The provided topic name maps to an ID that was already supplied."
                    raise Refused(ErrorCode.invalid_request, why)
                if not enabled:
                    raise Refused(ErrorCode.topic_deletion_disabled, "delete.topic.enable is false on the controller")
                known = image.topic_names.get(topic_id) if name is None and topic_id is not None else name
                if known is None:
                    raise UnknownTopicId("This server does not host this topic ID.")
                topic = image.topics.get(known)
                if topic is None:
                    raise UnknownPartition("This server does not host this topic-partition.")
            except Fault as fault:
                results.append(TopicResult.failed(name, fault, topic_id))
                continue
            changes.append(TopicDeleted(known, topic.id))
            results.append(TopicResult(known, topic_id=topic.id))
        return Decision(results, changes)

    return decide


def create_partitions(asked: Sequence[Growth], *, validate_only: bool) -> Operation:
    def decide(image: ClusterImage) -> Decision[list[TopicResult]]:
        results: list[TopicResult] = []
        changes: list[Change] = []
        counts: dict[str, int] = {}
        for growth in asked:
            counts[growth.name] = counts.get(growth.name, 0) + 1
        for growth in asked:
            if counts[growth.name] > 1:
                if not any(result.name == growth.name for result in results):
                    results.append(TopicResult(growth.name, ErrorCode.invalid_request, "Duplicate topic name."))
                continue
            try:
                added = more_partitions(image, growth.name, growth.count, growth.assignments, _chance(image))
            except Fault as fault:
                results.append(TopicResult.failed(growth.name, fault))
                continue
            changes.append(PartitionsAdded(growth.name, len(image.topics[growth.name].partitions), added))
            results.append(TopicResult(growth.name))
        return Decision(results, [] if validate_only else changes)

    return decide
