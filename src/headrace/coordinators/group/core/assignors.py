"""Server-side assignors (KIP-848): members and topics in, a target for every member out. Pure.

uniform  balanced over everything a group reads: members of equal subscriptions differ by at most one partition; what a
         member has stays with it as far as balance allows
range    per topic, consecutive partitions to the members in order: topics with equally many partitions are assigned
         alike, so that keys of joined topics meet in one member
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Target = dict[str, dict[uuid.UUID, frozenset[int]]]


@dataclass(frozen=True, slots=True)
class AssignedMember:
    topics: frozenset[uuid.UUID]
    instance_id: str | None = None
    current: Mapping[uuid.UUID, frozenset[int]] = field(default_factory=dict)


Members = Mapping[str, AssignedMember]
PartitionCounts = Mapping[uuid.UUID, int]
Assignor = Callable[[Members, PartitionCounts], Target]


def assign_range(members: Members, partition_counts: PartitionCounts) -> Target:
    target: dict[str, dict[uuid.UUID, frozenset[int]]] = {member_id: {} for member_id in members}
    # A static member keeps its place in the order when it restarts under a new member id.
    ordered = sorted(members, key=lambda m: (members[m].instance_id is None, members[m].instance_id or m))
    for topic_id, count in partition_counts.items():
        readers = [m for m in ordered if topic_id in members[m].topics]
        if not readers:
            continue
        share, extra = divmod(count, len(readers))
        begin = 0
        for at, member_id in enumerate(readers):
            end = begin + share + (at < extra)
            if end > begin:
                target[member_id][topic_id] = frozenset(range(begin, end))
            begin = end
    return target


def assign_uniform(members: Members, partition_counts: PartitionCounts) -> Target:
    if not members:
        return {}
    held: dict[str, set[tuple[uuid.UUID, int]]] = {}
    taken: set[tuple[uuid.UUID, int]] = set()
    for member_id in sorted(members):
        member = members[member_id]
        held[member_id] = {
            (topic_id, partition)
            for topic_id, partitions in member.current.items()
            if topic_id in member.topics
            for partition in partitions
            if partition < partition_counts.get(topic_id, 0) and (topic_id, partition) not in taken
        }
        taken |= held[member_id]
    subscriptions = {member.topics for member in members.values()}
    free = [
        (topic_id, partition)
        for topic_id, count in sorted(partition_counts.items(), key=lambda item: item[0].bytes)
        for partition in range(count)
        if (topic_id, partition) not in taken
    ]
    if len(subscriptions) == 1:
        _fill_to_quota(held, free, next(iter(subscriptions)))
    else:
        _fill_least_loaded(held, free, members)
        _balance(held, members)
    return {member_id: _by_topic(partitions) for member_id, partitions in held.items()}


def _fill_to_quota(
    held: dict[str, set[tuple[uuid.UUID, int]]], free: list[tuple[uuid.UUID, int]], topics: frozenset[uuid.UUID]
) -> None:
    """All read the same: everyone gets ⌊n/m⌋, and n mod m of them, those who have more already, one more."""
    free = [tp for tp in free if tp[0] in topics]
    total = len(free) + sum(map(len, held.values()))
    share, extra = divmod(total, len(held))
    order = sorted(held, key=lambda m: (-len(held[m]), m))
    quota = {member_id: share + (at < extra) for at, member_id in enumerate(order)}
    for member_id in order:
        surplus = len(held[member_id]) - quota[member_id]
        for tp in sorted(held[member_id], key=_by_name, reverse=True)[: max(surplus, 0)]:
            held[member_id].discard(tp)
            free.append(tp)
    # Free partitions go around in turns, so that the partitions of one topic spread over the members.
    free.sort(key=_by_name, reverse=True)
    hungry = [m for m in order if len(held[m]) < quota[m]]
    while free:
        for member_id in list(hungry):
            if free:
                held[member_id].add(free.pop())
            if len(held[member_id]) >= quota[member_id]:
                hungry.remove(member_id)


def _fill_least_loaded(
    held: dict[str, set[tuple[uuid.UUID, int]]], free: list[tuple[uuid.UUID, int]], members: Members
) -> None:
    readers: dict[uuid.UUID, list[str]] = {}
    for topic_id in {tp[0] for tp in free}:
        readers[topic_id] = sorted(m for m in members if topic_id in members[m].topics)
    # Topics that few read come first: those that many read can even it out afterwards.
    for tp in sorted(free, key=lambda tp: (len(readers[tp[0]]), _by_name(tp))):
        if readers[tp[0]]:
            held[min(readers[tp[0]], key=lambda m: len(held[m]))].add(tp)


def _balance(held: dict[str, set[tuple[uuid.UUID, int]]], members: Members) -> None:
    """Move a partition whenever its new reader ends up with no more than its old one: each move makes the loads more
    even (their sum of squares falls), so it ends; when it does, no single move can improve the balance.
    """
    moved = True
    while moved:
        moved = False
        for giver in sorted(held, key=lambda m: (-len(held[m]), m)):
            for tp in sorted(held[giver], key=_by_name, reverse=True):
                takers = [m for m in members if tp[0] in members[m].topics and len(held[m]) + 1 < len(held[giver])]
                if takers:
                    taker = min(takers, key=lambda m: (len(held[m]), m))
                    held[giver].discard(tp)
                    held[taker].add(tp)
                    moved = True


def _by_name(tp: tuple[uuid.UUID, int]) -> tuple[bytes, int]:
    return tp[0].bytes, tp[1]


def _by_topic(partitions: set[tuple[uuid.UUID, int]]) -> dict[uuid.UUID, frozenset[int]]:
    found: dict[uuid.UUID, set[int]] = {}
    for topic_id, partition in sorted(partitions, key=_by_name):
        found.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(indexes) for topic_id, indexes in found.items()}


ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}
