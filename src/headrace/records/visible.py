"""Which batches of a fetched chunk are whole, and which of them a consumer sees. Every reader of committed records uses
this module. (The ledger of a sink, `pipelines/sink/ledger.py`, reads markers itself: it must know what is written above
the last stable offset.)

A broker answers a read_committed fetch with whole batches up to the last stable offset and with a list of aborted
transactions: the producer id and the first offset of each that reaches into the range. The batches themselves do not
say how their transaction ended. So a consumer follows the log: an aborted transaction is open from the first batch of
any kind that reaches its first offset until the abort marker of its producer. The consumer hides data batches of a
producer whose aborted transaction is open. It never shows markers and other control batches.

"Of any kind" matters. A chunk may begin with the marker itself: the fetch starts there, the chunk was cut there, or
compaction removed the aborted records. If only a data batch could open the transaction, it would stay open after its
marker and hide the next transaction of the same producer, which may be committed.

Each chunk has its own list, which covers it from its first offset on. The consumer keeps no state between chunks, and
a transaction may be on the lists of two chunks. Epochs do not matter here: the marker of a transaction may have a
higher epoch than its records (KIP-890), and a producer id has one open transaction at a time. A read_uncommitted fetch
has no list; the consumer sees everything but control batches. Mirrors Kafka's CompletedFetch.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from headrace.kernel.errors import CorruptBatch
from headrace.records.batch import (
    CONTROL_BIT,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    TRANSACTIONAL_BIT,
    BatchView,
    batches,
)
from headrace.records.control import ControlType, control_type

END_OF_LOG: Final = 1 << 63
_BATCH_PREFIX: Final = struct.Struct(">qiibIhi")


def whole_batches(chunk: memoryview | bytes) -> tuple[int, int]:
    """(bytes of whole batches, offset after the last of them or -1). A broker may cut the last batch short.

    The next fetch begins at this offset, also if the consumer sees none of the batches: they may be markers.
    """
    at, next_offset, size = 0, -1, len(chunk)
    while at + HEADER_BYTES <= size:
        base, length, _, magic, _, _, last_delta = _BATCH_PREFIX.unpack_from(chunk, at)
        if magic != 2 or length < HEADER_BYTES - LOG_OVERHEAD_BYTES or last_delta < 0:
            raise CorruptBatch(f"batch at offset {base}: magic {magic}, {length} bytes: not a v2 record batch")
        if at + LOG_OVERHEAD_BYTES + length > size:
            break
        at += LOG_OVERHEAD_BYTES + length
        next_offset = base + last_delta + 1
    return at, next_offset


class AbortedTransactions:
    """The aborted transactions of one chunk, as (producer id, first offset) in any order."""

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._upcoming = sorted(aborted, key=lambda entry: entry[1], reverse=True)
        self._open: set[int] = set()

    def hides(self, batch: BatchView) -> bool:
        """Whether the batch holds records of an aborted transaction. The caller must ask for every batch of the chunk,
        including control batches, in the order of the log."""
        upcoming, open_ = self._upcoming, self._open
        if upcoming:
            last_offset = batch.last_offset
            while upcoming and upcoming[-1][1] <= last_offset:
                open_.add(upcoming.pop()[0])
        if batch.producer_id not in open_:
            return False
        if batch.attributes & CONTROL_BIT:
            if control_type(batch) is ControlType.ABORT:
                open_.remove(batch.producer_id)
            return False
        return batch.attributes & TRANSACTIONAL_BIT != 0


def visible_batches(
    chunk: memoryview,
    aborted: Collection[tuple[int, int]] = (),
    start: int = 0,
    end: int = END_OF_LOG,
    *,
    check_crc: bool = True,
) -> Iterator[BatchView]:
    """The batches of `chunk` that a consumer sees and that may hold offsets from `start` to before `end`. The first and
    the last may also hold offsets outside. Raises CorruptBatch at a batch that is torn or fails its checksum.
    """
    transactions = AbortedTransactions(aborted)
    for batch in batches(chunk):
        if batch.base_offset >= end:
            return
        if check_crc:
            batch.check_crc()
        if (aborted and transactions.hides(batch)) or batch.attributes & CONTROL_BIT or batch.last_offset < start:
            continue
        yield batch
