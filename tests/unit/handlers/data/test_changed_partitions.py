"""A follower's session checks only changed partitions, and misses none."""

from __future__ import annotations

from headrace.handlers.data.changed_partitions import ChangedPartitions
from headrace.replication.waiters import ReaderSet

A, B, C = ("t", 0), ("t", 1), ("t", 2)
ALL = (A, B, C)


def watching(*keys: tuple[str, int]) -> tuple[ChangedPartitions, dict[tuple[str, int], ReaderSet]]:
    """A session that has looked at all of its partitions and found them quiet."""
    news = ChangedPartitions()
    assert news.take(keys, 0) == list(keys), "the first look is at everything"
    places = {key: ReaderSet() for key in keys}
    for key, place in places.items():
        news.watch(key, place)
    return news, places


def test_only_changed_partitions_are_checked() -> None:
    news, places = watching(*ALL)
    assert news.take(ALL, 1) == []
    places[B].grew(100)
    assert news.take(ALL, 2) == [B]
    assert news.take(ALL, 3) == [], "it was quiet"
    places[C].marked()
    places[A].wake_all()
    news.asked_for(B)
    assert news.take(ALL, 4) == [C, A, B]


def test_partitions_with_news_are_checked_again_in_order() -> None:
    news, places = watching(*ALL)
    places[A].grew(1)
    places[B].grew(1)
    assert news.take(ALL, 1) == [A, B]
    news.not_quiet(B)
    news.not_quiet(A)
    assert news.take(ALL, 2) == [B, A]


def test_all_partitions_are_checked_periodically() -> None:
    news, _ = watching(*ALL)
    assert news.take(ALL, 1999) == []
    assert news.take(ALL, 2000) == list(ALL)
    assert news.take(ALL, 2001) == []


def test_a_check_after_a_wait_is_not_the_periodic_one() -> None:
    """It says nothing of what the follower holds. Followers wait nearly all the time, so the look at everything would
    hardly ever fall on their asking, and nobody would see that one is back."""
    news, places = watching(*ALL)
    news.wait(1, lambda: None)
    places[B].grew(1)
    assert news.take(ALL, 2500) == [B]
    assert news.take(ALL, 2501) == list(ALL), "the follower asks again"


def test_a_wait_ends_with_enough_bytes_or_a_change_of_leader() -> None:
    news, places = watching(*ALL)
    woken: list[str] = []
    news.wait(100, lambda: woken.append("bytes"))
    places[A].grew(60)
    places[B].marked()
    assert woken == []
    places[A].grew(40)
    assert woken == ["bytes"]
    places[A].grew(1000)
    assert woken == ["bytes"], "once"
    assert news.take(ALL, 1) == [A, B]
    news.wait(100, lambda: woken.append("hands"))
    places[C].wake_all()
    assert woken == ["bytes", "hands"]
    news.wait(1, lambda: woken.append("never"))
    news.stop_waiting()
    places[B].grew(1)
    assert woken == ["bytes", "hands"]


def test_an_unused_session_removes_its_watches() -> None:
    news, places = watching(A)
    places[A].grew(1)
    assert places[A].waiting
    places[A].grew(1)
    assert not places[A].waiting
    # Its follower was only slow: the look brings the watch back.
    assert news.take([A], 1) == [A]
    news.watch(A, places[A])
    places[A].grew(1)
    assert news.take([A], 2) == [A]


def test_a_recreated_partition_is_watched_again() -> None:
    news, places = watching(A)
    again = ReaderSet()
    news.watch(A, again)
    assert not places[A].waiting
    again.grew(1)
    assert news.take([A], 1) == [A]


def test_removed_and_closed_partitions_are_not_watched() -> None:
    news, places = watching(*ALL)
    places[A].grew(1)
    news.forgotten(A)
    assert not places[A].waiting
    assert news.take((B, C), 1) == []
    news.close()
    assert not any(place.waiting for place in places.values())
