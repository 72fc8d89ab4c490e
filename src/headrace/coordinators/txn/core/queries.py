"""ListTransactions: the filters of an administrator."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Protocol

from headrace.coordinators.txn.core.transaction import STATE_BY_LABEL, Transaction
from headrace.kernel.dataclass import dataclass


class Pattern(Protocol):
    def matches(self, name: str) -> bool:
        """Raises if it takes too long."""
        ...


@dataclass(frozen=True, slots=True)
class ListFilter:
    """Empty filters match everything. `longer_than_ms` < 0 is no filter; a pattern must match the whole id."""

    producer_ids: frozenset[int] = frozenset()
    state_labels: Collection[str] = ()
    longer_than_ms: int = -1
    transactional_id_pattern: Pattern | None = None

    @property
    def unknown_states(self) -> list[str]:
        return [label for label in self.state_labels if label not in STATE_BY_LABEL]

    def matching(self, transactions: Iterable[Transaction], now_ms: int) -> Iterator[Transaction]:
        states = {STATE_BY_LABEL[label] for label in self.state_labels if label in STATE_BY_LABEL}
        for transaction in transactions:
            if self.producer_ids and transaction.producer_id not in self.producer_ids:
                continue
            # Only unknown names were asked for: nothing can match.
            if self.state_labels and transaction.state not in states:
                continue
            # Kafka counts an id that never had a transaction as started at -1, so every duration filter matches it.
            if self.longer_than_ms >= 0 and now_ms - transaction.started_at_ms <= self.longer_than_ms:
                continue
            pattern = self.transactional_id_pattern
            if pattern is not None and not pattern.matches(transaction.transactional_id):
                continue
            yield transaction
