"""Sizing of topics."""

from __future__ import annotations

import pytest

from headrace.cli.facts.group_lag import sparkline
from headrace.cli.facts.topic_sizing import Demand, brokers_factor, plan


def test_partitions_follow_the_number_of_brokers() -> None:
    assert [brokers_factor(brokers) for brokers in (1, 5, 9, 12, 13)] == [2, 2, 1.5, 1, 1]
    assert plan(Demand(1, brokers=5))["partitions"] == 10
    assert plan(Demand(1, brokers=20))["partitions"] == 20


def test_throughput_and_consumers_need_more_partitions() -> None:
    assert plan(Demand(100, brokers=3))["partitions"] == 20
    assert plan(Demand(1, brokers=3, consumers=30))["partitions"] == 30


def test_storage_of_a_terabyte_a_day_for_a_week() -> None:
    found = plan(Demand(1_000_000 / 86_400, brokers=3))
    assert found["storage_tb_one_copy"] == 7
    assert found["storage_tb_all_replicas"] == 21
    assert (found["replication_factor"], found["min_insync_replicas"], found["failures_tolerated"]) == (3, 2, 2)


def test_records_survive_more_broker_losses_than_writes() -> None:
    found = plan(Demand(1, brokers=3))
    assert (found["failures_tolerated"], found["failures_with_acks_all_writes"]) == (2, 1)
    assert found["when_replicas_are_lost"] == [
        "1 of 3 lost: reads and writes go on",
        "2 of 3 lost: no record is lost and reads go on, but writes with acks=all stop until another replica is back "
        "(min.insync.replicas=2)",
        "3 of 3 lost: reads and writes stop until one of them is back",
    ]
    assert plan(Demand(1, brokers=1))["when_replicas_are_lost"] == [
        "1 of 1 lost: reads and writes stop until one of them is back"
    ]


def test_one_replica_gives_a_warning_and_too_many_are_refused() -> None:
    assert "loses its data" in plan(Demand(1, brokers=1))["warnings"][0]
    with pytest.raises(ValueError, match="needs as many brokers"):
        plan(Demand(1, brokers=2, replication=3))


def test_constant_lag_is_a_flat_sparkline() -> None:
    assert sparkline([5, 5]) == "██"
    assert sparkline([0, 0]) == "▁▁"
    assert sparkline([0, 10]) == "▁█"
