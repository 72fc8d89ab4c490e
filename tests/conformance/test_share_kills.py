"""Java members of a share group are killed under load, and the broker too.

Every record is accepted, no two members hold one record at the same time, no accepted record is delivered again, and
the delivery counts are right.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headrace.testing import broker_process
from tests.conformance.test_share_groups import from_the_start, make_topic, offsets
from tests.reference.kafka import java_command
from tests.support.clock import PATIENCE_S, Stopwatch
from tests.support.effort import is_long

pytestmark = [
    pytest.mark.needs("kafka"),
    pytest.mark.needs("javac"),
    pytest.mark.skipif(not is_long(), reason="takes minutes (HEADRACE_EFFORT=long)"),
]

LOCK_MS = 8_000
# Two processes may log events in another order than they happened, by at most this time.
SLACK_MS = 300
PARTITIONS, ROUNDS, ROUND_SECONDS = 3, 3, 12.0


@dataclass(frozen=True)
class Told:
    what: str
    at_ms: int
    record: tuple[int, int]
    deliveries: int


class Member(threading.Thread):
    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.told: list[Told] = []
        self.killed_at_ms = float("inf")
        source = Path(__file__).with_name("share") / "WorkingMember.java"
        command = java_command(str(source), bootstrap, "jobs", "workers")
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.start()

    def run(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            words = line.split()
            if len(words) == 5:
                what, *numbers = words
                at_ms, partition, offset, deliveries = map(int, numbers)
                self.told.append(Told(what, at_ms, (partition, offset), deliveries))

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self.killed_at_ms = time.time() * 1000
        self.join(30)


def produce_until(stop: threading.Event, bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 20, "log_level": 0})
    number = 0
    while not stop.is_set():
        for _ in range(15):
            producer.produce("jobs", b"x", partition=number % PARTITIONS)
            number += 1
        producer.poll(0)
        time.sleep(0.05)
    assert producer.flush(60) == 0


@pytest.mark.parametrize("kill_broker", [False, True], ids=["members", "members and broker"])
def test_every_record_is_accepted_although_members_are_killed(tmp_path: Path, kill_broker: bool) -> None:
    settings = {"group.share.min.record.lock.duration.ms": "1000"}
    with broker_process(settings, data_dir=tmp_path / "data") as process:
        make_topic(process.bootstrap, "jobs", PARTITIONS)
        from_the_start(
            process.bootstrap,
            "workers",
            **{"share.record.lock.duration.ms": str(LOCK_MS), "share.delivery.count.limit": "10"},
        )
        stop = threading.Event()
        load = threading.Thread(target=produce_until, args=(stop, process.bootstrap))
        load.start()
        members = [Member(process.bootstrap) for _ in range(2)]
        try:
            for round_number in range(ROUNDS):
                time.sleep(ROUND_SECONDS)
                members[round_number].kill()
                members.append(Member(process.bootstrap))
                if kill_broker:
                    process.kill()
                    process.start()
            stop.set()
            load.join(90)
            wait_until_all_is_accepted(process.bootstrap)
        finally:
            stop.set()
            for member in members:
                member.kill()
        ends = {int(partition): int(start) for partition, (start, _) in offsets(process.bootstrap, "workers").items()}
    assert sum(ends.values()) > 1_000
    check(members, ends, counts=not kill_broker)


@dataclass
class Delivery:
    got: Told
    member: Member
    # Outcome at this member: the acknowledgement that it was about to send, whether the broker confirmed it, and when.
    then: dict[str, int] = field(default_factory=dict)

    @property
    def over_ms(self) -> float:
        """Time from which another member may acquire the record."""
        return min([self.got.at_ms + LOCK_MS, self.member.killed_at_ms, *self.then.values()])


def wait_until_all_is_accepted(bootstrap: str) -> None:
    """Waits while records are missing: killed members keep their partitions until their sessions time out (45 s)."""
    stood, since_move = offsets(bootstrap, "workers"), Stopwatch()
    while {lag for _, lag in stood.values()} != {"0"}:
        stands = offsets(bootstrap, "workers")
        if stands != stood:
            stood = stands
            since_move.restart()
        assert not since_move.has_run(PATIENCE_S), f"no member accepts records: {stood}"


def check(members: list[Member], ends: dict[int, int], *, counts: bool) -> None:
    deliveries: dict[tuple[int, int], list[Delivery]] = defaultdict(list)
    for member in members:
        newest: dict[tuple[int, int], Delivery] = {}
        for told in member.told:
            if told.what == "got":
                newest[told.record] = Delivery(told, member)
                deliveries[told.record].append(newest[told.record])
            else:
                newest[told.record].then[told.what] = told.at_ms
    assert set(deliveries) == {(p, offset) for p, end in ends.items() for offset in range(end)}, "a record was lost"
    for record, handed in deliveries.items():
        handed.sort(key=lambda each: each.got.at_ms)
        assert any("accepts" in each.then for each in handed), f"{record} was not accepted"
        for before, after in pairwise(handed):
            assert not {"accepts", "said"} <= set(before.then), f"{record} came again"
            if counts:
                assert after.got.at_ms > before.over_ms - SLACK_MS, f"{record} is with two members"
                assert after.got.deliveries == before.got.deliveries + 1, f"{record}: {handed}"
