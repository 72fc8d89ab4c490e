"""The clock of tests: a timer may end a millisecond early, and a wait that fails says for what."""

from __future__ import annotations

import pytest

from tests.support.clock import GRAIN_S, Stopwatch, wait_for


def stopwatch_at(seconds: float, monkeypatch: pytest.MonkeyPatch) -> Stopwatch:
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    watch = Stopwatch()
    now[0] += seconds
    return watch


def test_a_lower_bound_allows_for_the_grain_of_clocks_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    stopwatch_at(0.09988, monkeypatch).at_least(0.1)
    with pytest.raises(AssertionError, match=r"0\.0940 s passed, and not 0\.1 s"):
        stopwatch_at(0.1 - GRAIN_S - 0.001, monkeypatch).at_least(0.1)


def test_an_upper_bound_gives_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    stopwatch_at(29.9, monkeypatch).at_most(30, because="it waits for nothing")
    with pytest.raises(AssertionError, match=r"31\.0 s passed, and not at most 30 s: it waits for nothing"):
        stopwatch_at(31, monkeypatch).at_most(30, because="it waits for nothing")


def test_the_first_true_value_is_given_and_a_condition_that_never_comes_is_named() -> None:
    values = iter([0, "", 7])
    assert wait_for(lambda: next(values), "a value", poll=0) == 7
    with pytest.raises(AssertionError, match=r"waited 0\.01 s for the moon: new"):
        wait_for(lambda: None, lambda: "the moon: new", within=0.01, poll=0.001)
