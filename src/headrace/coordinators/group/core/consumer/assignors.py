"""Server-side assignors (KIP-848): members and topics in, a target assignment for every member out. Pure.

uniform  balances over all topics of the group: members with equal subscriptions differ by at most one partition, and a
         member keeps its partitions as far as balance allows. As in Kafka there are two algorithms: one for equal
         subscriptions (here), one for different ones (`mixed_subscriptions`)
range    per topic, consecutive partitions to the members in order: topics with the same number of partitions get the
         same assignment, so the same member reads a key of all joined topics

Among several balanced targets the assignors choose the one that Kafka chooses, so a group gets the same assignment on
either.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import field

from headrace.coordinators.group.core.consumer.java_order import ids_in_java_order, in_java_order, numbers_in_java_order
from headrace.coordinators.group.core.consumer.mixed_subscriptions import assign_mixed
from headrace.kernel.dataclass import dataclass

Target = dict[str, dict[uuid.UUID, frozenset[int]]]
Held = dict[str, dict[uuid.UUID, set[int]]]


@dataclass(frozen=True, slots=True)
class AssignedMember:
    topics: frozenset[uuid.UUID]
    instance_id: str | None = None
    current: Mapping[uuid.UUID, frozenset[int]] = field(default_factory=dict)


Members = Mapping[str, AssignedMember]
PartitionCounts = Mapping[uuid.UUID, int]
# The last argument: whether all members subscribe to the same topics, including missing ones.
Assignor = Callable[[Members, PartitionCounts, bool], Target]


def assign_range(members: Members, partition_counts: PartitionCounts, all_alike: bool) -> Target:
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


def assign_uniform(members: Members, partition_counts: PartitionCounts, all_alike: bool) -> Target:
    order = in_java_order(members)
    held = _still_read(order, members, partition_counts)
    if all_alike:
        topics: frozenset[uuid.UUID] = frozenset().union(*(member.topics for member in members.values()))
        known = ids_in_java_order(topics & partition_counts.keys())
        _fill_to_quota(order, held, {topic_id: partition_counts[topic_id] for topic_id in known})
    else:
        readers = {
            topic_id: [at for at, m in enumerate(order) if topic_id in members[m].topics]
            for topic_id in partition_counts
        }
        assign_mixed([held[m] for m in order], {t: found for t, found in readers.items() if found}, partition_counts)
    return {m: {topic_id: frozenset(p) for topic_id, p in topics.items() if p} for m, topics in held.items()}


def _still_read(order: list[str], members: Members, partition_counts: PartitionCounts) -> Held:
    """The partitions that each member has and may keep."""
    held: Held = {member_id: {} for member_id in members}
    taken: set[tuple[uuid.UUID, int]] = set()
    for member_id in order:
        member = members[member_id]
        for topic_id in ids_in_java_order(member.current):
            if topic_id in member.topics:
                kept = {
                    partition
                    for partition in member.current[topic_id]
                    if partition < partition_counts.get(topic_id, 0) and (topic_id, partition) not in taken
                }
                taken.update((topic_id, partition) for partition in kept)
                held[member_id][topic_id] = kept
    return held


def _fill_to_quota(order: list[str], held: Held, counts: PartitionCounts) -> None:
    """Equal subscriptions: every member gets ⌊n/m⌋ partitions, and n mod m members one more: the first that have that
    many, or the last ones if too few do. A member with too many gives up its last ones; others are filled one by one.
    """
    taken = {(t, partition) for topics in held.values() for t, kept in topics.items() for partition in kept}
    free = [(t, partition) for t, count in counts.items() for partition in range(count) if (t, partition) not in taken]
    share, extra = divmod(sum(counts.values()), len(order) or 1)
    room: dict[str, int] = {}
    for at, member_id in enumerate(order):
        has_extra = extra > 0
        left = share + has_extra
        for topic_id, kept in held[member_id].items():
            for partition in numbers_in_java_order(kept)[left:]:
                kept.discard(partition)
                free.append((topic_id, partition))
            left -= len(kept)
        if left and has_extra and len(order) - at > extra:
            left, has_extra = left - 1, False  # a later member may have it already
        extra -= has_extra
        room[member_id] = left
    given = iter(free)
    for member_id in order:
        for _ in range(room[member_id]):
            topic_id, partition = next(given)
            held[member_id].setdefault(topic_id, set()).add(partition)


ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}
