"""Lag of groups and states of flows from plain facts."""

from __future__ import annotations

import pytest

from headrace.broker.lag.figures import FlowReport, TopicLag, topic_lags
from headrace.kernel.ids import TopicPartition

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
SPANS = {A0: (0, 10), A1: (5, 7)}


def lag(committed: dict[int, int], spans: dict[TopicPartition, tuple[int, int]] | None = None) -> TopicLag | None:
    return dict(topic_lags({"a": committed}, SPANS if spans is None else spans, {"a": 2})).get("a")


def test_a_partition_without_a_committed_offset_counts_with_all_its_records() -> None:
    assert lag({0: 4}) == TopicLag(6 + 2, ((A0, 4), (A1, 5)))


def test_an_offset_before_the_first_record_counts_from_there_and_one_after_the_end_as_read() -> None:
    assert lag({0: 99, 1: 0}) == TopicLag(2, ((A1, 5),))


def test_a_topic_with_an_unknown_end_or_a_deleted_topic_has_no_lag() -> None:
    assert lag({0: 4}, {A0: (0, 10)}) is None
    assert dict(topic_lags({"gone": {0: 1}}, {}, {})) == {}


def test_seconds_are_the_age_of_the_oldest_unread_record() -> None:
    behind = TopicLag(3, ((A0, 4), (A1, 5)))
    assert behind.seconds({(A0, 4): 9_000, (A1, 5): 4_000}, 10_000) == 6.0
    assert behind.seconds({}, 10_000) is None
    assert TopicLag(0, ()).seconds({}, 10_000) == 0.0
    assert behind.seconds({(A0, 4): 99_000}, 10_000) == 0.0, "a record from the future"


@pytest.mark.parametrize(
    ("state", "age_ms", "running", "failing"),
    [
        ("running", 1_000, True, False),
        ("running", 60_000, False, True),
        ("failed", 60_000, False, True),
        ("restarting", 1_000, False, True),
        ("stopped", 60_000, False, False),
    ],
)
def test_states_of_flows(state: str, age_ms: int, running: bool, failing: bool) -> None:
    report = FlowReport.of({"pipeline": "p", "flow": "f", "state": state, "at_ms": 100_000 - age_ms})
    assert (report.is_running(100_000), report.is_failing(100_000)) == (running, failing)
    assert report.lag is None, "not known before the first batch"
