"""`kill -9` of a broker whose replicas move between two log directories, under load with acks=all: the history has no
lost, moved or doubled record, every partition is in one directory at the end, and every move is finished.

`HEADRACE_EFFORT=long` runs 25 kills. `tests/unit/replication/test_replica_moves.py` kills the process before each file
call of a move instead.
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headrace.client.connection import Connection
from headrace.testing.chaos.history import Value, check
from headrace.wire.apis import ApiKey
from tests.cluster.load import Load
from tests.support.clock import Stopwatch, wait_for
from tests.support.effort import is_long, rounds
from tests.support.names import unique
from tests.support.unit import RunningUnit

KILLS = rounds(short=2, long=25)
PARTITIONS = 4
THROTTLE = "replica.alter.log.dirs.io.max.bytes.per.second"

pytestmark = [
    pytest.mark.skipif(not is_long(), reason="long: HEADRACE_EFFORT=long"),
    pytest.mark.timeout(300 + 30 * KILLS),
]


class Disks:
    """The log directories `a` and `b` of one broker."""

    def __init__(self, directory: Path) -> None:
        self.paths = [directory / "a", directory / "b"]

    @property
    def setting(self) -> str:
        return ",".join(map(str, self.paths))

    def of(self, topic: str, partition: int) -> list[Path]:
        return [path for path in self.paths if (path / f"{topic}-{partition}").is_dir()]

    def copies(self) -> list[Path]:
        """The copies of replicas that are on their way."""
        return [found for path in self.paths for found in path.glob("*-future")]


def move(unit: RunningUnit, topic: str, partition: int, target: Path) -> int:
    """Asks for a move. Returns the error code."""

    async def ask() -> int:
        connection = await Connection.open("127.0.0.1", unit.port)
        try:
            wanted = {"path": str(target), "topics": [{"name": topic, "partitions": [partition]}]}
            answer = await connection.request(ApiKey.ALTER_REPLICA_LOG_DIRS, {"dirs": [wanted]})
            return int(answer.results[0].partitions[0].error_code)
        finally:
            await connection.close()

    return asyncio.run(ask())


def fill(unit: RunningUnit, topic: str) -> None:
    """About 2 MB in each partition."""
    producer = Producer({**unit.client, "acks": "all"})
    for number in range(40 * PARTITIONS):
        producer.produce(
            topic, Value("filler", number).encode(), key=random.randbytes(50_000), partition=number % PARTITIONS
        )
    assert producer.flush(60) == 0


def test_no_record_is_lost_when_a_broker_is_killed_while_its_replicas_move(tmp_path: Path) -> None:
    chance = random.Random(os.environ.get("HEADRACE_SEED", "0"))
    disks, topic = Disks(tmp_path), unique("moved")
    settings = {"log.dirs": disks.setting, THROTTLE: "70000"}  # a move takes several seconds
    during, moves = 0, 0
    with RunningUnit(tmp_path, None, settings) as unit:
        unit.create_topic(topic, PARTITIONS, {"segment.ms": "1000", "file.delete.delay.ms": "1000"})
        fill(unit, topic)
        with Load(unit, topic, rate=800) as load:
            for number in range(KILLS):
                for partition in chance.sample(range(PARTITIONS), 2):
                    [home] = disks.of(topic, partition)
                    moves += 1
                    assert move(unit, topic, partition, next(path for path in disks.paths if path != home)) == 0
                moment, watch = chance.uniform(0, 1.5), Stopwatch()
                wait_for(lambda moment=moment, watch=watch: watch.has_run(moment), "the moment of the kill", poll=0.01)
                unit.kill_all()
                during += bool(disks.copies())
                if number == KILLS - 1:
                    unit.settings[THROTTLE] = "50000000"  # all moves end
                unit.start(None)
                unit.wait_in_sync(topic)
            wait_for(lambda: not disks.copies(), "the last moves to end")
            load.stop_writing()
            anomalies = check(load.finish())
            assert not anomalies, str(anomalies)
            assert not load.failed, load.failed[:5]
        assert [len(disks.of(topic, partition)) for partition in range(PARTITIONS)] == [1] * PARTITIONS
        assert unit.stop() == 0
    assert during > KILLS // 4, f"only {during} of {KILLS} kills met a move"
    print(
        f"{KILLS} kills, {during} of them while a copy existed; {moves} moves asked; {load.acked} records acknowledged"
    )
