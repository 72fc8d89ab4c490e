"""Assigns the replicas of new partitions to brokers.

Three goals, in this order: replicas of a partition are on different racks; every broker gets an equal share of replicas
and of leadership; the partitions of one leader are spread over many followers, so that its failure does not double the
load of one broker.

First replicas are assigned round-robin from a start position. So it is known how many partitions each broker must still
follow for its share, and how many opportunities it has left (later partitions that it does not lead). Each other
replica goes to the broker that, in this order, adds a new rack, has the smallest difference between the two numbers,
has followed this leader least often, and is next in a circle that shifts by one every round.

6 brokers × 10 partitions × 3 replicas gives each broker 5. The caller chooses start and shift at random.
Kafka's AdminUtils only shifts, so shares differ by one or two if the partitions do not fill a round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def place(
    brokers: Sequence[int],
    partitions: int,
    replication_factor: int,
    racks: Mapping[int, str | None] | None = None,
    *,
    start: int = 0,
    shift: int = 0,
    first_partition: int = 0,
) -> list[tuple[int, ...]]:
    """Replica lists of `partitions` new partitions; the first of each list is its preferred leader."""
    assert 0 < replication_factor <= len(brokers), (replication_factor, len(brokers))
    named = {broker: rack for broker, rack in (racks or {}).items() if rack is not None}
    # Use racks only if every broker has one: a broker without a rack would count as a separate rack.
    rack_of = named if all(broker in named for broker in brokers) else {}
    ordered = _alternating_racks(brokers, rack_of) if rack_of else sorted(brokers)
    count = len(ordered)
    indexes = range(first_partition, first_partition + partitions)
    leaders = [ordered[(index + start) % count] for index in indexes]
    needs = _still_to_follow(ordered, leaders, replication_factor)
    chances = {broker: partitions - leaders.count(broker) for broker in ordered}
    followed: dict[tuple[int, int], int] = {}
    placed: list[tuple[int, ...]] = []
    for index, leader in zip(indexes, leaders, strict=True):
        at = (index + start) % count
        turn = 1 + (shift + index // count) % max(1, count - 1)
        circle = [ordered[(at + turn + step) % count] for step in range(count)]
        chosen = [leader]
        while len(chosen) < replication_factor:
            used_racks = {rack_of[broker] for broker in chosen} if rack_of else frozenset[str]()
            # `min` returns the first of equal brokers, so the order of the circle is the last criterion.
            _, _, _, follower = min(
                (
                    (
                        bool(rack_of) and rack_of[broker] in used_racks,
                        chances[broker] - needs[broker] if needs[broker] > 0 else partitions - needs[broker],
                        followed.get((leader, broker), 0),
                        broker,
                    )
                    for broker in circle
                    if broker not in chosen
                ),
                key=lambda row: row[:3],
            )
            chosen.append(follower)
            needs[follower] -= 1
            followed[leader, follower] = followed.get((leader, follower), 0) + 1
        for broker in ordered:
            chances[broker] -= broker != leader
        placed.append(tuple(chosen))
    return placed


def _still_to_follow(ordered: Sequence[int], leaders: Sequence[int], replication_factor: int) -> dict[int, int]:
    """How many partitions each broker must follow for its share. Brokers that lead more take the remainder."""
    share, rest = divmod(len(leaders) * replication_factor, len(ordered))
    leads = {broker: leaders.count(broker) for broker in ordered}
    favoured = set(sorted(ordered, key=lambda broker: -leads[broker])[:rest])
    return {broker: share + (broker in favoured) - leads[broker] for broker in ordered}


def _alternating_racks(brokers: Sequence[int], racks: Mapping[int, str]) -> list[int]:
    """The brokers, alternating between racks, so that neighbours in the circle are on different racks."""
    queues: dict[str, list[int]] = {}
    for broker in sorted(brokers):
        queues.setdefault(racks[broker], []).append(broker)
    turns = [queues[rack] for rack in sorted(queues)]
    ordered: list[int] = []
    for round_ in range(max(map(len, turns))):
        ordered.extend(queue[round_] for queue in turns if round_ < len(queue))
    return ordered
