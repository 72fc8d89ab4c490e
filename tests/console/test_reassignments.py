"""A broker is drained by a plan that is shown first; moves can be cancelled."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import NewTopic

from headrace.console.core.drain import CannotDrain, drain_plan
from headrace.kernel.ids import TopicPartition
from headrace.testing import cluster
from tests.console.conftest import Scene
from tests.support.clock import wait_for
from tests.support.console import console_on

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_replicas_go_to_the_emptiest_broker_of_another_rack_and_keep_their_order() -> None:
    replicas = {A0: (3, 1), A1: (1, 3), B0: (1, 2)}
    assert drain_plan(replicas, 3, {1: None, 2: None}) == {A0: [2, 1], A1: [1, 2]}
    racks = {1: "r1", 2: "r1", 4: "r2"}
    assert drain_plan({A0: (3, 1)}, 3, racks) == {A0: [4, 1]}, "1 and 2 are in one rack"


def test_a_replica_without_another_broker_is_named() -> None:
    with pytest.raises(CannotDrain, match="replica of a-0 on broker 3: the partition has 2 replicas"):
        drain_plan({A0: (3, 1)}, 3, {1: None})


def test_a_broker_is_drained_and_nothing_is_left_to_cancel() -> None:
    with cluster(3) as running, console_on(running.bootstrap) as url:
        scene = Scene(running.bootstrap, url)
        scene.admin.create_topics([NewTopic("moved", 6, 2)])["moved"].result(60)
        scene.produce("moved", *((f"k{n}", "value") for n in range(60)))

        def on_broker_3() -> int:
            found = scene.admin.list_topics(timeout=30).topics
            return sum(3 in p.replicas for topic in found.values() for p in topic.partitions.values())

        assert on_broker_3() > 0
        status, page = scene.post("/brokers/3/drain")
        assert status == 200 and "off broker 3" in page
        wait_for(lambda: on_broker_3() == 0, "every replica to leave broker 3")
        status, page = scene.post("/cancel-reassignments")
        assert status == 200 and "0 partitions" in page
        assert scene.admin.list_topics(timeout=30).topics["moved"].partitions[0].error is None
