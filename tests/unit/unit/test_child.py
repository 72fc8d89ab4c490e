"""When the supervisor of a unit starts a dead process again."""

from __future__ import annotations

from headrace.unit.child import next_pause_s


def pauses(lives_s: list[float], *, has_served: bool) -> list[float]:
    found: list[float] = []
    for life_s in lives_s:
        found.append(next_pause_s(found[-1] if found else None, life_s, has_served=has_served))
    return found


def test_a_process_that_served_starts_again_within_half_a_second_however_often_it_dies() -> None:
    assert pauses([3.0] * 5, has_served=True) == [0.0, 0.2, 0.4, 0.5, 0.5]


def test_a_process_that_cannot_start_waits_longer_each_time() -> None:
    assert pauses([1.0] * 9, has_served=False) == [0.0, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]


def test_after_a_long_life_a_process_starts_again_at_once() -> None:
    assert pauses([1.0, 1.0, 11.0, 1.0], has_served=True) == [0.0, 0.2, 0.0, 0.2]
