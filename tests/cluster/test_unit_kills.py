"""`kill -9` of single processes and of a whole unit under load with acks=all: the history has no lost, moved or doubled
record, and none that the group did not get.

`make test` runs a few cycles. With `HEADRACE_EFFORT=long` the test runs 200 kills of single processes and 25 of the
whole unit; docs/reliability.md has the last figures. `HEADRACE_ROUNDS=40` runs 40 and 5, `HEADRACE_SEED=7`
chooses others, and `MINUTES=4` ends the run earlier. Topics have one replica, as by default in a unit: a killed process
comes back with its logs, because the system keeps what it has written.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing.chaos.history import check
from tests.cluster.load import Load
from tests.support.clock import Stopwatch
from tests.support.effort import is_long, rounds
from tests.support.names import unique
from tests.support.unit import RunningUnit

CORES = 3
ONE = rounds(short=2, long=200)
ALL = max(1, ONE // 8)
MOST_S = 60 * float(os.environ.get("MINUTES") or "inf")
SETTINGS = {"replica.lag.time.max.ms": "4000", "replica.fetch.backoff.ms": "200"}

pytestmark = pytest.mark.timeout(600 + 30 * (ONE + ALL))


@pytest.fixture
def unit(tmp_path: Path) -> Iterator[RunningUnit]:
    with RunningUnit(tmp_path, CORES, SETTINGS) as running:
        yield running


@pytest.mark.parametrize("replicas", [1, 2] if is_long() else [1])
def test_no_record_is_lost_when_processes_or_the_whole_unit_are_killed(unit: RunningUnit, replicas: int) -> None:
    chance = random.Random(f"{os.environ.get('HEADRACE_SEED', '0')}-{replicas}")
    topic = unique("killed")
    unit.create_topic(topic, 6, {"min.insync.replicas": str(replicas)}, replicas=replicas)
    silences: dict[str, list[float]] = {"one process": [], "the whole unit": []}
    turns = ["one process"] * ONE + ["the whole unit"] * ALL
    chance.shuffle(turns)
    watch = Stopwatch()
    with Load(unit, topic, rate=200) as load:
        for turn in turns:
            if watch.has_run(MOST_S):
                break
            load.listen()
            if turn == "one process":
                unit.kill_one(chance)
            else:
                unit.kill_all()
                unit.start(CORES)
            unit.wait_in_sync(topic)
            silences[turn].append(load.silence_s())
        load.stop_writing()
        anomalies = check(load.finish())
        assert not anomalies, str(anomalies)
        assert not load.failed, load.failed[:5]
        assert load.acked > 100
    assert unit.stop() == 0
    for what, seen in silences.items():
        ordered = sorted(seen) or [0.0]
        print(
            f"kill -9 of {what}, {replicas} replicas: {len(seen)} times, without writes on a partition for "
            f"{ordered[len(ordered) // 2]:.2f} s (median), {ordered[-1]:.2f} s at most"
        )
    print(f"{load.acked} records acknowledged, none lost, moved, doubled or undelivered; no failed write")
