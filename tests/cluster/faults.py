"""The check that ends every fault test, damage to files, and faults that are drawn at random."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from headrace.testing.chaos.history import check
from tests.cluster.load import Load
from tests.support import network
from tests.support.clock import Stopwatch, wait_for
from tests.support.cluster import RunningCluster
from tests.support.network import STORE, Network
from tests.support.secured_cluster import SecuredCluster
from tests.support.unit_cluster import IS_UNIT, UnitCluster

IS_SECURED: Final = bool(os.environ.get("SECURED"))
NO_NETWORK: Final = "a unit is on one host: it has no link to cut" if IS_UNIT else network.why_not()
MIN_ACKED = 300
# Limit for one load. Client deadlocks are rare, so more of them would point to another cause.
MAX_DEADLOCKED = 5


def fault_cluster(
    directory: Path,
    *,
    links: Network | None = None,
    settings: Mapping[str, str] | None = None,
    own: Callable[[int], Mapping[str, str]] = lambda _: {},
) -> RunningCluster:
    """Three brokers with ZooKeeper, or with UNIT=1 a unit of three processes, or with SECURED=1 brokers with TLS, SCRAM
    and ACLs."""
    if IS_UNIT:
        return UnitCluster(directory, settings=settings)
    if IS_SECURED:
        return SecuredCluster(directory, network=links)
    return RunningCluster(directory, network=links, settings=settings, own=own)


def conclude(cluster: RunningCluster, *given: Load, topic: str) -> None:
    loads = [part for load in given for part in load.parts]
    for load in loads:
        load.stop_writing()
    for load in loads:
        anomalies = check(load.finish())
        assert not anomalies, str(anomalies)
        assert not load.failed, load.failed[:5]
        assert load.acked >= MIN_ACKED, f"void: only {load.acked} records were acknowledged"
        if load.deadlocked:
            print(f"{load.deadlocked} of the group's clients deadlocked and were replaced", flush=True)
        assert load.deadlocked <= MAX_DEADLOCKED, f"void: {load.deadlocked} clients deadlocked"
    same_bytes(cluster, topic)


def same_bytes(cluster: RunningCluster, topic: str) -> None:
    """All replicas hold the same segments, byte for byte."""

    def logs(partition: int) -> list[dict[str, bytes]]:
        found = []
        for broker in cluster.brokers.values():
            directory = broker.data_dir / f"{topic}-{partition}"
            found.append({path.name: path.read_bytes() for path in sorted(directory.glob("*.log"))})
        return found

    for partition in cluster.metadata(topic):
        wait_for(
            lambda partition=partition: len({b"".join(one.values()) for one in logs(partition)}) == 1,
            f"the same bytes in all replicas of {topic}-{partition}",
        )


def controller_of(cluster: RunningCluster) -> int:
    def known() -> int | None:
        client = cluster.admin()
        found = client.list_topics(timeout=5).controller_id
        return found if found > 0 else None

    return int(wait_for(known, "a controller"))


def set_config(cluster: RunningCluster, topic: str, **values: str) -> None:
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in values.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    admin = cluster.admin()  # must stay alive until the answer
    admin.incremental_alter_configs([resource])[resource].result(60)


def cut_newest_segments(data_dir: Path, topic: str) -> None:
    """Removes the last third of each partition's newest segment, in the middle of a batch."""
    cut = 0
    for directory in data_dir.glob(f"{topic}-*"):
        newest = max(directory.glob("*.log"))
        size = newest.stat().st_size
        with newest.open("r+b") as file:
            file.truncate(size * 2 // 3)
        cut += size - newest.stat().st_size
    assert cut > 0, "there was nothing to cut"


def flip_newest_segments(data_dir: Path, topic: str) -> None:
    """Changes one byte in the middle of each partition's newest segment."""
    flipped = 0
    for directory in data_dir.glob(f"{topic}-*"):
        newest = max(directory.glob("*.log"))
        data = bytearray(newest.read_bytes())
        if data:
            data[len(data) // 2] ^= 0x40
            newest.write_bytes(data)
            flipped += 1
    assert flipped > 0, "there was nothing to flip"


# Drawn at random: each leaves the cluster broken, `RunningCluster.heal` repairs it


def kill_all(cluster: RunningCluster, *_: object) -> None:
    cluster.kill_all()


def kill_leader(cluster: RunningCluster, topic: str, chance: random.Random) -> None:
    cluster.brokers[cluster.leader(topic, chance.randrange(3))].kill(with_companion=chance.random() < 0.5)
    time.sleep(chance.uniform(0, cluster.session_timeout_s + 2))


def kill_someone(cluster: RunningCluster, topic: str, chance: random.Random) -> None:
    cluster.brokers[chance.choice(list(cluster.brokers))].kill(with_companion=chance.random() < 0.5)
    time.sleep(chance.uniform(0, cluster.session_timeout_s + 2))


def kill_controller(cluster: RunningCluster, topic: str, chance: random.Random) -> None:
    cluster.brokers[controller_of(cluster)].kill(with_companion=chance.random() < 0.5)
    time.sleep(chance.uniform(0, cluster.session_timeout_s + 2))


def kill_two_leaders(cluster: RunningCluster, topic: str, chance: random.Random) -> None:
    partition = chance.randrange(3)
    first = cluster.leader(topic, partition)
    cluster.brokers[first].kill(with_companion=chance.random() < 0.5)
    watch = Stopwatch()
    while not watch.has_run(15):
        now = cluster.leader(topic, partition)
        if now != first:
            cluster.brokers[now].kill()
            return
        time.sleep(0.02)


def freeze(cluster: RunningCluster, topic: str, chance: random.Random) -> None:
    cluster.brokers[cluster.leader(topic, chance.randrange(3))].pause()
    time.sleep(chance.uniform(0.5, cluster.session_timeout_s + 3))


def stop_store(cluster: RunningCluster, topic: str, chance: random.Random) -> None:
    cluster.kill_store()
    time.sleep(chance.uniform(0, cluster.session_timeout_s + 2))
    cluster.start_store()


def restart_one(cluster: RunningCluster, topic: str, chance: random.Random) -> None:
    broker = cluster.brokers[chance.choice(list(cluster.brokers))]
    broker.stop()
    broker.start()


def cut_from_zookeeper(cluster: RunningCluster, topic: str, chance: random.Random) -> None:
    _cut(cluster, cluster.leader(topic, chance.randrange(3)), [STORE], chance)
    time.sleep(chance.uniform(1, cluster.session_timeout_s + 3))


def cut_from_others(cluster: RunningCluster, topic: str, chance: random.Random) -> None:
    leader = cluster.leader(topic, chance.randrange(3))
    others = cluster.others(leader)
    _cut(cluster, leader, chance.sample(others, chance.randint(1, len(others))), chance)
    time.sleep(chance.uniform(1, 7))


def _cut(cluster: RunningCluster, broker: int, others: list[int], chance: random.Random) -> None:
    assert cluster.network is not None
    incoming, outgoing = chance.choice([(True, True), (True, False), (False, True)])
    cluster.network.cut(broker, others, incoming=incoming, outgoing=outgoing)


def lose_tail(cluster: RunningCluster, topic: str, chance: random.Random) -> None:
    """Only while the other replicas are healthy: records that are damaged on every replica cannot survive."""
    cluster.wait_in_sync(topic)
    broker = cluster.brokers[chance.choice(cluster.others(cluster.leader(topic)))]
    broker.kill()
    cut_newest_segments(broker.data_dir, topic)
    broker.start()
    cluster.wait_in_sync(topic)


Fault = Callable[[RunningCluster, str, random.Random], None]
CUTS: Final[tuple[Fault, ...]] = (cut_from_zookeeper, cut_from_others)
FAULTS: Final[tuple[Fault, ...]] = (
    kill_leader,
    kill_someone,
    kill_controller,
    kill_all,
    kill_two_leaders,
    freeze,
    stop_store,
    restart_one,
    lose_tail,
    *CUTS,
)
