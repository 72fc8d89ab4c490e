"""Which transactional batches and markers a compaction round may remove. Pure.

The round passes batches in offset order, with the aborted transactions of the range. It removes batches of aborted
transactions, and the marker of a transaction once the log has none of its batches. Mirrors Kafka's
CleanedTransactionMetadata.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from headrace.storage.segment.txn_index import AbortedTransaction


class CleanedTransactions:
    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._upcoming = [(entry.first_offset, entry.last_offset, entry.producer_id, entry) for entry in aborted]
        heapq.heapify(self._upcoming)
        self._ongoing: dict[int, AbortedTransaction] = {}
        self._aborted_data: set[int] = set()
        self._committed_data: set[int] = set()
        self.kept_aborted: list[AbortedTransaction] = []

    def _begin_until(self, offset: int) -> None:
        while self._upcoming and self._upcoming[0][0] <= offset:
            entry = heapq.heappop(self._upcoming)[3]
            if entry.last_offset < offset:
                # It ended before this batch: the round began later, or an earlier round removed its marker.
                continue
            self._ongoing[entry.producer_id] = entry
            self._aborted_data.discard(entry.producer_id)

    def is_aborted(self, producer_id: int, last_offset: int) -> bool:
        """Whether a transactional data batch is aborted. The caller must ask for every such batch, in offset order."""
        self._begin_until(last_offset)
        if producer_id in self._ongoing:
            self._aborted_data.add(producer_id)
            return True
        self._committed_data.add(producer_id)
        return False

    def marker_is_spent(self, producer_id: int, base_offset: int, *, commit: bool) -> bool:
        """Whether the log has no data of the marker's transaction any more."""
        self._begin_until(base_offset)
        if commit:
            spent = producer_id not in self._committed_data
            self._committed_data.discard(producer_id)
            return spent
        entry = self._ongoing.pop(producer_id, None)
        spent = producer_id not in self._aborted_data
        self._aborted_data.discard(producer_id)
        if entry is not None and not spent:
            # The marker stays, so readers still need the index entry of the transaction.
            self.kept_aborted.append(entry)
        return spent
