"""Compares index files with the data and reports the first wrong byte of each.

    .index      rising (offset, position); each position is where the batch of its offset begins
    .timeindex  rising (timestamp, offset); each is the newest timestamp of the batch of its offset, the last of all
    .txnindex   in the order of the markers; every transaction that was aborted in the segment is there

The index of a segment that is being written is followed by zeros.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path

from headrace.kernel.dataclass import dataclass
from headrace.records.batch import BatchView
from headrace.storage.producer_state import ProducerState
from headrace.storage.segment.batch_scan import BatchPlace
from headrace.storage.segment.offset_index import ENTRY_BYTES as OFFSET_ENTRY_BYTES
from headrace.storage.segment.segment import Segment
from headrace.storage.segment.time_index import ENTRY_BYTES as TIME_ENTRY_BYTES
from headrace.storage.segment.txn_index import ENTRY_BYTES as TXN_ENTRY_BYTES
from headrace.storage.segment.txn_index import AbortedTransaction

# A file, its first bad byte (-1 when it is missing) and what is wrong there.
Fault = tuple[Path, int, str]


@dataclass
class Contents:
    """The index entries that follow from the valid part of a data file."""

    segment: Segment
    batches: list[BatchPlace] = field(default_factory=list)
    aborted: list[AbortedTransaction] = field(default_factory=list)
    good_bytes: int = 0

    def note(self, position: int, batch: BatchView, producers: ProducerState) -> None:
        self.batches.append(
            BatchPlace(
                position,
                batch.size_bytes,
                batch.base_offset,
                batch.last_offset,
                batch.max_timestamp_ms,
                batch.partition_leader_epoch,
                batch.attributes,
            )
        )
        self.good_bytes = position + batch.size_bytes
        completed = producers.replay(batch)
        if completed is not None and completed.aborted:
            self.aborted.append(producers.aborted(completed))

    def batch_of(self, offset: int) -> BatchPlace | None:
        at = bisect_left(self.batches, offset, key=lambda batch: batch.last_offset)
        return self.batches[at] if at < len(self.batches) and self.batches[at].base_offset <= offset else None

    @property
    def is_whole(self) -> bool:
        return self.good_bytes == self.segment.size_bytes


def faults_in_hints(contents: Contents, *, is_last: bool) -> Iterator[Fault]:
    """The faults in the index files of a segment, at most one per file."""
    segment = contents.segment
    for found in (
        _in_offset_index(contents, is_last=is_last),
        _in_time_index(contents, is_last=is_last),
        _in_txn_index(contents),
    ):
        if found is not None:
            yield found
    segment.close()


def _size_fault(path: Path, entry_bytes: int) -> Fault | None:
    if not path.exists():
        return path, -1, "missing"
    count, rest = divmod(path.stat().st_size, entry_bytes)
    return (path, count * entry_bytes, f"{rest} bytes are no entry of {entry_bytes}") if rest else None


def _entries_in(path: Path, entry_bytes: int) -> tuple[int, bool]:
    """The number of entries before the zeros of a preallocated file, and whether there are such zeros."""
    data = path.read_bytes()
    filled = len(data.rstrip(b"\0"))
    count = -(-filled // entry_bytes)
    return count, count * entry_bytes < len(data)


def _in_offset_index(contents: Contents, *, is_last: bool) -> Fault | None:
    index = contents.segment.offset_index
    path = index.file.path
    wrong = _size_fault(path, OFFSET_ENTRY_BYTES)
    if wrong is not None:
        return wrong
    index.file.open_sealed()
    count, is_written = _entries_in(path, OFFSET_ENTRY_BYTES)
    previous = (-1, -1)
    for at in range(count):
        offset, position = index.entry(at)
        batch = contents.batch_of(offset)
        what = None
        if offset <= previous[0] or position <= previous[1]:
            what = f"entry ({offset}, {position}) does not rise above {previous}"
        elif not 0 <= position < contents.segment.size_bytes:
            what = f"entry for offset {offset} points at byte {position} of a file of {contents.segment.size_bytes}"
        elif position < contents.good_bytes and (batch is None or batch.position != position):
            where = "there is no such offset" if batch is None else f"its batch begins at {batch.position}"
            what = f"entry for offset {offset} points at byte {position}: {where}"
        if what is not None:
            return path, at * OFFSET_ENTRY_BYTES, what
        previous = offset, position
    if is_written and not is_last:
        return path, count * OFFSET_ENTRY_BYTES, "zeros, in the index of a segment that is complete"
    return None


def _in_time_index(contents: Contents, *, is_last: bool) -> Fault | None:
    index = contents.segment.time_index
    path = index.file.path
    wrong = _size_fault(path, TIME_ENTRY_BYTES)
    if wrong is not None:
        return wrong
    index.file.open_sealed()
    count, is_written = _entries_in(path, TIME_ENTRY_BYTES)
    end = contents.batches[-1].last_offset if contents.batches else contents.segment.base_offset
    previous = (-1, -1)
    for at in range(count):
        timestamp_ms, offset = index.entry(at)
        batch = contents.batch_of(offset)
        what = None
        if timestamp_ms <= previous[0] or offset <= previous[1]:
            what = f"entry ({timestamp_ms}, {offset}) does not rise above {previous}"
        elif batch is not None and batch.max_timestamp_ms != timestamp_ms:
            what = f"entry for offset {offset} has timestamp {timestamp_ms}, its batch {batch.max_timestamp_ms}"
        elif batch is None and (offset <= end or contents.is_whole):
            what = f"entry for offset {offset}, which is not in the log"
        if what is not None:
            return path, at * TIME_ENTRY_BYTES, what
        previous = timestamp_ms, offset
    newest_ms = max((batch.max_timestamp_ms for batch in contents.batches), default=-1)
    if newest_ms > previous[0] and not (is_written and is_last):
        return path, count * TIME_ENTRY_BYTES, f"ends before the newest timestamp {newest_ms}"
    return None


def _in_txn_index(contents: Contents) -> Fault | None:
    index = contents.segment.txn_index
    data = index.path.read_bytes() if index.path.exists() else b""
    previous = -1
    entries = index.entries
    for at in range(len(data) // TXN_ENTRY_BYTES):
        version = int.from_bytes(data[at * TXN_ENTRY_BYTES : at * TXN_ENTRY_BYTES + 2], "big", signed=True)
        what = f"version {version} is not 0" if version != 0 else _contradiction(contents, entries[at], previous)
        if what is not None:
            return index.path, at * TXN_ENTRY_BYTES, what
        previous = entries[at].last_offset
    # A missing entry is the worst damage: read_committed consumers would get the aborted records.
    told = {(entry.producer_id, entry.last_offset): entry.first_offset for entry in entries}
    for number, one in enumerate(contents.aborted):
        if told.get((one.producer_id, one.last_offset), one.last_offset) > one.first_offset:
            span = f"{one.first_offset} to its abort marker at {one.last_offset}"
            what = f"no entry for the transaction of producer {one.producer_id} from {span}"
            return index.path, min(number * TXN_ENTRY_BYTES, len(data)) if data else -1, what
    if len(data) % TXN_ENTRY_BYTES:
        return index.path, len(entries) * TXN_ENTRY_BYTES, f"the rest is no entry of {TXN_ENTRY_BYTES}"
    return None


def _contradiction(contents: Contents, entry: AbortedTransaction, previous: int) -> str | None:
    named = f"entry of producer {entry.producer_id} from {entry.first_offset} to {entry.last_offset}"
    if entry.last_offset <= previous:
        return f"{named} follows one that ends at {previous}"
    marker = contents.batch_of(entry.last_offset)
    if entry.first_offset > entry.last_offset or entry.last_offset < contents.segment.base_offset:
        return f"{named} is not of this segment"
    return None if marker is None or marker.is_control else f"{named}: there is no marker at its end"
