"""The history checker finds each anomaly in a bad history that was written by hand."""

from __future__ import annotations

import pytest

from headrace.testing.chaos.history import History, Place, Transaction, Value, check

A, B, C = Value("p", 1), Value("p", 2), Value("p", 3)


def good() -> History:
    return History(
        acked={A: Place(0, 0), B: Place(0, 1)},
        reads=[(Place(0, 0), A)],
        delivered={A, B},
        transactions=[Transaction([A, B], committed=True), Transaction([C], committed=False)],
        final={0: [(0, A), (1, B)]},
    )


def test_a_good_history_has_no_anomalies() -> None:
    assert not check(good())


def test_an_unacknowledged_record_may_be_in_the_log_or_not() -> None:
    history = good()
    history.transactions = []
    history.final[0].append((2, C))
    assert not check(history)


def _lost(history: History) -> None:
    history.final[0].pop()
    history.transactions = []


def _elsewhere(history: History) -> None:
    history.final[0][1] = (5, B)


def _doubled(history: History) -> None:
    history.final[0].append((2, B))


def _disordered(history: History) -> None:
    history.final[0] = [(0, B), (1, A)]
    history.acked, history.reads = {}, []


def _gone(history: History) -> None:
    history.reads.append((Place(0, 7), C))


def _undelivered(history: History) -> None:
    history.delivered = {A}


def _torn(history: History) -> None:
    history.transactions[0].values.append(C)


def _aborted_visible(history: History) -> None:
    history.final[0].append((2, C))


@pytest.mark.parametrize(
    ("damage", "anomaly"),
    [
        (_lost, "acked_lost"),
        (_elsewhere, "acked_elsewhere"),
        (_doubled, "doubled"),
        (_disordered, "disordered"),
        (_gone, "read_then_gone"),
        (_undelivered, "undelivered"),
        (_torn, "torn_transactions"),
        (_aborted_visible, "torn_transactions"),
    ],
)
def test_the_checker_finds_and_names_each_anomaly(damage: object, anomaly: str) -> None:
    history = good()
    damage(history)  # type: ignore[operator]
    counts = check(history).counts
    assert counts.pop(anomaly) == 1
    assert not any(counts.values()), counts
