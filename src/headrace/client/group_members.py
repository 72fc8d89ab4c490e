"""Members of groups, and the partitions that they are assigned, as brokers describe them."""

from __future__ import annotations

from collections.abc import Iterable

from kio.schema.consumer_protocol_assignment.v0.data import ConsumerProtocolAssignment
from kio.serial import entity_reader

from headrace.kernel.dataclass import dataclass
from headrace.kernel.ids import TopicPartition
from headrace.wire.entities import Entity

# The version of a classic assignment, before its fields.
_VERSION_BYTES = 2


@dataclass(frozen=True, slots=True)
class GroupMember:
    id: str
    instance_id: str | None
    client_id: str
    host: str
    assigned: tuple[TopicPartition, ...]


def assigned_partitions(assignment: Entity) -> tuple[TopicPartition, ...]:
    """The assignment of a member of a consumer group or a share group."""
    topics = assignment.topic_partitions
    return tuple(sorted(TopicPartition(str(one.topic_name), int(p)) for one in topics for p in one.partitions))


def input_topics(group: Entity) -> dict[str, list[str]]:
    """The topics that each subtopology of a streams group reads."""
    subtopologies = () if group.topology is None else group.topology.subtopologies or ()
    return {
        str(each.subtopology_id): [
            *map(str, each.source_topics),
            *(str(topic.name) for topic in each.repartition_source_topics),
        ]
        for each in subtopologies
    }


def task_partitions(group: Entity, tasks: Iterable[Entity]) -> tuple[TopicPartition, ...]:
    """The partitions of tasks in a streams group. A task has one partition of each topic that its subtopology reads."""
    topics = input_topics(group)
    return tuple(
        sorted(
            TopicPartition(topic, int(number))
            for task in tasks
            for topic in topics.get(str(task.subtopology_id), ())
            for number in task.partitions
        )
    )


def classic_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """The assignment of a member of a classic group, as its leader wrote it."""
    if not data:
        return ()
    try:
        assignment, _ = entity_reader(ConsumerProtocolAssignment)(bytes(data), _VERSION_BYTES)
    except Exception:
        # Boundary to bytes of a client: other protocol types (connect, sr) have their own format, and a decoding error
        # must not end the caller. They assign no partitions that could be shown.
        return ()
    listed = assignment.assigned_partitions
    return tuple(sorted(TopicPartition(str(one.topic), int(number)) for one in listed for number in one.partitions))
