"""Brokers are killed and restarted hundreds of times: `make chaos CYCLES=200` (docs/reliability.md has the last
figures).

A cycle kills a random broker with kill -9, restarts it and waits until it is in sync again, under load all the time.
Every eighth cycle kills all three brokers at once. The test checks the history of the whole run at the end.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.cluster.faults import conclude, kill_all
from tests.cluster.load import Load
from tests.support import zookeeper
from tests.support.cluster import RunningCluster

CYCLES = int(os.environ.get("CYCLES") or 0)
SEED = int(os.environ.get("CHAOS_SEED") or 1)
ASKED_SESSION_S = 6

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.timeout(600 + 60 * CYCLES),
    pytest.mark.skipif(CYCLES == 0, reason="long: make chaos CYCLES=200"),
    pytest.mark.skipif(
        not zookeeper.available(), reason="needs Java and ZooKeeper's jars (pip install headrace[spark])"
    ),
]


@pytest.fixture
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RunningCluster]:
    settings = {"zookeeper.session.timeout.ms": str(request.param)}
    with RunningCluster(tmp_path, settings=settings) as running:
        yield running


def told(what: str, silences: Sequence[float]) -> None:
    ordered = sorted(silences)
    middle = ordered[len(ordered) // 2]
    print(f"{what}: {len(ordered)} times, without writes for {middle:.2f} s (median), {ordered[-1]:.2f} s at most")


@pytest.mark.parametrize("cluster", [1500], indirect=True, ids=["session-1.5s"])
def test_no_record_is_lost_in_kill_cycles(cluster: RunningCluster, topic: str) -> None:
    chance = random.Random(SEED)
    alone: list[float] = []
    machine: list[float] = []
    together: list[float] = []
    with Load(cluster, topic, rate=200) as load:
        for cycle in range(1, CYCLES + 1):
            # In turn the process alone, and a crash of its machine: then its ZooKeeper session has to time out.
            one, is_machine = (alone, False) if cycle % 2 else (machine, True)
            for silences, everyone in ((one, False), (together, True)):
                if everyone and cycle % 8:
                    continue
                load.listen()
                if everyone:
                    kill_all(cluster)
                else:
                    cluster.brokers[chance.choice(list(cluster.brokers))].kill(with_companion=is_machine)
                cluster.heal()
                cluster.wait_in_sync(topic)
                silences.append(load.silence_s())
            if cycle % 10 == 0:
                print(f"cycle {cycle}: {load.acked} acknowledged", flush=True)
        conclude(cluster, load, topic=topic)
    told("kill -9 of one broker, restarted at once", alone)
    if machine:
        told("kill -9 of one broker and its companion, restarted at once", machine)
    if together:
        told("kill -9 of all three, restarted at once", together)
    print(f"{load.acked} records acknowledged, none lost, moved, doubled, disordered or undelivered; no failed write")


@pytest.mark.parametrize("cluster", [ASKED_SESSION_S * 1000], indirect=True, ids=["session-6s"])
def test_duration_of_write_outages(cluster: RunningCluster, topic: str) -> None:
    killed: list[float] = []
    machine: list[float] = []
    restarted: list[float] = []
    with Load(cluster, topic) as load:
        for turn in range(6):
            leader = cluster.leader(topic, turn % 3)
            load.listen()
            cluster.brokers[leader].kill(with_companion=turn % 2 == 0)
            (killed if turn % 2 else machine).append(load.silence_s())
            cluster.heal()
            cluster.wait_in_sync(topic)
            # The brokers in turn: the third restart completes a rolling one.
            load.listen()
            broker = cluster.brokers[1 + turn % 3]
            assert broker.stop() == 0
            broker.start()
            cluster.wait_in_sync(topic)
            restarted.append(load.silence_s())
        conclude(cluster, load, topic=topic)
    told(f"kill -9 of a leader, session of {ASKED_SESSION_S} s", killed)
    told("kill -9 of a leader and its companion", machine)
    told("clean restart of a broker", restarted)
    print(f"{load.acked} records acknowledged, no failed write")
    assert max(killed + machine) <= ASKED_SESSION_S + 2, (killed, machine)
    assert max(killed) < min(machine), (killed, machine)
