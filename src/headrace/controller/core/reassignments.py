"""Reassignments: moves replicas while the partition serves. Adds the new replicas, waits until they are in sync, then
removes the old ones.

    replicas  = target + removing          (the target comes first: its head is the next preferred leader)
    done when every added replica is in sync (partition_states completes it with the report that says so)

Cancelling restores the former replicas: added ones are removed, removed ones stay.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.cluster.core.cordons import is_cordoned
from headrace.cluster.core.image import ClusterImage, PartitionInfo
from headrace.controller.core.elections import RulesOf, rules_for
from headrace.controller.core.partition_states import PartitionDecision, settle
from headrace.kernel.errors import ErrorCode, Refused, UnknownPartition


def original_replicas(info: PartitionInfo) -> tuple[int, ...]:
    return tuple(r for r in info.replicas if r not in info.adding)


def target_replicas(info: PartitionInfo) -> tuple[int, ...]:
    return tuple(r for r in info.replicas if r not in info.removing)


def check_replicas(image: ClusterImage, replicas: Sequence[int], where: str, *, present: Sequence[int] = ()) -> None:
    """Raises INVALID_REPLICA_ASSIGNMENT for an invalid list of brokers. `present` are replicas that the partition has:
    they may stay on a cordoned broker."""
    code = ErrorCode.invalid_replica_assignment
    if not replicas:
        raise Refused(code, f"{where}: the replica list is empty")
    if len(set(replicas)) != len(replicas):
        raise Refused(code, f"{where}: the replica list {list(replicas)} names a broker more than once")
    for broker_id in replicas:
        if broker_id < 0:
            raise Refused(code, f"{where}: the replica list includes the invalid broker id {broker_id}")
        if image.registered(broker_id) is None:
            raise Refused(
                code, f"{where}: the replica list includes broker {broker_id}, but no such broker is registered"
            )
        if broker_id not in present and is_cordoned(image, broker_id):
            raise Refused(
                code, f"{where}: the replica list includes broker {broker_id}, but all its log directories are cordoned"
            )


def reassign(
    image: ClusterImage,
    topic: str,
    index: int,
    target: Sequence[int] | None,
    rules_of: RulesOf,
    *,
    allow_replication_factor_change: bool = True,
) -> PartitionDecision | None:
    """The state after the reassignment has begun, or was replaced, cancelled or completed. Raises a fault."""
    info = image.partition(topic, index)
    if info is None:
        raise UnknownPartition(f"The topic or partition {topic}-{index} does not exist")
    rules = rules_for(image, topic, index, rules_of(topic))
    before = original_replicas(info)
    if target is None:
        if not info.is_reassigning:
            raise Refused(ErrorCode.no_reassignment_in_progress)  # Kafka sends only the code too
        isr = [r for r in info.isr if r not in info.adding]
        if not isr and not set(info.eligible) & set(before):
            why = f"{topic}-{index}: none of the replicas before the reassignment, {list(before)}, is in sync"
            raise Refused(ErrorCode.invalid_replica_assignment, why)
        return settle(info, rules, isr=isr, replicas=before, adding=(), removing=())
    check_replicas(image, target, f"{topic}-{index}", present=info.replicas)
    if not allow_replication_factor_change and len(target) != len(target_replicas(info)):
        have = len(target_replicas(info))
        why = f"{topic}-{index} has replication factor {have}, the reassignment asks for {len(target)}"
        raise Refused(ErrorCode.invalid_replication_factor, why)
    # Unneeded replicas of a replaced reassignment leave at once, unless they hold committed records that perhaps no
    # other replica holds.
    hold = {*before, *info.isr, *info.eligible, *info.last_known_eligible}
    removing = tuple(r for r in info.replicas if r not in target and r in hold)
    adding = tuple(r for r in target if r not in before)
    replicas = (*target, *removing)
    isr = [r for r in info.isr if r in replicas]
    return settle(info, rules, isr=isr, replicas=replicas, adding=adding, removing=removing)
