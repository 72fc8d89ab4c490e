"""Where the replicas of new partitions go.

Two goals: every broker leads and holds its even share, and the replicas of a partition sit on different racks. First
replicas go round the brokers from a starting place; the following replicas sit at a distance that grows by one with
every full round, so that the partitions led by one broker do not all fall to the same neighbour when it dies.
With racks the brokers are first ordered by turns (a broker of each rack after the other), and a following replica
skips a broker whose rack already holds one while another rack is still without, and a broker that already holds one
always.

6 brokers × 10 partitions × 3 replicas gives each broker 5. Start and shift are arguments: the caller draws them.
(The scheme of Kafka's AdminUtils.)
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
    known_racks = {broker: rack for broker, rack in (racks or {}).items() if rack is not None}
    # Racks help only when every broker names one: a broker without would look like a rack of its own.
    by_rack = known_racks if all(broker in known_racks for broker in brokers) else {}
    ordered = _by_turns(brokers, by_rack) if by_rack else sorted(brokers)
    count = len(ordered)
    placed: list[tuple[int, ...]] = []
    for index in range(first_partition, first_partition + partitions):
        if index > first_partition and index % count == 0:
            shift += 1
        first = (index + start) % count
        placed.append(_replicas(ordered, first, replication_factor, shift, by_rack))
    return placed


def _replicas(ordered: list[int], first: int, wanted: int, shift: int, racks: Mapping[int, str]) -> tuple[int, ...]:
    count = len(ordered)
    chosen = [ordered[first]]
    if wanted == 1:
        return tuple(chosen)
    rack_count = len(set(racks.values()))
    used_racks = {racks[ordered[first]]} if racks else set()
    step = 0
    while len(chosen) < wanted:
        candidate = ordered[(first + 1 + (shift + step) % (count - 1)) % count]
        step += 1
        if candidate in chosen:
            continue
        # After a full round without a fresh rack any broker will do; there are enough brokers by the caller's check.
        if racks and racks[candidate] in used_racks and len(used_racks) < rack_count and step <= count:
            continue
        chosen.append(candidate)
        if racks:
            used_racks.add(racks[candidate])
    return tuple(chosen)


def _by_turns(brokers: Sequence[int], racks: Mapping[int, str]) -> list[int]:
    queues: dict[str, list[int]] = {}
    for broker in sorted(brokers):
        queues.setdefault(racks[broker], []).append(broker)
    turns = [queues[rack] for rack in sorted(queues)]
    ordered: list[int] = []
    for round_ in range(max(map(len, turns))):
        ordered.extend(queue[round_] for queue in turns if round_ < len(queue))
    return ordered
