"""Guards of the verifications in progress in the partitions led here: a verification is valid only for its transaction.

The race: a leader asks whether its partition is in the transaction, the coordinator says yes, and before the batch is
appended the transaction ends and its marker is written. The batch would then open a transaction that never ends, and
the last stable offset would never advance again. So the leader takes a guard before it asks, and the guard must still
be valid when it appends. The marker that ends this transaction makes it invalid. Mirrors Kafka's VerificationGuard
(KIP-890).

Epochs identify that marker. A classic producer keeps its epoch and asks only after the previous transaction is over:
any marker with its epoch ends the current one. A version 2 producer may ask while the markers of the previous
transaction are still being written. Those have its current epoch already, and only a higher epoch ends the new
transaction.
"""

from __future__ import annotations

from headrace.kernel.ids import TopicPartition


class Guard:
    __slots__ = ("ended_by_epoch", "valid")

    def __init__(self, ended_by_epoch: int) -> None:
        self.ended_by_epoch = ended_by_epoch
        self.valid = True


class VerificationGuards:
    """Owned by the event loop; holds an entry only during a verification."""

    def __init__(self) -> None:
        self._taken: dict[tuple[TopicPartition, int], set[Guard]] = {}

    def take(self, where: TopicPartition, producer_id: int, ended_by_epoch: int) -> Guard:
        """A guard that markers of `producer_id` with `ended_by_epoch` or a higher epoch make invalid."""
        guard = Guard(ended_by_epoch)
        self._taken.setdefault((where, producer_id), set()).add(guard)
        return guard

    def give_back(self, where: TopicPartition, producer_id: int, guard: Guard) -> bool:
        """Returns the guard. True if it is still valid."""
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
