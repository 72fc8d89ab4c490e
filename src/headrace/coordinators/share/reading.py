"""The bytes that were read for a ShareFetch: their batches, and which of them are visible and sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from headrace.coordinators.share.core.acquisition import Acquired, LogBatch
from headrace.records.batch import batches
from headrace.records.visible import AbortedTransactions
from headrace.storage.segment.txn_index import AbortedTransaction


def log_batches(data: bytes, offset: int, end: int) -> list[LogBatch]:
    """The whole batches from the one with `offset` to before `end`."""
    return [
        LogBatch(batch.base_offset, batch.last_offset)
        for batch in batches(memoryview(data))
        if offset <= batch.last_offset < end
    ]


def spanning(data: bytes, acquired: Sequence[Acquired]) -> bytes:
    """Only the batches with a record between the first and the last acquired one."""
    first, last = acquired[0].first, acquired[-1].last
    begin, at, end = 0, 0, 0
    for batch in batches(memoryview(data)):
        at += batch.size_bytes
        if batch.last_offset < first:
            begin = at
        if batch.base_offset <= last:
            end = at
    return data[begin:end]


def aborted_batches(data: bytes, aborted: Iterable[AbortedTransaction]) -> Iterator[LogBatch]:
    """The batches of aborted transactions, which no member of the group gets."""
    transactions = AbortedTransactions((each.producer_id, each.first_offset) for each in aborted)
    for batch in batches(memoryview(data)):
        if transactions.hides(batch):
            yield LogBatch(batch.base_offset, batch.last_offset)
