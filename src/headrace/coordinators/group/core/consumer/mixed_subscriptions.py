"""The uniform assignor for members with different subscriptions. Unassigned partitions go to the members with the
fewest partitions. Then partitions move away from the members with the most, topic by topic, until no move improves the
balance.

Topics with the most partitions per subscriber come first. Within a topic its subscribers are sorted by their number of
partitions. Members at the low end receive partitions and members at the high end give them, one level at a time:

    ▁▁▂▂▄▄▆█     receivers from the left, all of one level before the next; givers from the right

Ties are resolved as in Kafka's UniformHeterogeneousAssignmentBuilder, so both choose the same member.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Final

# Overlapping subscriptions can take many rounds; every round about halves the imbalance.
_MAX_ROUNDS: Final = 16


class _Row:
    """The subscribers of one topic sorted by load, with a pointer at each end."""

    def __init__(self, readers: Sequence[int], loads: Sequence[int]) -> None:
        self._loads = loads
        self._row = sorted(readers, key=lambda reader: (loads[reader], reader))
        self.low_level = loads[self._row[0]] - 1
        self._low_end = self._low_at = 0
        self.high_level = loads[self._row[-1]] + 1
        self._high_begin = self._high_end = len(self._row)
        self._high_at = len(self._row) - 1

    @property
    def imbalance(self) -> int:
        return self._loads[self._row[-1]] - self._loads[self._row[0]]

    @property
    def is_even(self) -> bool:
        return self.high_level - self.low_level <= 1

    def next_taker(self) -> int:
        if self._low_at >= self._low_end:
            self.low_level += 1
            while self._low_end < len(self._row) and self._loads[self._row[self._low_end]] == self.low_level:
                self._low_end += 1
            self._low_at = 0
        self._low_at += 1
        return self._row[self._low_at - 1]

    def next_giver(self) -> int | None:
        if self._high_at < self._high_begin:
            if self._high_end <= self._high_begin and self._high_begin > 0:
                self.high_level = self._loads[self._row[self._high_begin - 1]]
            else:
                self.high_level -= 1
            while self._high_begin > 0 and self._loads[self._row[self._high_begin - 1]] == self.high_level:
                self._high_begin -= 1
            self._high_at = self._high_end - 1
        if self._high_at < 0:
            return None
        self._high_at -= 1
        return self._row[self._high_at + 1]

    def put_aside(self) -> None:
        """The last giver has no partition of this topic."""
        at, last = self._high_at + 1, self._high_end - 1
        self._row[at], self._row[last] = self._row[last], self._row[at]
        self._high_end -= 1


class _Assigning:
    def __init__(
        self,
        held: Sequence[dict[uuid.UUID, set[int]]],
        readers: Mapping[uuid.UUID, Sequence[int]],
        partition_counts: Mapping[uuid.UUID, int],
    ) -> None:
        self._held = held
        self._readers = readers
        self._counts = partition_counts
        self._loads = [sum(map(len, topics.values())) for topics in held]

    def assign_free(self) -> None:
        owned = {(t, partition) for topics in self._held for t, kept in topics.items() for partition in kept}
        for topic_id in self._in_order():
            row = _Row(self._readers[topic_id], self._loads)
            for partition in range(self._counts[topic_id]):
                if (topic_id, partition) not in owned:
                    self._give(topic_id, partition, row.next_taker())

    def even_out(self) -> None:
        topics = [topic_id for topic_id in self._in_order() if len(self._readers[topic_id]) >= 2]
        last_moved = -1
        for _ in range(_MAX_ROUNDS):
            for at, topic_id in enumerate(topics):
                if at == last_moved:
                    return  # a whole round without a move
                if self._even_out_topic(topic_id) or last_moved == -1:
                    last_moved = at

    def _even_out_topic(self, topic_id: uuid.UUID) -> int:
        row = _Row(self._readers[topic_id], self._loads)
        if row.imbalance <= 1:
            return 0
        # A member gives only its original partitions, the highest first.
        stacks = {reader: sorted(self._held[reader].get(topic_id, ())) for reader in self._readers[topic_id]}
        moved = 0
        while not row.is_even:
            giver = row.next_giver()
            while giver is not None and not stacks[giver]:
                row.put_aside()
                giver = row.next_giver()
            if giver is None:
                break
            partition = stacks[giver].pop()
            taker = row.next_taker()
            if row.is_even:
                break
            self._held[giver][topic_id].discard(partition)
            self._loads[giver] -= 1
            self._give(topic_id, partition, taker)
            moved += 1
        return moved

    def _give(self, topic_id: uuid.UUID, partition: int, taker: int) -> None:
        self._held[taker].setdefault(topic_id, set()).add(partition)
        self._loads[taker] += 1

    def _in_order(self) -> list[uuid.UUID]:
        def rank(topic_id: uuid.UUID) -> tuple[float, int, tuple[int, int]]:
            readers = len(self._readers[topic_id])
            return -self._counts[topic_id] / readers, readers, _signed(topic_id)

        return sorted(self._readers, key=rank)


def _signed(topic_id: uuid.UUID) -> tuple[int, int]:
    """Java compares ids as two signed numbers."""
    high, low = topic_id.int >> 64, topic_id.int & 0xFFFFFFFFFFFFFFFF
    return high - (high >> 63 << 64), low - (low >> 63 << 64)


def assign_mixed(
    held: Sequence[dict[uuid.UUID, set[int]]],
    readers: Mapping[uuid.UUID, Sequence[int]],
    partition_counts: Mapping[uuid.UUID, int],
) -> None:
    """`held`, by member, becomes the target; `readers` has the members of each topic by index."""
    assigning = _Assigning(held, readers, partition_counts)
    assigning.assign_free()
    assigning.even_out()
