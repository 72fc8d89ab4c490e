"""The bytes that were read for a share fetch: which batches they are, which of them count, which are sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from headrace.coordinators.share.core.handing_out import Acquired, LogBatch
from headrace.records.batch import BatchView, batches
from headrace.records.control import ControlType, read_control
from headrace.records.reader import read_records


def log_batches(data: bytes, offset: int, end: int) -> list[LogBatch]:
    """Those from the one that holds `offset` on, whole and before `end`."""
    return [
        LogBatch(batch.base_offset, batch.last_offset)
        for batch in batches(memoryview(data))
        if offset <= batch.last_offset < end
    ]


def spanning(data: bytes, acquired: Sequence[Acquired]) -> bytes:
    """Only the batches that hold something between the first and the last record handed out."""
    first, last = acquired[0].first, acquired[-1].last
    begin, at, end = 0, 0, 0
    for batch in batches(memoryview(data)):
        at += batch.size_bytes
        if batch.last_offset < first:
            begin = at
        if batch.base_offset <= last:
            end = at
    return data[begin:end]


def aborted_batches(data: bytes, aborted: Iterable[Any]) -> Iterator[LogBatch]:
    """Batches of transactions that were aborted: nobody is to get them."""
    coming = sorted(aborted, key=lambda each: each.first_offset)
    open_producers: set[int] = set()
    for batch in batches(memoryview(data)):
        while coming and coming[0].first_offset <= batch.last_offset:
            open_producers.add(coming.pop(0).producer_id)
        if batch.is_control:
            if _ends_aborted(batch):
                open_producers.discard(batch.producer_id)
        elif batch.is_transactional and batch.producer_id in open_producers:
            yield LogBatch(batch.base_offset, batch.last_offset)


def _ends_aborted(batch: BatchView) -> bool:
    return any(read_control(record).type is ControlType.ABORT for record in read_records(batch))
