"""Pages of records: the newest first, or forward from a place. Blocking code; pages run it in threads.

A page reads at most `limit` records of each partition and keeps the first `limit` of all, by time. The next page begins
where each partition was left, so no record is shown twice and none is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from headrace.client.blocking.client import BlockingClient
from headrace.client.blocking.fetch import FetchSettings, fetched_records
from headrace.kernel.dataclass import dataclass
from headrace.records.builder import Record

_SETTINGS = FetchSettings(max_bytes=1 << 20, max_wait_ms=100, stall_timeout_s=3)
# Larger keys and values are not kept whole for a list.
LARGEST_LISTED: Final = 1 << 20
_BEGINNING: Final = 4096
Spans = Mapping[int, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class RecordPage:
    records: tuple[tuple[int, Record], ...]
    """(partition, record) in the order of the page."""
    positions: Mapping[int, int]
    """Where the next page begins: before these offsets (newest first), or at them (forward)."""
    is_last: bool


def newest(client: BlockingClient, topic: str, spans: Spans, before: Mapping[int, int], limit: int) -> RecordPage:
    """`before` limits partitions; the others begin at their end."""
    found: list[tuple[int, Record]] = []
    ends = {partition: min(before.get(partition, end), end) for partition, (_, end) in spans.items()}
    reached = {}
    for partition, (first, _) in spans.items():
        records, reached[partition] = _last_records(client, topic, partition, first, ends[partition], limit)
        found += [(partition, record) for record in records]
    found.sort(key=lambda one: (one[1].timestamp_ms, one[1].offset, one[0]), reverse=True)
    # Within a partition the page must be a suffix, or the next page would skip records that have odd timestamps.
    chosen = _by_partition_order(found, limit, newest_first=True)
    positions = dict(reached)
    shown: dict[int, int] = {}
    for partition, record in chosen:
        shown[partition] = min(shown.get(partition, record.offset), record.offset)
    held_back = {partition for partition, record in found} - set(shown)
    for partition in spans:
        if partition in shown:
            positions[partition] = shown[partition]
        elif partition in held_back:
            positions[partition] = ends[partition]
    is_last = len(chosen) == len(found) and all(positions[p] <= first for p, (first, _) in spans.items())
    return RecordPage(tuple(chosen), positions, is_last)


def _last_records(
    client: BlockingClient, topic: str, partition: int, first: int, end: int, limit: int
) -> tuple[list[Record], int]:
    """The last records before `end`, and the offset from which all were read. Looks further back where compaction or
    transactions left gaps."""
    width = limit
    while True:
        start = max(first, end - width)
        found = fetched_records(client, (topic, partition), start, end, _SETTINGS) if start < end else ()
        records = [_for_a_list(record) for record in found]
        if len(records) >= limit or start <= first or width > limit * 64:
            return records[-limit:], records[-limit].offset if len(records) > limit else start
        width *= 4


def forward(client: BlockingClient, topic: str, spans: Spans, after: Mapping[int, int], limit: int) -> RecordPage:
    """From these offsets on; a partition that is not named begins at its first offset."""
    found: list[tuple[int, Record]] = []
    starts = {partition: max(first, after.get(partition, first)) for partition, (first, _) in spans.items()}
    for partition, (_, end) in spans.items():
        for record in read(client, topic, partition, starts[partition], end):
            found.append((partition, _for_a_list(record)))
            if sum(1 for number, _ in found if number == partition) >= limit:
                break
    found.sort(key=lambda one: (one[1].timestamp_ms, one[1].offset, one[0]))
    chosen = _by_partition_order(found, limit, newest_first=False)
    positions = dict(starts)
    for partition, record in chosen:
        positions[partition] = max(positions[partition], record.offset + 1)
    left = {partition for partition, _ in found} - {partition for partition, _ in chosen}
    for partition, (_, end) in spans.items():
        if partition not in left and not any(number == partition for number, _ in found):
            positions[partition] = end
    is_last = len(chosen) == len(found) < limit
    return RecordPage(tuple(chosen), positions, is_last)


class Beginning(bytes):
    """The first bytes of a large key or value, for a list: a page of records of 50 MB would not fit in memory."""

    whole_bytes: int


def _for_a_list(record: Record) -> Record:
    if len(record.value or b"") <= LARGEST_LISTED and len(record.key or b"") <= LARGEST_LISTED:
        return record
    return Record(_beginning(record.key), _beginning(record.value), record.headers, record.timestamp_ms, record.offset)


def _beginning(data: bytes | None) -> bytes | None:
    if data is None or len(data) <= LARGEST_LISTED:
        return data
    found = Beginning(data[:_BEGINNING])
    found.whole_bytes = len(data)
    return found


def _by_partition_order(found: list[tuple[int, Record]], limit: int, *, newest_first: bool) -> list[tuple[int, Record]]:
    """The first `limit` of `found`, where each partition keeps the order of its offsets."""
    chosen = found[:limit]
    counts: dict[int, int] = {}
    for partition, _ in chosen:
        counts[partition] = counts.get(partition, 0) + 1
    queues = {
        number: iter(
            sorted(
                (record for partition, record in found if partition == number),
                key=lambda record: record.offset, reverse=newest_first,
            )
        )
        for number in counts
    }  # fmt: skip
    return [(partition, next(queues[partition])) for partition, _ in chosen]


def read(client: BlockingClient, topic: str, partition: int, start: int, end: int) -> Iterator[Record]:
    if start < end:
        yield from fetched_records(client, (topic, partition), start, end, _SETTINGS)


def read_one(client: BlockingClient, topic: str, partition: int, offset: int) -> Record | None:
    """The record at the offset; None if compaction or a transaction left none there."""
    found = read(client, topic, partition, offset, offset + 1)
    return next((record for record in found if record.offset == offset), None)
