"""The offset ranges that a query must fetch.

The end of every partition is its last stable offset, so a query sees committed records only and ends at the moment at
which it began. A lower bound of the timestamp becomes an offset through ListOffsets: all records before that offset
have an earlier timestamp. An upper bound does not shorten the range, because timestamps that producers set are not in
order.
"""

from __future__ import annotations

from headrace.client.blocking.client import EARLIEST, LATEST, READ_COMMITTED, BlockingClient
from headrace.pipelines.source.offsets import OffsetRange
from headrace.tables.relations.pruning import Filter


def whole_topic(client: BlockingClient, topic: str) -> list[OffsetRange]:
    """The committed records of every partition, as they are now."""
    pairs = [(topic, index) for index in client.topics([topic])[topic].partitions]
    # Ends first: a record that retention removes between the two answers is then not below the start.
    ends = client.list_offsets(dict.fromkeys(pairs, LATEST), isolation=READ_COMMITTED)
    starts = client.list_offsets(dict.fromkeys(pairs, EARLIEST))
    return [OffsetRange(*pair, starts[pair], ends[pair]) for pair in pairs]


def matching_ranges(client: BlockingClient, ranges: list[OffsetRange], wanted: Filter) -> list[OffsetRange]:
    """The parts of the ranges that can hold rows of the filter."""
    cut = [OffsetRange(r.topic, r.partition, *wanted.offsets(r.partition, r.start, r.end)) for r in ranges]
    cut = [r for r in cut if r.size]
    earliest_ms = wanted.earliest_time_ms()
    if earliest_ms is None or not cut:
        return cut
    found = client.list_offsets({(r.topic, r.partition): earliest_ms for r in cut})
    # -1: no record has this or a later timestamp.
    firsts = [found[(r.topic, r.partition)] for r in cut]
    later = [
        OffsetRange(r.topic, r.partition, r.end if first < 0 else max(r.start, first), r.end)
        for r, first in zip(cut, firsts, strict=True)
    ]
    return [r for r in later if r.size]
