"""The lag of a running demo, which is true also while a batch runs."""

from __future__ import annotations

from headrace.api import connect
from headrace.client.blocking.client import BlockingClient
from headrace.demos.run import lag_now
from headrace.pipelines.flows.progress import FlowProgress
from headrace.testing import RunningBroker


def flow(lag: int | None, **ends: dict[str, int]) -> FlowProgress:
    return FlowProgress("demo", "counts", lag=lag, end_offsets=ends)


def test_records_that_came_during_a_batch_count(headrace: RunningBroker) -> None:
    headrace.create_topic("likes")
    connect(headrace.bootstrap).topic("likes", str).send_all([str(number) for number in range(10)])
    client = BlockingClient(headrace.bootstrap)
    assert lag_now(client, [flow(0, likes={"0": 4}), flow(3, likes={"0": 9})]) == 6 + 1


def test_flow_without_topics_reports_its_own_lag(headrace: RunningBroker) -> None:
    assert lag_now(BlockingClient(headrace.bootstrap), [flow(7)]) == 7


def test_lag_is_not_known_before_the_first_batch(headrace: RunningBroker) -> None:
    assert lag_now(BlockingClient(headrace.bootstrap), [flow(None), flow(0)]) is None
