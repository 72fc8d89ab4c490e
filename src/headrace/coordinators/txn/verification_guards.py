"""Verifications under way in the partitions led here, so that one cannot outlive the transaction it verified.

The race: a leader asks whether its partition is in the transaction, the coordinator says yes, and before the batch is
appended the transaction is ended and its marker written. Appended now, the batch would open a transaction that nobody
ends, and the last stable offset would stand still for good. So a guard is taken before asking and must still be valid
when appending; a marker that ends the very transaction makes it invalid. Mirrors Kafka's VerificationGuard (KIP-890).

Which marker that is, epochs tell. A classic producer keeps its epoch, and asks only when the transaction before is
over: any marker with its epoch ends the present one. A version 2 producer may come while the markers of the
transaction before are still being written; those have its present epoch already, and only a higher one ends what it is
about to begin.
"""

from __future__ import annotations

from headrace.kernel.ids import TopicPartition


class Guard:
    __slots__ = ("ended_by_epoch", "valid")

    def __init__(self, ended_by_epoch: int) -> None:
        self.ended_by_epoch = ended_by_epoch
        self.valid = True


class VerificationGuards:
    """Owned by the event loop; holds an entry only while somebody waits for an answer."""

    def __init__(self) -> None:
        self._taken: dict[tuple[TopicPartition, int], set[Guard]] = {}

    def take(self, where: TopicPartition, producer_id: int, ended_by_epoch: int) -> Guard:
        """A guard that markers of `producer_id` with `ended_by_epoch` or a higher epoch make invalid."""
        guard = Guard(ended_by_epoch)
        self._taken.setdefault((where, producer_id), set()).add(guard)
        return guard

    def give_back(self, where: TopicPartition, producer_id: int, guard: Guard) -> bool:
        """Whether the guard was valid to the end."""
        key = (where, producer_id)
        held = self._taken.get(key)
        if held is not None:
            held.discard(guard)
            if not held:
                del self._taken[key]
        return guard.valid

    def transaction_ended(self, where: TopicPartition, producer_id: int, producer_epoch: int) -> None:
        for guard in self._taken.get((where, producer_id), ()):
            if producer_epoch >= guard.ended_by_epoch:
                guard.valid = False
