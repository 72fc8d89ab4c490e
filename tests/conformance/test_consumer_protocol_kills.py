"""Groups with members of the new protocol (KIP-848), of Java and confluent-kafka, alone and beside classic members.

Members join, leave and die by kill -9 under load. One group also migrates to the new protocol and back. The group reads
every record at least once, and no two members read one partition at the same time. Takes minutes:
`HEADRACE_EFFORT=long pytest -s tests/conformance/test_consumer_protocol_kills.py` prints the events.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing import RunningBroker, broker
from tests.conformance.test_member_kills import LONG, SESSION_MS, Start, java_member, play
from tests.support.effort import rounds
from tests.support.group_watch import MemberProcess

MEMBER = Path(__file__).with_name("confluent_member.py")


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    settings = {
        "group.min.session.timeout.ms": "1000",
        "group.initial.rebalance.delay.ms": "100",
        "group.consumer.session.timeout.ms": str(SESSION_MS),
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.heartbeat.interval.ms": "300",
        "group.consumer.min.heartbeat.interval.ms": "100",
    }
    with broker(settings) as started:
        yield started


def confluent_member(bootstrap: str, topic: str, directory: Path) -> Start:
    command = [sys.executable, str(MEMBER), topic, bootstrap, f"g-{topic}"]
    return lambda place, number: MemberProcess(f"{place}.{number}", command, directory)


@LONG
@pytest.mark.needs("kafka")
@pytest.mark.parametrize("kind", ["uniform", "range", "beside range", "beside cooperative-sticky", "over and back"])
def test_java_members_die_under_load(bootstrap: str, topic: str, tmp_path: Path, kind: str) -> None:
    assignor = kind if kind in ("uniform", "range") else "uniform"
    new = java_member(bootstrap, topic, tmp_path, assignor, new_protocol=True)
    start = new
    if kind.startswith("beside"):
        old = java_member(bootstrap, topic, tmp_path, kind.split(" ")[-1])

        def start(place: int, number: int) -> MemberProcess:
            return (old if place % 2 else new)(place, number)

    elif kind == "over and back":
        old = java_member(bootstrap, topic, tmp_path, "cooperative-sticky")

        def start(place: int, number: int) -> MemberProcess:
            """The first and the last members use the classic protocol."""
            return (new if 4 <= number < 10 else old)(place, number)

    told = play(bootstrap, topic, start, rounds(short=6, long=24 if kind == "over and back" else 14))
    print(f"\nJava, KIP-848, {kind}: {told}")


@LONG
def test_confluent_kafka_members_die_under_load(bootstrap: str, topic: str, tmp_path: Path) -> None:
    told = play(bootstrap, topic, confluent_member(bootstrap, topic, tmp_path), rounds(short=6, long=20))
    print(f"\nconfluent-kafka, KIP-848: {told}")


@LONG
@pytest.mark.needs("kafka")
def test_members_of_both_clients_die_under_load(bootstrap: str, topic: str, tmp_path: Path) -> None:
    java = java_member(bootstrap, topic, tmp_path, "uniform", new_protocol=True)
    confluent = confluent_member(bootstrap, topic, tmp_path)
    told = play(
        bootstrap,
        topic,
        lambda place, number: (java if place % 2 else confluent)(place, number),
        rounds(short=6, long=14),
    )
    print(f"\nJava and confluent-kafka, KIP-848: {told}")
