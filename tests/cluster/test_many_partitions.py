"""Faults with hundreds of partitions per broker: the work per partition adds up on one event loop.

Producers write to 600 partitions with three replicas each while brokers are killed, frozen and restarted. Every
partition must become writable again, and none may lose a record. `PARTITIONS=1000` uses more (docs/reliability.md has
the figures).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster.faults import conclude, controller_of
from tests.cluster.load import Load
from tests.support import zookeeper
from tests.support.clock import Stopwatch
from tests.support.cluster import RunningCluster
from tests.support.effort import is_long

PARTITIONS = int(os.environ.get("PARTITIONS") or 600)
TOPIC = "many"
# To one partition. A client that sends one partition per request, five requests at a time, falls behind if two loaded
# cores need 20 ms for each answer.
SECONDS_BETWEEN_WRITES = 3

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not is_long(), reason="long: HEADRACE_EFFORT=long"),
    pytest.mark.skipif(
        not zookeeper.available(), reason="needs Java and ZooKeeper's jars (pip install headrace[spark])"
    ),
]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RunningCluster]:
    with RunningCluster(tmp_path, settings={"zookeeper.session.timeout.ms": "6000"}) as running:
        running.create_topic(TOPIC, PARTITIONS)
        running.wait_in_sync(TOPIC)
        yield running


def kill_a_leader(cluster: RunningCluster) -> None:
    controller = controller_of(cluster)
    cluster.brokers[cluster.others(controller)[0]].kill()


def kill_the_controller(cluster: RunningCluster) -> None:
    cluster.brokers[controller_of(cluster)].kill()


def freeze_a_leader(cluster: RunningCluster) -> None:
    controller = controller_of(cluster)
    cluster.brokers[cluster.others(controller)[0]].pause()


def restart_one(cluster: RunningCluster) -> None:
    broker = cluster.brokers[controller_of(cluster)]
    assert broker.stop() == 0
    broker.start()


FAULTS: tuple[Callable[[RunningCluster], None], ...] = (
    kill_a_leader,
    kill_the_controller,
    freeze_a_leader,
    restart_one,
    restart_one,
    restart_one,
)


def test_every_partition_becomes_writable_again(cluster: RunningCluster) -> None:
    with Load(cluster, TOPIC, producers=1, rate=PARTITIONS // SECONDS_BETWEEN_WRITES, spread=PARTITIONS) as load:
        load.wait_for_acks(2 * PARTITIONS)
        for fault in FAULTS:
            load.listen()
            fault(cluster)
            silence_s = load.silence_s()
            watch = Stopwatch()
            cluster.heal()
            cluster.wait_in_sync(TOPIC)
            in_sync_s = watch.seconds
            print(
                f"{fault.__name__}: {silence_s:.2f} s without writes at most; in sync {in_sync_s:.2f} s after the start"
            )
        conclude(cluster, load, topic=TOPIC)
    assert len({place.partition for place in load.history.acked.values()}) == PARTITIONS
