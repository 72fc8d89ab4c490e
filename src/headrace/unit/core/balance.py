"""Which partitions move between the processes of a unit: to new processes, and away from leaving ones.

Within each topic the numbers of replicas per process differ by one at most, and over all topics by little. A replica
moves only from one process of the unit to another, so the hosts (racks) of a partition stay as they are. The plan
follows from the image alone: after an interruption the next start makes the plan for what is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from uuid import UUID

from headrace.cluster.core.image import ClusterImage
from headrace.kernel.ids import TopicPartition

Moves = dict[TopicPartition, tuple[int, ...]]


def replica_counts(image: ClusterImage, processes: Sequence[int]) -> Counter[int]:
    """How many replicas each process has."""
    counts = Counter(dict.fromkeys(processes, 0))
    for topic in image.topics.values():
        for info in topic.partitions:
            counts.update(broker for broker in info.replicas if broker in counts)
    return counts


def is_lopsided(image: ClusterImage, processes: Sequence[int]) -> bool:
    """Whether one process has so many more replicas than another that the unit must have grown. Smaller differences
    may be the will of an operator."""
    counts = replica_counts(image, processes)
    return bool(counts) and max(counts.values()) > 2 * min(counts.values()) + 1


def balanced(image: ClusterImage, processes: Sequence[int]) -> Moves:
    """New replica lists of the partitions that move."""
    totals = replica_counts(image, processes)
    topics = {
        name: {TopicPartition(name, index): list(info.replicas) for index, info in enumerate(topic.partitions)}
        for name, topic in sorted(image.topics.items())
    }
    # Each topic by itself, then the remainders of all topics against each other.
    for smallest_gap in (2, 1):
        for partitions in topics.values():
            _spread_replicas(partitions, totals, smallest_gap)
    moves: Moves = {}
    for name, partitions in topics.items():
        _spread_leaders(partitions, processes)
        for partition, replicas in partitions.items():
            if tuple(replicas) != image.topics[name].partitions[partition.partition].replicas:
                moves[partition] = tuple(replicas)
    return moves


def _spread_replicas(partitions: Mapping[TopicPartition, list[int]], totals: Counter[int], smallest_gap: int) -> None:
    """Moves replicas of a topic from the fullest to the emptiest process. With a gap of one the topic is even already:
    then a replica moves only if that evens out the totals."""
    counts = Counter(dict.fromkeys(totals, 0))
    for replicas in partitions.values():
        counts.update(broker for broker in replicas if broker in counts)
    while True:
        by_load = sorted(counts, key=lambda broker: (counts[broker], totals[broker], broker))
        step = _next_step(partitions, by_load, counts, totals, smallest_gap)
        if step is None:
            return
        replicas, giver, taker = step
        replicas[replicas.index(giver)] = taker
        for count in (counts, totals):
            count[giver] -= 1
            count[taker] += 1


def _next_step(
    partitions: Mapping[TopicPartition, list[int]],
    by_load: list[int],
    counts: Counter[int],
    totals: Counter[int],
    smallest_gap: int,
) -> tuple[list[int], int, int] | None:
    for giver in reversed(by_load):
        for taker in by_load:
            gap = counts[giver] - counts[taker]
            if gap < smallest_gap or (gap == 1 and totals[giver] - totals[taker] < 2):
                continue
            for replicas in partitions.values():
                if giver in replicas and taker not in replicas:
                    return replicas, giver, taker
    return None


def _spread_leaders(partitions: Mapping[TopicPartition, list[int]], processes: Sequence[int]) -> None:
    """Swaps preferred leaders within their replica lists."""
    leads = Counter(dict.fromkeys(processes, 0))
    leads.update(replicas[0] for replicas in partitions.values() if replicas and replicas[0] in leads)
    for replicas in partitions.values():
        if replicas and replicas[0] in leads:
            least = min((broker for broker in replicas if broker in leads), key=lambda broker: leads[broker])
            if leads[replicas[0]] - leads[least] >= 2:
                leads[replicas[0]] -= 1
                leads[least] += 1
                at = replicas.index(least)
                replicas[0], replicas[at] = replicas[at], replicas[0]


def still_there(image: ClusterImage, moves: Moves, ids: Mapping[str, UUID]) -> Moves:
    """The moves of topics that still have these ids. A deleted topic needs no move, and a new one of its name has
    another plan."""
    return {
        partition: replicas
        for partition, replicas in moves.items()
        if (topic := image.topics.get(partition.topic)) is not None and topic.id == ids[partition.topic]
    }


def unfinished(image: ClusterImage, moves: Moves, ids: Mapping[str, UUID]) -> list[TopicPartition]:
    """The partitions that have not arrived. `ids`: of the topics when the moves were planned."""
    return [
        partition
        for partition, replicas in still_there(image, moves, ids).items()
        if (info := image.topics[partition.topic].partitions[partition.partition]).is_reassigning
        or info.replicas != replicas
    ]


def obstacle(image: ClusterImage, partition: TopicPartition) -> str:
    """Why a partition does not arrive, for an operator who waits."""
    info = image.topics[partition.topic].partitions[partition.partition]
    away = sorted({broker for broker in (*info.replicas, *info.adding) if broker not in image.brokers})
    if info.leader < 0:
        return f"{partition} has no leader (replicas on {_listed(info.replicas)}; away: {_listed(away) or 'none'})"
    behind = [broker for broker in info.adding if broker not in info.isr]
    if behind:
        return f"{partition} is not yet in sync on {_listed(behind)}{f' (away: {_listed(away)})' if away else ''}"
    return f"{partition} waits for the controller"


def _listed(brokers: Sequence[int]) -> str:
    return ", ".join(f"broker {one}" for one in brokers)


def drained(image: ClusterImage, leaving: Sequence[int], staying: Sequence[int]) -> Moves:
    """New replica lists of every partition with a replica on a leaving process. If all staying processes have a replica
    already, the list gets shorter; it never gets empty."""
    totals = replica_counts(image, staying)
    moves: Moves = {}
    for name in sorted(image.topics):
        for index, info in enumerate(image.topics[name].partitions):
            replicas = list(info.replicas)
            for broker in [one for one in replicas if one in leaving]:
                free = [one for one in staying if one not in replicas]
                at = replicas.index(broker)
                if free:
                    taker = min(free, key=lambda one: (totals[one], one))
                    totals[taker] += 1
                    replicas[at] = taker
                else:
                    del replicas[at]
            if replicas != list(info.replicas):
                assert replicas, "a staying process has a replica, or gets one"
                moves[TopicPartition(name, index)] = tuple(replicas)
    return moves
