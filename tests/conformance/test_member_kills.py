"""Groups of Java's classic consumer and of kafkajs under load, while members join, leave and die by kill -9.

The group reads every record at least once, and no two members read one partition at the same time. Takes minutes:
`HEADRACE_EFFORT=long pytest -s tests/conformance/test_member_kills.py` prints the events. `HEADRACE_SEED=1` draws
other events.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing import RunningBroker, broker
from tests.conformance.test_kafkajs import PLACE, SOURCE
from tests.conformance.test_kafkajs import project as project
from tests.support.clock import wait_for
from tests.support.effort import is_long, rounds
from tests.support.group_watch import Load, MemberProcess, Told, problems_of
from tests.support.java_client import compiled

PARTITIONS = 12
MEMBERS = 4
SESSION_MS = 3_000
ASSIGNORS = {
    "range": "RangeAssignor",
    "round-robin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}
Start = Callable[[int, int], MemberProcess]


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    with broker({"group.min.session.timeout.ms": "1000", "group.initial.rebalance.delay.ms": "100"}) as started:
        yield started


def java_member(
    bootstrap: str,
    topic: str,
    directory: Path,
    assignor: str,
    *,
    static: bool = False,
    slow: bool = False,
    new_protocol: bool = False,
) -> Start:
    classes = compiled("GroupMember")
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": f"g-{topic}",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": "false",
        "metadata.max.age.ms": "2000",
    }
    if new_protocol:
        settings |= {"group.protocol": "consumer", "group.remote.assignor": assignor}
    else:
        settings |= {
            "group.protocol": "classic",
            "partition.assignment.strategy": f"org.apache.kafka.clients.consumer.{ASSIGNORS[assignor]}",
            "session.timeout.ms": str(SESSION_MS),
            "heartbeat.interval.ms": "300",
        }
    java = ["java", "-Xmx64m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
    java += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", classes, "GroupMember", topic]

    def start(place: int, number: int) -> MemberProcess:
        own = dict(settings)
        if static:
            own["group.instance.id"] = f"place-{place}"
        if slow and place == 0:
            own |= {"max.poll.interval.ms": "2000", "slow.ms": "5000"}
        return MemberProcess(f"{place}.{number}", [*java, *(f"{k}={v}" for k, v in own.items())], directory)

    return start


def play(
    bootstrap: str, topic: str, start: Start, steps: int, *, static: bool = False, late: frozenset[int] = frozenset()
) -> str:
    """At every step a member dies, leaves or joins. Returns the events, or fails."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(60)
    choice = random.Random(f"{os.environ.get('HEADRACE_SEED', '0')}-{steps}")
    load = Load(bootstrap, topic, PARTITIONS, per_second=1_500)
    alive: dict[int, MemberProcess] = {}
    ended: list[MemberProcess] = []
    happened = {"killed": 0, "left": 0, "came": 0}

    def come(place: int) -> None:
        alive[place] = start(place, happened["came"])
        happened["came"] += 1

    def go(place: int, how: signal.Signals) -> None:
        member = alive.pop(place)
        member.end(how)
        ended.append(member)
        happened["killed" if how is signal.SIGKILL else "left"] += 1

    try:
        for place in range(MEMBERS):
            come(place)
        for _ in range(steps):
            # A step begins when the group is stable after the last one: every member reads, or has no partition.
            wait_for_members(lambda: all(each.has_partitions for each in alive.values()), alive)
            time.sleep(choice.uniform(0, 0.5))  # at a random moment of the next rebalance
            place = choice.randrange(MEMBERS)
            if place not in alive:
                come(place)
                continue
            go(place, choice.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))
            if static or len(alive) < 2 or choice.random() < 0.3:
                come(place)  # a static member returns within its session timeout
        load.stop()
        members = [*ended, *alive.values()]
        wait_for_members(lambda: load.acknowledged <= values_read(members), alive)
    finally:
        load.stop()
        for place in list(alive):
            go(place, signal.SIGTERM)
    late_names = frozenset(member.name for member in ended if int(member.name.split(".")[0]) in late)
    problems = problems_of([member.story for member in ended], load.acknowledged, late_names)
    assert not problems.lost, problems
    assert not problems.shared, problems.shared[:5]
    assert not problems.stolen, problems.stolen[:5]
    assert happened["killed"] >= steps // 5, happened
    if late:
        assert any(told.what == "lost" for m in ended if m.name in late_names for told in m.story), "nobody was late"
    repeated = f"{problems.again} read again, {problems.stale} before a late member knew"
    return f"{len(load.acknowledged)} records, {happened}, {repeated}"


