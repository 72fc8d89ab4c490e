"""The hand-written codec of Fetch between brokers agrees with the general codec."""

from __future__ import annotations

import uuid

import pytest

from headrace.wire import codec
from headrace.wire.codec import MalformedRequest
from headrace.wire.fetch import FetchedPartition, encode_fetch_response
from headrace.wire.fetch_request import WantedPartition
from headrace.wire.replica_fetch import FetchLimits, encode_replica_fetch, read_fetch_answer

ONE, OTHER = uuid.uuid4(), uuid.uuid4()


class Bytes:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.length = len(data)


def test_request_equals_the_general_codecs() -> None:
    ours = encode_replica_fetch(
        7,
        "broker-1-fetcher",
        (1, 99),
        FetchLimits(500, 1, 10_000),
        (42, 3),
        {ONE: [WantedPartition(0, 5, 100, 4, 10, 1000), WantedPartition(3, 6, 200, 6, 0, 1000)]},
        {OTHER: [1, 2]},
    )
    body = {
        "replica_state": {"replica_id": 1, "replica_epoch": 99},
        "max_wait": 500,
        "min_bytes": 1,
        "max_bytes": 10_000,
        "isolation_level": 0,
        "session_id": 42,
        "session_epoch": 3,
        "topics": [
            {
                "topic_id": ONE,
                "partitions": [
                    {
                        "partition": index,
                        "current_leader_epoch": epoch,
                        "fetch_offset": offset,
                        "last_fetched_epoch": last,
                        "log_start_offset": start,
                        "partition_max_bytes": 1000,
                    }
                    for index, epoch, offset, last, start in [(0, 5, 100, 4, 10), (3, 6, 200, 6, 0)]
                ],
            }
        ],
        "forgotten_topics_data": [{"topic_id": OTHER, "partitions": [1, 2]}],
        "rack_id": "",
    }
    assert ours == codec.encode_request(1, 17, 7, "broker-1-fetcher", body)


def answer(*partitions: FetchedPartition) -> memoryview:
    parts = encode_fetch_response(
        17, 9, [(ONE.bytes, partitions), (OTHER.bytes, [FetchedPartition(4, 6)])], session_id=42
    )
    whole = b"".join(part.data if isinstance(part, Bytes) else bytes(part) for part in parts)
    return memoryview(whole)[4:]


def test_response_records_are_views_into_the_frame() -> None:
    frame = answer(
        FetchedPartition(0, 0, 50, 50, 3, None, -1, Bytes(b"records")),
        FetchedPartition(1, 0, 60, 60, 4, [(1, 2), (3, 4)], -1, None, diverging=(5, 55)),
        FetchedPartition(2, 74, current_leader=(3, 9)),
    )
    found = read_fetch_answer(frame)
    assert (found.error_code, found.session_id) == (0, 42)
    first, second, third, other = found.partitions
    assert (first.topic_id, first.partition, first.high_watermark, first.log_start_offset) == (ONE, 0, 50, 3)
    assert bytes(first.records) == b"records"
    assert first.records.obj is frame.obj, "no copy"
    assert (second.diverging, bytes(second.records)) == ((5, 55), b"")
    assert (third.error_code, third.diverging) == (74, None)
    assert (other.topic_id, other.partition, other.error_code) == (OTHER, 4, 6)
    _, by_codec = codec.read_response(1, 17, frame)
    assert [p.high_watermark for t in by_codec.responses for p in t.partitions] == [
        p.high_watermark for p in found.partitions
    ]


def test_truncated_response_is_refused() -> None:
    whole = answer(FetchedPartition(0, 0, 50, 50, 3, None, -1, Bytes(b"records")))
    for cut in range(4, 60):
        with pytest.raises(MalformedRequest):
            read_fetch_answer(whole[:cut])
