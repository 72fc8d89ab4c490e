"""The `simple` assignor of share groups: every partition has readers, every member has partitions.

Several members may read one partition, because each record goes to one of them. With fewer partitions than members,
several members read each partition so that every member has one. With more, each member reads several. A member keeps
its partitions as far as that is balanced.

Members that all subscribe to the same topics are balanced over all of their partitions, others topic by topic. Mirrors
Kafka's SimpleAssignor; where Kafka follows the order of hashes, this one sorts by name and number.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Mapping, Sequence

TopicPartition = tuple[uuid.UUID, int]
Partitions = Mapping[uuid.UUID, frozenset[int]]


def assign_simple(
    subscriptions: Mapping[str, frozenset[uuid.UUID]],
    topics: Mapping[uuid.UUID, Sequence[int]],
    before: Mapping[str, Partitions],
) -> dict[str, Partitions]:
    """Member → its partitions. `topics` are the partitions that can be assigned, in the order they are assigned in."""
    members = sorted(subscriptions)
    had = {m: {(t, p) for t, indexes in before.get(m, {}).items() for p in indexes} for m in members}
    given: dict[str, set[TopicPartition]] = {member: set() for member in members}
    if len(set(subscriptions.values())) <= 1:
        read = next(iter(subscriptions.values()), frozenset())
        shares = [(members, [(topic, p) for topic, indexes in topics.items() if topic in read for p in indexes])]
    else:
        shares = [
            ([m for m in members if topic in subscriptions[m]], [(topic, p) for p in indexes])
            for topic, indexes in topics.items()
        ]
    for readers, partitions in shares:
        if readers and partitions:
            for member, found in _balanced(readers, partitions, had).items():
                given[member] |= found
    return {member: _by_topic(found) for member, found in given.items()}


def _balanced(
    members: Sequence[str], partitions: Sequence[TopicPartition], had: Mapping[str, set[TopicPartition]]
) -> dict[str, set[TopicPartition]]:
    readers_each = -(-len(members) // len(partitions))
    total = readers_each * len(partitions)
    # A remainder is spread evenly over the members, in whole partitions.
    wanted = {
        member: -(-total * (at + 1) // len(members)) + (-total * at // len(members))
        for at, member in enumerate(members)
    }
    readers: dict[TopicPartition, set[str]] = {partition: set() for partition in partitions}
    given: dict[str, set[TopicPartition]] = {}
    for member in members:
        kept = [partition for partition in partitions if partition in had[member]]
        given[member] = set(kept[max(len(kept) - wanted[member], 0) :])
        for partition in given[member]:
            readers[partition].add(member)
    for partition in partitions:
        for member in sorted(readers[partition])[: max(len(readers[partition]) - readers_each, 0)]:
            readers[partition].discard(member)
            given[member].discard(partition)
    unfilled = deque(member for member in members if len(given[member]) < wanted[member])
    for partition in partitions:
        for _ in range(readers_each - len(readers[partition])):
            # Round robin; skips a member that reads this partition already.
            passed = next((at for at, m in enumerate(unfilled) if m not in readers[partition]), None)
            if passed is None:
                break
            unfilled.rotate(-passed)
            chosen = unfilled.popleft()
            readers[partition].add(chosen)
            given[chosen].add(partition)
            if len(given[chosen]) < wanted[chosen]:
                unfilled.append(chosen)
    return given


def _by_topic(partitions: set[TopicPartition]) -> Partitions:
    found: dict[uuid.UUID, set[int]] = {}
    for topic, index in sorted(partitions):
        found.setdefault(topic, set()).add(index)
    return {topic: frozenset(indexes) for topic, indexes in found.items()}