def values_read(members: list[MemberProcess]) -> set[int]:
    return {told.value for member in members for told in list(member.story) if told.what == "read"}


def wait_for_members(condition: Callable[[], bool], alive: dict[int, MemberProcess]) -> None:
    def is_true() -> bool:
        gone = [each.name for each in alive.values() if each.process.poll() is not None]
        assert not gone, f"{gone} ended by themselves"
        return condition()

    wait_for(is_true, lambda: str([(each.name, each.has_partitions, each.reads) for each in alive.values()]))


LONG = pytest.mark.skipif(not is_long(), reason="takes minutes (HEADRACE_EFFORT=long)")


@LONG
@pytest.mark.needs("kafka")
@pytest.mark.parametrize("kind", [*ASSIGNORS, "static range", "static cooperative-sticky", "slow cooperative-sticky"])
def test_java_members_die_under_load(bootstrap: str, topic: str, tmp_path: Path, kind: str) -> None:
    static, slow = kind.startswith("static"), kind.startswith("slow")
    start = java_member(bootstrap, topic, tmp_path, kind.split(" ")[-1], static=static, slow=slow)
    late = frozenset({0}) if slow else frozenset[int]()
    told = play(bootstrap, topic, start, rounds(short=6, long=14), static=static, late=late)
    print(f"\nJava, {kind}: {told}")


@LONG
@pytest.mark.needs("node", "npm")
def test_kafkajs_members_die_under_load(bootstrap: str, topic: str, tmp_path: Path, project: Path) -> None:
    shutil.copy(SOURCE / "member.js", PLACE / "member.js")

    def start(place: int, number: int) -> MemberProcess:
        command = ["node", "member.js", topic, bootstrap, f"g-{topic}"]
        return MemberProcess(f"{place}.{number}", command, tmp_path, cwd=project)

    told = play(bootstrap, topic, start, rounds(short=6, long=20))
    print(f"\nkafkajs: {told}")


@LONG
@pytest.mark.needs("kafka")
def test_a_second_process_with_the_same_instance_id_fences_the_first(
    bootstrap: str, topic: str, tmp_path: Path
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(60)
    start = java_member(bootstrap, topic, tmp_path, "range", static=True)
    first = start(0, 0)
    wait_for_members(lambda: first.has_partitions, {0: first})
    second = start(0, 1)
    wait_for_members(lambda: second.has_partitions and first.process.poll() is not None, {0: second})
    for member in (first, second):
        member.end(signal.SIGTERM)
    assert "FencedInstanceIdException" in (tmp_path / "0.0.err").read_text()
    assert not (tmp_path / "0.1.err").read_text()


def test_the_watch_reports_violations() -> None:
    def story(member: str, *lines: tuple[int, str, int, int]) -> list[Told]:
        return [Told(at, what, member, partition, value) for at, what, partition, value in lines]

    good = story("a", (1, "assigned", 0, -1), (2, "read", 0, 7), (3, "revoked", 0, -1))
    after = story("b", (4, "assigned", 0, -1), (5, "read", 0, 7), (6, "read", 0, 8))
    fine = problems_of([good, after], {7, 8})
    assert (fine.lost, fine.shared, fine.stolen, fine.again) == (0, [], [], 1)
    assert problems_of([good, after], {7, 8, 9}).lost == 1
    keeps = story("a", (1, "assigned", 0, -1), (9, "revoked", 0, -1))
    assert len(problems_of([keeps, after], {7, 8}).shared) == 1
    assert not problems_of([keeps, after], {7, 8}, frozenset("a")).shared
    died = story("a", (1, "assigned", 0, -1), (3, "dead", -1, -1))
    assert not problems_of([died, after], {7, 8}).shared
    reads_on = story("a", (1, "assigned", 0, -1), (7, "read", 0, 9), (9, "revoked", 0, -1))
    assert len(problems_of([reads_on, after], {7, 8, 9}, frozenset("a")).stolen) == 1
    is_told = story("a", (1, "assigned", 0, -1), (7, "read", 0, 9), (9, "lost", 0, -1))
    assert len(problems_of([is_told, after], {7, 8, 9}).stolen) == 1
    allowed = problems_of([is_told, after], {7, 8, 9}, frozenset("a"))
    assert (allowed.stolen, allowed.stale) == ([], 1)
    assert len(problems_of([story("a", (1, "read", 0, 7))], {7}).stolen) == 1
