"""The time that a handshake with ZooKeeper may take."""

from __future__ import annotations

from headrace.coordination.handshake import FIRST_LIMIT_S, HandshakeLimit


def test_each_handshake_without_an_answer_doubles_the_time_of_the_next() -> None:
    limit = HandshakeLimit()
    assert [limit.next(at_most_s=18) for _ in range(5)] == [2, 4, 8, 16, 18]


def test_an_answer_resets_the_limit() -> None:
    limit = HandshakeLimit()
    limit.next(at_most_s=18)
    limit.answered()
    assert limit.next(at_most_s=18) == FIRST_LIMIT_S


def test_a_handshake_never_takes_longer_than_kazoo_allows() -> None:
    assert HandshakeLimit().next(at_most_s=0.5) == 0.5
