"""A unit of broker processes on one host (`headrace start --cores N`): it grows and shrinks with all records, starts
dead processes again, stops with one signal, and refuses the starts that would lose something."""

from __future__ import annotations

import os
import random
import signal
import socket
import urllib.request
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.net.free_ports import free_port
from headrace.storage.dirs.identity import Identity, StoreOwner, read_identity, write_identity
from tests.support.clock import Stopwatch, wait_for
from tests.support.effort import is_long, rounds
from tests.support.unit import RunningUnit, is_running, refusal

TOPIC = "kept"
PARTITIONS = 4


def produce(unit: RunningUnit, count: int, first: int = 0) -> None:
    failed: list[object] = []
    producer = Producer({**unit.client, "linger.ms": 0, "acks": "all", "enable.idempotence": True})
    for number in range(first, first + count):
        producer.produce(
            TOPIC,
            str(number).encode(),
            partition=number % PARTITIONS,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(60) == 0 and not failed, failed


def all_records(unit: RunningUnit) -> list[int]:
    consumer = Consumer(
        {**unit.client, "group.id": "reader", "enable.auto.commit": False, "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
    seen, ends = [], 0
    while ends < PARTITIONS:
        message = consumer.poll(30)
        assert message is not None, "no answer within 30 s"
        if message.error() is None:
            seen.append(int(message.value()))
        else:
            assert message.error().name() == "_PARTITION_EOF", message.error()
            ends += 1
    consumer.close()
    return sorted(seen)


def test_a_broker_grows_to_a_unit_and_shrinks_again_with_all_records(tmp_path: Path) -> None:
    metrics = free_port()
    with RunningUnit(tmp_path, None, {"metrics.listen": f"127.0.0.1:{metrics}", "broker.rack": ""}) as unit:
        unit.create_topic(TOPIC, PARTITIONS)
        produce(unit, 100)
        assert unit.stop() == 0

        # One process becomes two: half of the partitions move.
        unit.start(2)
        unit.wait_for_output(r"moved (\d+) of \1 partitions")
        assert sorted(unit.leaders(TOPIC)) == [0, 0, 1, 1]
        produce(unit, 100, 100)
        assert all_records(unit) == list(range(200))
        unit.create_topic("new", 6)
        assert sorted(unit.leaders("new")) == [0, 0, 0, 1, 1, 1]
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics", timeout=20) as answer:
            text = answer.read().decode()
        assert f"kafka_server_replicamanager_leadercount {10 + 5}.0" in text, "the sum, with five of the offsets"
        assert "kafka_controller_kafkacontroller_globaltopiccount 3.0" in text, "not twice"

        # A killed process is started again within a second.
        before, watch = unit.children(), Stopwatch()
        os.kill(before[1], signal.SIGKILL)
        wait_for(lambda: set(unit.children()) - set(before), "a new process", poll=0.01)
        watch.at_most(1, because="the supervisor starts it again at once")
        produce(unit, 100, 200)
        assert all_records(unit) == list(range(300))
        children = unit.children()
        assert unit.stop() == 0
        assert not any(Path(f"/proc/{pid}").exists() for pid in children), "one stop stops all"

        # Parts of a unit do not serve alone.
        assert "belongs to the first process of a unit, and broker 1 of the unit has a share" in refusal(
            unit.data, None
        )
        assert "a process of the unit of cluster" in refusal(unit.data / "process.1", None)
        moved_away = tmp_path / "elsewhere"
        (unit.data / "process.1").rename(moved_away)
        assert "is missing: restore it, or mount its disk" in refusal(unit.data, 2)
        moved_away.rename(unit.data / "process.1")
        (unit.data / ".coordination").rename(moved_away)
        assert "the coordination store of broker 0 is in none of its log directories" in refusal(unit.data, 2)
        moved_away.rename(unit.data / ".coordination")

        # Two processes become one, which a later start serves alone.
        unit.start(1, until=r"started in \d+ ms\)\n(.*\n)*.*serves [^,]* \(data in .*; started in")
        assert "all partitions are on 1 process" in unit.output
        assert unit.leaders(TOPIC) == [0, 0, 0, 0]
        assert all_records(unit) == list(range(300))
        assert unit.stop() == 0
        unit.start(None)
        assert all_records(unit) == list(range(300))
        assert unit.stop() == 0
    identity = read_identity(unit.data)
    assert identity is not None and identity.home is not None and identity.home.kind == "embedded"


def test_the_processes_of_a_killed_supervisor_stop_and_the_next_one_waits_for_them(tmp_path: Path) -> None:
    with RunningUnit(tmp_path, 2) as unit:
        unit.create_topic(TOPIC, PARTITIONS)
        produce(unit, 50)
        assert unit.process is not None
        children = unit.children()
        unit.process.kill()
        unit.process.wait()
        unit.process = None
        unit.start(2)
        assert not any(is_running(pid) for pid in children)
        produce(unit, 50, 50)
        assert all_records(unit) == list(range(100))
        assert unit.stop() == 0


def test_starts_that_cannot_work_are_refused_with_a_sentence(tmp_path: Path) -> None:
    """`tests/unit/unit` has the other wrong settings."""
    data = tmp_path / "data"
    assert "broker.processes='0': must be a number from 1 to 256, or auto" in refusal(data, 0)
    taken = free_port()
    with socket.socket() as other:
        other.bind(("127.0.0.1", taken))
        other.listen()
        assert f"needs the ports {taken - 1} to {taken} on 127.0.0.1, and {taken} cannot be used" in refusal(
            data, 2, taken - 1
        )
    assert not (data / ".coordination").exists(), "nothing was written"
    # A directory of another unit in the place of a process.
    (data / "process.1").mkdir()
    write_identity(data / "process.1", Identity(1, "another-unit", uuid.uuid4(), StoreOwner("unit", "")))
    said = refusal(data, 2)
    assert "process.1 belongs to broker 1 of cluster another-unit, this unit to a new cluster" in said
    assert not (data / "meta.properties").exists(), "no process has started"


@pytest.mark.skipif(not is_long(), reason="long: HEADRACE_EFFORT=long")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(rounds(short=1, long=2)))
def test_a_unit_killed_while_it_grows_and_shrinks_keeps_all_records(tmp_path: Path, seed: int) -> None:
    """kill -9 of all processes at a random moment of the moves; the next start has another number of processes."""
    chance = random.Random(seed)
    with RunningUnit(tmp_path, None, {"offsets.topic.num.partitions": "30"}) as unit:
        unit.create_topic(TOPIC, PARTITIONS)
        unit.create_topic("many", 40)
        written = 0
        for _ in range(8):
            produce(unit, 20, written)
            written += 20
            moment, watch = chance.uniform(0, 2.5), Stopwatch()
            wait_for(lambda moment=moment, watch=watch: watch.has_run(moment), "the moment of the kill", poll=0.01)
            unit.kill_all()
            unit.start(chance.choice((1, 2, 3)))
            unit.wait_in_sync(TOPIC)
        assert all_records(unit) == list(range(written))
        unit.kill_all()
        unit.start(1, until=r"serves [^,]* \(data in [^;]*; started in")
        assert all_records(unit) == list(range(written))
        assert unit.stop() == 0
