"""The hand-written Produce and Fetch codecs agree with kio's schemas."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import timedelta

import pytest

from headrace.wire.codec import MalformedRequest, encode_request, read_request_header, read_response
from headrace.wire.fetch import FetchedPartition, encode_fetch_response
from headrace.wire.fetch_request import WantedPartition, read_fetch_request
from headrace.wire.node_endpoints import NodeEndpoint
from headrace.wire.produce import PartitionOutcome, encode_produce_response, encode_taken, read_produce_request

TOPIC_ID = uuid.UUID(int=0x0102030405060708090A0B0C0D0E0F10)
RECORDS = bytes(range(200)) * 3


Topics = list[tuple[str, list[tuple[int, bytes | None]]]]
TWO_PARTITIONS: Topics = [("orders", [(3, RECORDS), (4, None)])]


def produce_frame(version: int, transactional_id: str | None = None, topics: Topics = TWO_PARTITIONS) -> memoryview:
    body = {
        "transactional_id": transactional_id,
        "acks": -1,
        "timeout": 1500,
        "topic_data": [
            {
                "name": name,
                "topic_id": TOPIC_ID,
                "partition_data": [{"index": index, "records": records} for index, records in partitions],
            }
            for name, partitions in topics
        ],
    }
    return memoryview(encode_request(0, version, 7, "me", body))[4:]


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("transactional_id", [None, "tx"])
def test_produce_request_of_every_version_is_decoded(version: int, transactional_id: str | None) -> None:
    frame = produce_frame(version, transactional_id)
    _, at = read_request_header(frame)
    request = read_produce_request(frame, at, version)
    assert (request.transactional_id, request.acks, request.timeout_ms) == (transactional_id, -1, 1500)
    ((topic, partitions),) = request.topics
    assert topic == (TOPIC_ID.bytes if version >= 13 else "orders")
    assert partitions == [(3, RECORDS), (4, None)]


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize(
    "topics",
    [
        [("orders", [(3, RECORDS)])],
        [("o", [(2**31 - 1, b"x")])],
        [("n" * 126, [(0, RECORDS)])],
        [("n" * 127, [(0, RECORDS)])],
        [("n" * 249, [(0, RECORDS)])],
        [("orders", [(3, b"")])],
        [("orders", [(3, None)])],
        [("orders", [])],
        [("orders", [(3, RECORDS)]), ("bills", [(1, RECORDS)])],
        [],
    ],
    ids=lambda topics: "+".join(f"{len(name)}:{len(partitions)}" for name, partitions in topics) or "none",
)
def test_produce_requests_with_any_topics_are_decoded(version: int, topics: Topics) -> None:
    frame = produce_frame(version, None, topics)
    _, at = read_request_header(frame)
    request = read_produce_request(frame, at, version)
    assert (request.transactional_id, request.acks, request.timeout_ms) == (None, -1, 1500)
    assert request.topics == [(TOPIC_ID.bytes if version >= 13 else name, partitions) for name, partitions in topics]


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("topics", [TWO_PARTITIONS, [("orders", [(3, RECORDS)])]], ids=["two", "one"])
def test_produce_request_truncated_at_any_byte_is_refused(version: int, topics: Topics) -> None:
    frame = produce_frame(version, None, topics)
    _, at = read_request_header(frame)
    for length in range(at, len(frame)):
        with pytest.raises(MalformedRequest):
            read_produce_request(frame[:length], at, version)


def fetch_frame(version: int) -> memoryview:
    def partition(index: int, high_watermark: int = 2**63 - 1) -> dict[str, object]:
        return {
            "partition": index,
            "current_leader_epoch": 5,
            "fetch_offset": 1 << 40,
            "last_fetched_epoch": 4,
            "log_start_offset": 17,
            "partition_max_bytes": 1000 + index,
            "replica_directory_id": TOPIC_ID,
            "high_watermark": high_watermark,
        }

    rows = [partition(0), partition(7, 3)]
    body = {
        "cluster_id": "somewhere",
        "replica_id": 3,
        "replica_state": {"replica_id": 3, "replica_epoch": 99},
        "max_wait": 500,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "isolation_level": 1,
        "session_id": 77,
        "session_epoch": 4,
        "topics": [
            {"topic": "orders", "topic_id": TOPIC_ID, "partitions": rows},
            {"topic": "n" * 200, "topic_id": TOPIC_ID, "partitions": []},
        ],
        "forgotten_topics_data": [{"topic": "bills", "topic_id": TOPIC_ID, "partitions": [1, 2]}],
        "rack_id": "r1",
    }
    return memoryview(encode_request(1, version, 7, "me", body))[4:]


@pytest.mark.parametrize("version", range(4, 19))
def test_fetch_request_of_every_version_is_decoded(version: int) -> None:
    frame = fetch_frame(version)
    _, at = read_request_header(frame)
    request = read_fetch_request(frame, at, version)
    limits = (request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level)
    assert (request.replica_id, *limits) == (3, 500, 1, 1 << 20, 1)
    assert request.replica_epoch == (99 if version >= 15 else -1)
    assert (request.session_id, request.session_epoch) == ((77, 4) if version >= 7 else (0, -1))
    assert request.rack_id == ("r1" if version >= 11 else "")
    by_id = version >= 13
    wanted = [
        WantedPartition(
            index,
            5 if version >= 9 else -1,
            1 << 40,
            4 if version >= 12 else -1,
            17 if version >= 5 else -1,
            1000 + index,
        )
        for index in (0, 7)
    ]
    assert request.topics == [
        (TOPIC_ID.bytes if by_id else "orders", wanted),
        (TOPIC_ID.bytes if by_id else "n" * 200, []),
    ]
    assert request.forgotten == ([(TOPIC_ID.bytes if by_id else "bills", [1, 2])] if version >= 7 else [])


@pytest.mark.parametrize("version", range(4, 19))
def test_fetch_request_truncated_at_any_byte_is_refused(version: int) -> None:
    frame = fetch_frame(version)
    _, at = read_request_header(frame)
    for length in range(at, len(frame)):
        with pytest.raises(MalformedRequest):
            read_fetch_request(frame[:length], at, version)


@pytest.mark.parametrize("version", range(5, 14))
def test_template_of_a_produce_response_gives_the_same_bytes(version: int) -> None:
    topic = TOPIC_ID.bytes if version >= 13 else "orders"
    for outcome in (PartitionOutcome(0, 0, 41, -1, 5), PartitionOutcome(1 << 30, 0, 1 << 60, 1234, 1 << 59)):
        index, _, offset, append_time_ms, log_start, *_ = outcome
        short = encode_taken(version, 77, topic, index, offset, append_time_ms, log_start)
        assert short == encode_produce_response(version, 77, [(topic, [outcome])])


@pytest.mark.parametrize("version", range(3, 14))
def test_kio_decodes_produce_responses_of_every_version(version: int) -> None:
    outcomes = [
        PartitionOutcome(0, 0, 41, 1234, 5),
        PartitionOutcome(1, 87, error_message="bad", record_errors=((2, "no key"), (3, None))),
        PartitionOutcome(2, 6, current_leader=(8, 9)),
    ]
    topic = TOPIC_ID.bytes if version >= 13 else "orders"
    frame = encode_produce_response(version, 77, [(topic, outcomes)], 12, (NodeEndpoint(8, "h", 9092, "r"),))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    correlation_id, response = read_response(0, version, frame[4:])
    assert correlation_id == 77
    assert response.throttle_time == timedelta(milliseconds=12)
    (answer,) = response.responses
    first, second, third = answer.partition_responses
    assert (first.index, first.error_code, first.base_offset) == (0, 0, 41)
    if version >= 5:
        assert first.log_start_offset == 5
    if version >= 8:
        assert second.error_message == "bad"
        errors = [(e.batch_index, e.batch_index_error_message) for e in second.record_errors]
        assert errors == [(2, "no key"), (3, None)]
    if version >= 10:
        assert (third.current_leader.leader_id, third.current_leader.leader_epoch) == (8, 9)
        assert (first.current_leader.leader_id, first.current_leader.leader_epoch) == (-1, -1)
        (endpoint,) = response.node_endpoints
        assert (endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack) == (8, "h", 9092, "r")
    if version >= 13:
        assert answer.topic_id == TOPIC_ID


@dataclass
class Piece:
    data: bytes

    @property
    def length(self) -> int:
        return len(self.data)


@pytest.mark.parametrize("version", range(4, 19))
def test_kio_decodes_fetch_responses_of_every_version(version: int) -> None:
    partitions = [
        FetchedPartition(0, 0, 10, 9, 2, aborted=[(5, 6)], records=Piece(RECORDS)),
        FetchedPartition(1, 6, current_leader=(3, 4), preferred_read_replica=2),
        FetchedPartition(2, 0, 10, 9, 2, aborted=[], diverging=(1, 7), records=Piece(b"abc")),
    ]
    topic = TOPIC_ID.bytes if version >= 13 else "orders"
    parts = encode_fetch_response(
        version, 5, [(topic, partitions)], session_id=99, node_endpoints=[NodeEndpoint(3, "h", 1, None)]
    )
    frame = b"".join(part.data if isinstance(part, Piece) else part for part in parts)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    correlation_id, response = read_response(1, version, frame[4:])
    assert correlation_id == 5
    first, second, third = response.responses[0].partitions
    assert (bytes(first.records), bytes(third.records)) == (RECORDS, b"abc")
    assert second.records == b""
    assert [(a.producer_id, a.first_offset) for a in first.aborted_transactions] == [(5, 6)]
    assert second.aborted_transactions is None
    assert third.aborted_transactions == ()
    assert (first.high_watermark, first.last_stable_offset) == (10, 9)
    if version >= 7:
        assert response.session_id == 99
    if version >= 11:
        assert second.preferred_read_replica == 2
    if version >= 12:
        assert (third.diverging_epoch.epoch, third.diverging_epoch.end_offset) == (1, 7)
        assert (second.current_leader.leader_id, second.current_leader.leader_epoch) == (3, 4)
    if version >= 16:
        assert [e.node_id for e in response.node_endpoints] == [3]
