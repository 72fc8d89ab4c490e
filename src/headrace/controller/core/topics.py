"""New topics and more partitions: checks the request, then places the replicas. The random choices are arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final
from uuid import UUID

from headrace.cluster.core.cordons import is_cordoned
from headrace.cluster.core.image import ClusterImage, PartitionInfo, TopicInfo
from headrace.cluster.core.placement import place
from headrace.controller.core.elections import may_lead
from headrace.controller.core.reassignments import check_replicas, target_replicas
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Refused, UnknownPartition
from headrace.kernel.ids import CLUSTER_METADATA_TOPIC, INTERNAL_TOPICS, names_collide, topic_name_problem

USE_DEFAULT: Final = -1
# Limit of one request, as in Kafka.
MAX_PARTITIONS_PER_REQUEST: Final = 10_000


@dataclass(frozen=True, slots=True)
class NewTopic:
    name: str
    partitions: int = USE_DEFAULT
    replication_factor: int = USE_DEFAULT
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)
    assigned_twice: int | None = None
    """A partition that `assignments` was asked to hold more than once."""


@dataclass(frozen=True, slots=True)
class PlacementDraw:
    """Random numbers for each placement, drawn by the caller."""

    start: int = 0
    shift: int = 0


def check_name(image: ClusterImage, name: str) -> None:
    problem = topic_name_problem(name)
    if problem is not None:
        raise Refused(ErrorCode.invalid_topic_exception, problem)
    if name == CLUSTER_METADATA_TOPIC:
        raise Refused(ErrorCode.invalid_request, f"Creation of internal topic {name} is prohibited.")
    if name in image.topics:
        raise Refused(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")
    if "." in name or "_" in name:
        for other in image.topics:
            if len(other) == len(name) and names_collide(name, other):
                why = f"Topic '{name}' collides with existing topic: {other}"
                raise Refused(ErrorCode.invalid_topic_exception, why)


def new_topic(
    image: ClusterImage,
    asked: NewTopic,
    topic_id: UUID,
    chance: PlacementDraw,
    *,
    default_partitions: int,
    default_factor: int,
) -> TopicInfo:
    """The topic to create, every partition with its leader. Raises Refused."""
    check_name(image, asked.name)
    if asked.assignments:
        replica_lists = _assigned(image, asked)
    else:
        partitions = default_partitions if asked.partitions == USE_DEFAULT else asked.partitions
        factor = default_factor if asked.replication_factor == USE_DEFAULT else asked.replication_factor
        if partitions <= 0:
            why = (
                f"topic '{asked.name}': number of partitions {partitions} must be larger than 0, or -1 for the default"
            )
            raise Refused(ErrorCode.invalid_partitions, why)
        if partitions > MAX_PARTITIONS_PER_REQUEST:
            why = f"topic '{asked.name}': {partitions} partitions, at most {MAX_PARTITIONS_PER_REQUEST} in one request"
            raise Refused(ErrorCode.policy_violation, why)
        replica_lists = _placed(image, partitions, factor, 0, chance)
    infos = tuple(_first_state(image, replicas) for replicas in replica_lists)
    return TopicInfo(asked.name, topic_id, infos, asked.name in INTERNAL_TOPICS)


def more_partitions(
    image: ClusterImage, name: str, count: int, assignments: Sequence[Sequence[int]] | None, chance: PlacementDraw
) -> tuple[PartitionInfo, ...]:
    """The partitions to add so that the topic has `count`. Raises a fault."""
    topic = image.topics.get(name)
    if topic is None:
        raise UnknownPartition()
    have = len(topic.partitions)
    if count == have:
        raise Refused(ErrorCode.invalid_partitions, f"Topic already has {have} partition(s).")
    if count < have:
        why = f"The topic {name} currently has {have} partition(s); {count} would not be an increase."
        raise Refused(ErrorCode.invalid_partitions, why)
    extra = count - have
    if extra > MAX_PARTITIONS_PER_REQUEST:
        why = f"topic '{name}': {extra} more partitions are more than {MAX_PARTITIONS_PER_REQUEST} in one request"
        raise Refused(ErrorCode.policy_violation, why)
    # New partitions get the replication factor of the first partition, or of its reassignment target.
    factor = len(target_replicas(topic.partitions[0]))
    if assignments is None:
        replica_lists = _placed(image, extra, factor, have, chance)
    else:
        if len(assignments) != extra:
            given = len(assignments)
            why = f"Attempted to add {extra} additional partition(s), but {given} assignment(s) were specified."
            raise Refused(ErrorCode.invalid_replica_assignment, why)
        replica_lists = [tuple(replicas) for replicas in assignments]
        for at, replicas in enumerate(replica_lists):
            check_replicas(image, replicas, f"{name}-{have + at}")
            if len(replicas) != factor:
                why = f"{name}-{have + at}: {len(replicas)} replica(s) given, the topic has replication factor {factor}"
                raise Refused(ErrorCode.invalid_replica_assignment, why)
    return tuple(_first_state(image, replicas) for replicas in replica_lists)


def _assigned(image: ClusterImage, asked: NewTopic) -> list[tuple[int, ...]]:
    if asked.replication_factor != USE_DEFAULT:
        why = "A manual partition assignment was specified, but replication factor was not set to -1."
        raise Refused(ErrorCode.invalid_request, why)
    if asked.partitions != USE_DEFAULT:
        why = "A manual partition assignment was specified, but numPartitions was not set to -1."
        raise Refused(ErrorCode.invalid_request, why)
    code = ErrorCode.invalid_replica_assignment
    if asked.assigned_twice is not None:
        raise Refused(code, f"Found multiple manual partition assignments for partition {asked.assigned_twice}")
    if sorted(asked.assignments) != list(range(len(asked.assignments))):
        raise Refused(code, f"topic '{asked.name}': partitions should be a consecutive 0-based integer sequence")
    lists = [tuple(asked.assignments[index]) for index in range(len(asked.assignments))]
    for index, replicas in enumerate(lists):
        check_replicas(image, replicas, f"{asked.name}-{index}")
        if len(replicas) != len(lists[0]):
            why = f"{asked.name}-{index} has {len(replicas)} replica(s), {asked.name}-0 has {len(lists[0])}"
            raise Refused(code, why)
    return lists


def _placed(
    image: ClusterImage, partitions: int, factor: int, first: int, chance: PlacementDraw
) -> list[tuple[int, ...]]:
    code = ErrorCode.invalid_replication_factor
    if factor <= 0:
        raise Refused(code, f"Replication factor {factor} must be larger than 0, or -1 to use the default value.")
    registered = sorted({*image.brokers, *image.fenced_brokers})
    cordoned = {broker_id for broker_id in registered if is_cordoned(image, broker_id)}
    usable = [broker_id for broker_id in image.brokers if may_lead(image, broker_id) and broker_id not in cordoned]
    # Only if too few brokers are alive: a replica on a restarting broker is in sync when it is back.
    away = [broker_id for broker_id in registered if broker_id not in usable and broker_id not in cordoned]
    if factor > len(usable) + len(away) or not usable:
        why = (
            f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} "
            f"cannot be reached because only {len(usable) + len(away)} broker(s) are registered"
            + (f", {len(usable)} of them alive" if away else "")
            + (f"; the log directories of brokers {sorted(cordoned)} are cordoned" if cordoned else "")
            + "."
        )
        raise Refused(code, why)
    racks = {broker_id: image.brokers[broker_id].rack for broker_id in usable}
    here = min(factor, len(usable))
    placed = place(usable, partitions, here, racks, start=chance.start, shift=chance.shift, first_partition=first)
    return [
        (*replicas, *(away[(first + at + turn) % len(away)] for turn in range(factor - here)))
        for at, replicas in enumerate(placed)
    ]


def _first_state(image: ClusterImage, replicas: Sequence[int]) -> PartitionInfo:
    in_sync = tuple(replica for replica in replicas if may_lead(image, replica))
    if not in_sync:
        why = f"none of the brokers {list(replicas)} is alive: a partition needs a leader to begin with"
        raise Refused(ErrorCode.invalid_replica_assignment, why)
    return PartitionInfo(in_sync[0], 0, 0, in_sync, tuple(replicas))
