"""A follower's fetch session: the first request names every partition, later ones only changes."""

from __future__ import annotations

import uuid

from headrace.replication.core.fetch_session import FetchPosition, FetchSession

TOPIC = uuid.uuid4()
A, B = (TOPIC, 0), (TOPIC, 1)


def at(offset: int) -> FetchPosition:
    return FetchPosition(offset, 3, 4, 0)


def session_of(*wanted: tuple[tuple[uuid.UUID, int], int]) -> FetchSession:
    session = FetchSession()
    for key, offset in wanted:
        session.want(key, at(offset))
    return session


def test_first_request_names_every_partition() -> None:
    request = session_of((A, 1), (B, 2)).request()
    assert (request.session_id, request.epoch) == (0, 0)
    assert request.named == {A: at(1), B: at(2)}


def test_later_requests_name_only_changed_and_removed_partitions() -> None:
    session = session_of((A, 1), (B, 2))
    session.request()
    session.answered(77)
    session.want(A, at(5))
    session.want(B, at(2))
    request = session.request()
    assert (request.session_id, request.epoch, request.named, request.forgotten) == (77, 1, {A: at(5)}, ())
    session.answered(77)
    session.drop(B)
    request = session.request()
    assert (request.epoch, request.named, request.forgotten) == (2, {}, (B,))
    session.answered(77)
    session.want(B, at(2))
    assert session.request().named == {B: at(2)}, "what came back is named again"


def test_partition_removed_and_added_between_two_requests_is_named() -> None:
    session = session_of((A, 1))
    session.request()
    session.answered(77)
    session.drop(A)
    session.want(A, at(1))
    request = session.request()
    assert (request.named, request.forgotten) == ({A: at(1)}, ())


def test_without_a_session_every_request_names_every_partition() -> None:
    session = session_of((A, 1))
    session.request()
    session.answered(0)
    assert session.request().named == {A: at(1)}


def test_after_an_error_a_new_session_begins() -> None:
    session = session_of((A, 1))
    session.request()
    session.answered(77)
    session.reset()
    request = session.request()
    assert (request.session_id, request.epoch, request.named) == (0, 0, {A: at(1)})


def test_epochs_wrap_to_one() -> None:
    session = session_of((A, 1))
    session.request()
    session.answered(77)
    session._next_epoch = 0x7FFFFFFF
    assert session.request().epoch == 0x7FFFFFFF
    session.answered(77)
    assert session.request().epoch == 1, "zero would ask for a new session"
