"""Incremental fetch sessions: the client sends its partitions once, then only changes."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.handlers.data.fetch_sessions import FetchSessions, SessionPartition
from headrace.kernel.errors import ErrorCode, Refused
from headrace.wire import codec
from headrace.wire.fetch import FetchedPartition
from headrace.wire.fetch_request import read_fetch_request

VERSION = 12


def request(
    session_id: int = 0,
    epoch: int = 0,
    partitions: dict[int, int] | None = None,
    forgotten: tuple[int, ...] = (),
    version: int = VERSION,
) -> Any:
    rows = [
        {
            "partition": index,
            "current_leader_epoch": -1,
            "fetch_offset": offset,
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "partition_max_bytes": 1000,
        }
        for index, offset in (partitions or {}).items()
    ]
    body = {
        "replica_id": -1,
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": 1000,
        "isolation_level": 0,
        "session_id": session_id,
        "session_epoch": epoch,
        "topics": [{"topic": "t", "topic_id": None, "partitions": rows}] if rows else [],
        "forgotten_topics_data": [{"topic": "t", "topic_id": None, "partitions": list(forgotten)}] if forgotten else [],
        "rack_id": "",
    }
    frame = memoryview(codec.encode_request(1, version, 1, "me", body))[4:]
    header, at = codec.read_request_header(frame)
    return read_fetch_request(frame, at, header.api_version)


def offsets(wanted: dict[Any, SessionPartition]) -> dict[int, int]:
    return {one.index: one.offset for one in wanted.values()}


def test_a_session_keeps_partitions_that_are_not_sent_again() -> None:
    sessions = FetchSessions()
    wanted, session, only_changes = sessions.open(request(partitions={0: 5, 1: 7}), VERSION, False, 0)
    assert session is not None
    assert not only_changes
    assert offsets(wanted) == {0: 5, 1: 7}
    wanted, again, only_changes = sessions.open(request(session.id, 1, {1: 9}), VERSION, False, 1)
    assert again is session
    assert only_changes
    assert offsets(wanted) == {0: 5, 1: 9}
    wanted, _, _ = sessions.open(request(session.id, 2, {2: 1}, forgotten=(0,)), VERSION, False, 2)
    assert offsets(wanted) == {1: 9, 2: 1}


def test_a_wrong_epoch_and_an_unknown_session_have_different_errors() -> None:
    sessions = FetchSessions()
    _, session, _ = sessions.open(request(partitions={0: 0}), VERSION, False, 0)
    assert session is not None
    with pytest.raises(Refused) as refused:
        sessions.open(request(session.id, 5), VERSION, False, 0)
    assert refused.value.code is ErrorCode.invalid_fetch_session_epoch
    with pytest.raises(Refused) as refused:
        sessions.open(request(session.id + 1, 1), VERSION, False, 0)
    assert refused.value.code is ErrorCode.fetch_session_id_not_found
    with pytest.raises(Refused) as refused:
        sessions.open(request(session.id, 1, version=13), 13, False, 0)
    assert refused.value.code is ErrorCode.fetch_session_topic_id_error


def test_ending_a_session_sends_a_full_answer() -> None:
    sessions = FetchSessions()
    _, session, _ = sessions.open(request(partitions={0: 0}), VERSION, False, 0)
    assert session is not None
    wanted, none, only_changes = sessions.open(request(session.id, -1, {0: 3}), VERSION, False, 0)
    assert (none, only_changes, offsets(wanted)) == (None, False, {0: 3})
    assert len(sessions) == 0


def test_a_session_without_partitions_ends() -> None:
    sessions = FetchSessions()
    _, session, _ = sessions.open(request(partitions={0: 0}), VERSION, False, 0)
    assert session is not None
    wanted, none, _ = sessions.open(request(session.id, 1, forgotten=(0,)), VERSION, False, 0)
    assert (wanted, none, len(sessions)) == ({}, None, 0)


def test_only_changes_are_sent_and_the_answer_after_an_error() -> None:
    _, session, _ = FetchSessions().open(request(partitions={0: 0}), VERSION, False, 0)
    assert session is not None
    (wanted,) = session.wanted.values()
    assert wanted.tell(FetchedPartition(0, 0, 10, 10, 0))
    assert not wanted.tell(FetchedPartition(0, 0, 10, 10, 0))
    assert wanted.tell(FetchedPartition(0, 0, 11, 11, 0)), "the high watermark moved"
    assert wanted.tell(FetchedPartition(0, 0, 11, 11, 3)), "the log start moved"
    assert wanted.tell(FetchedPartition(0, 6))
    assert wanted.tell(FetchedPartition(0, 6)), "errors are always told"
    assert wanted.tell(FetchedPartition(0, 0, 11, 11, 3)), "it is well again"
    parted = FetchedPartition(0, 0, 12, 12, 3, diverging=(4, 9))
    assert wanted.tell(parted)
    assert wanted.tell(FetchedPartition(0, 0, 12, 12, 3)), "who cuts its log takes nothing else of the answer"
    (_, (asked,)), *_ = request(partitions={0: 5}).topics
    wanted.update(asked._replace(offset=6))
    assert not wanted.tell(FetchedPartition(0, 0, 12, 12, 3))
    wanted.update(asked._replace(leader_epoch=8))
    assert wanted.tell(FetchedPartition(0, 0, 12, 12, 3)), "what came before a change of leaders was thrown away"


def test_partitions_with_records_come_last_in_the_next_fetch() -> None:
    sessions = FetchSessions()
    _, session, _ = sessions.open(request(partitions={0: 0, 1: 0, 2: 0}), VERSION, False, 0)
    assert session is not None
    session.moved_to_end([("t", 0)])
    assert [one.index for one in session.wanted.values()] == [1, 2, 0]


def test_a_full_cache_evicts_unused_sessions_or_answers_without_one() -> None:
    sessions = FetchSessions(slots=2, eviction_ms=100)
    _, first, _ = sessions.open(request(partitions={0: 0}), VERSION, False, 0)
    _, second, _ = sessions.open(request(partitions={0: 0}), VERSION, False, 90)
    assert first is not None
    assert second is not None
    _, none, _ = sessions.open(request(partitions={0: 0}), VERSION, False, 95)
    assert none is None, "nobody has been silent for long"
    _, third, _ = sessions.open(request(partitions={0: 0}), VERSION, False, 150)
    assert third is not None, "the first was silent for 150 ms"
    with pytest.raises(Refused):
        sessions.open(request(first.id, 1), VERSION, False, 150)


def test_followers_evict_sessions_of_consumers() -> None:
    sessions = FetchSessions(slots=1, eviction_ms=1000)
    sessions.open(request(partitions={0: 0}), VERSION, False, 0)
    _, follower, _ = sessions.open(request(partitions={0: 0}), VERSION, True, 1)
    assert follower is not None
    _, none, _ = sessions.open(request(partitions={0: 0, 1: 0}), VERSION, False, 2)
    assert none is None


def test_versions_before_sessions_have_none() -> None:
    wanted, session, only_changes = FetchSessions().open(request(partitions={0: 4}, version=6), 6, False, 0)
    assert (session, only_changes, offsets(wanted)) == (None, False, {0: 4})


def test_waiting_followers_are_answered_when_their_leader_leads_more() -> None:
    sessions = FetchSessions()
    woken: list[str] = []
    for name, is_follower in (("follower", True), ("consumer", False)):
        _, session, _ = sessions.open(request(partitions={0: 0}), VERSION, is_follower, 0)
        assert session is not None
        session.news.wait(1, lambda name=name: woken.append(name))
    assert not sessions.in_a_hurry(5000)
    sessions.leads_more(5000)
    sessions.leads_more(5000)
    assert woken == ["follower"]
    assert sessions.in_a_hurry(5999)
    assert not sessions.in_a_hurry(6000)
