"""Machine faults that do not kill a broker: clocks that jump, disks that stall, become read-only or are replaced.

Under load, with the history checked and the replicas compared as in `test_faults`. Runs only in `make chaos`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.cluster.faults import conclude
from tests.cluster.load import JavaLoad, Load, client_load
from tests.support import failing_disk, system_shim, zookeeper
from tests.support.clock import wait_for
from tests.support.cluster import RunningCluster
from tests.support.effort import is_long
from tests.support.failing_disk import FailingDisk
from tests.support.system_shim import SystemShim

HOUR_S = 3600
WITH_DISK = 3  # the broker whose disk can fail

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not is_long(), reason="long: make chaos"),
    pytest.mark.skipif(
        not zookeeper.available(), reason="needs Java and ZooKeeper's jars (pip install headrace[spark])"
    ),
    pytest.mark.skipif(system_shim.why_not() is not None, reason=str(system_shim.why_not())),
    pytest.mark.skipif(failing_disk.why_not() is not None, reason=str(failing_disk.why_not())),
]


@pytest.fixture(scope="module")
def shims(tmp_path_factory: pytest.TempPathFactory) -> dict[int, SystemShim]:
    return {number: SystemShim(tmp_path_factory.mktemp("shim")) for number in (1, 2, 3)}


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FailingDisk]:
    with FailingDisk(tmp_path_factory.mktemp("disks") / "one") as mounted:
        yield mounted


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, shims: dict[int, SystemShim], disk: FailingDisk
) -> Iterator[RunningCluster]:
    directory = tmp_path_factory.mktemp("cluster")
    with ExitStack() as stack:
        running = RunningCluster(directory, within=lambda number: shims[number].command)
        running.data_dir(WITH_DISK).symlink_to(disk.directory, target_is_directory=True)
        yield stack.enter_context(running)


@pytest.fixture(autouse=True)
def as_before(shims: dict[int, SystemShim]) -> Iterator[None]:
    yield
    for shim in shims.values():
        shim.set()


@pytest.mark.parametrize("hours", [36, -0.8], ids=["forwards", "backwards"])
def test_no_record_is_lost_when_the_clock_of_a_leader_jumps(
    cluster: RunningCluster, shims: dict[int, SystemShim], topic: str, hours: float
) -> None:
    """The clock jumps by less than the retention time, and not so far back that the broker rejects current
    records as future ones (message.timestamp.after.max.ms, an hour). Then it is corrected."""
    with client_load(cluster, topic) as load:
        load.wait_for_acks(100)
        leader = cluster.leader(topic)
        load.listen()
        shims[leader].set(clock_s=hours * HOUR_S)
        load.wait_for_acks(600)
        assert cluster.leader(topic) == leader, "a wrong clock is no reason to stop leading"
        cluster.brokers[cluster.others(leader)[0]].kill()
        load.wait_for_acks(100)
        cluster.heal()
        cluster.wait_in_sync(topic)
        shims[leader].set()
        load.wait_for_acks(300)
        # Restarts with a wrong clock again.
        shims[leader].set(clock_s=-0.5 * HOUR_S)
        cluster.brokers[leader].kill()
        cluster.heal()
        cluster.wait_in_sync(topic)
        load.wait_for_acks(100)
        conclude(cluster, load, topic=topic)


def test_no_record_is_lost_when_flushes_stall(
    cluster: RunningCluster, shims: dict[int, SystemShim], topic: str
) -> None:
    with client_load(cluster, topic) as load:
        leader = cluster.leader(topic)
        shims[cluster.others(leader)[0]].set(flush_s=1.5)
        load.wait_for_acks(400)
        shims[leader].set(flush_s=1.5)
        load.wait_for_acks(400)
        cluster.brokers[leader].kill()
        load.wait_for_acks(100)
        cluster.heal()
        for shim in shims.values():
            shim.set()
        conclude(cluster, load, topic=topic)


@pytest.mark.needs("kafka", "javac")
def test_a_disk_becomes_read_only_and_is_replaced_by_an_empty_one(
    cluster: RunningCluster, disk: FailingDisk, topic: str
) -> None:
    """Its broker has no other disk: it stops, other brokers lead, and it returns and copies everything."""
    with JavaLoad(cluster, topic) as java, Load(cluster, topic) as load:
        load.wait_for_acks(200)
        broker = cluster.brokers[WITH_DISK]
        assert any(info.leader == WITH_DISK for info in cluster.metadata(topic).values())
        disk.fail()
        assert broker.process is not None
        wait_for(lambda: not broker.is_running, "the broker to stop")
        assert broker.process.returncode != 0, "a broker that lost its disk did not stop cleanly"
        broker.kill()
        load.wait_for_acks(200)
        java.wait_for_acks(200)
        disk.replace()
        broker.start()
        cluster.wait_in_sync(topic)
        # The broker that had lost everything takes over.
        for number in cluster.others(WITH_DISK):
            cluster.brokers[number].kill()
            cluster.heal()
            cluster.wait_in_sync(topic)
        load.wait_for_acks(100)
        java.wait_for_acks(100)
        conclude(cluster, load, java, topic=topic)


def test_the_leader_dies_while_an_emptied_follower_catches_up(
    cluster: RunningCluster, disk: FailingDisk, topic: str
) -> None:
    """The disk is replaced while the broker is stopped, cleanly or not. The broker must not treat an empty disk
    as a complete one.
    """
    with client_load(cluster, topic) as load:
        for in_order in (True, False):
            load.wait_for_acks(300)
            broker = cluster.brokers[WITH_DISK]
            broker.stop() if in_order else broker.kill()
            disk.replace()
            broker.start()
            victim = next(n for n in cluster.others(WITH_DISK) if cluster.leader(topic) == n)
            cluster.brokers[victim].kill()
            time.sleep(cluster.session_timeout_s + 1)  # the fault: long enough that another broker must lead
            cluster.heal()
            cluster.wait_in_sync(topic)
        load.wait_for_acks(100)
        conclude(cluster, load, topic=topic)
