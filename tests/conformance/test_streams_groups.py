"""Unchanged Kafka Streams with `group.protocol=streams` (KIP-1071): the group coordinator assigns the tasks."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from headrace.testing import RunningBroker, broker
from tests.conformance.kafka_tool_runs import CLASSES, kafkas, ours_forked
from tests.conformance.test_streams_and_connect import create, updates
from tests.reference.tools import Done, shared_tools
from tests.support.clock import wait_for
from tests.support.effort import is_long
from tests.support.group_requests import Client, commit, patient_find, streams_beat
from tests.support.java_client import JavaProgram
from tests.support.programs import Programs

pytestmark = [pytest.mark.needs("kafka"), pytest.mark.needs("javac")]

# Members that die or join are noticed soon.
SETTINGS = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.min.heartbeat.interval.ms": "200",
    "group.streams.heartbeat.interval.ms": "200",
    "group.streams.min.session.timeout.ms": "3000",
    "group.streams.session.timeout.ms": "3000",
}
GROUP = "word-count-lines"


@pytest.fixture
def running() -> Iterator[RunningBroker]:
    with broker(SETTINGS) as started:
        yield started


@pytest.fixture
def patient() -> Iterator[RunningBroker]:
    with broker({"group.streams.initial.rebalance.delay.ms": "0"}) as started:
        yield started


@pytest.fixture
def programs() -> Iterator[Programs]:
    with Programs() as started:
        yield started


class Lines:
    """Writes lines of words, and counts the words apart."""

    def __init__(self, running: RunningBroker) -> None:
        self._producer = Producer({"bootstrap.servers": running.bootstrap})
        self._written = 0
        self.words: Counter[str] = Counter()

    def write(self, count: int) -> None:
        for _ in range(count):
            words = ("alpha", f"beta{self._written % 3}", f"gamma{self._written % 7}")
            self._producer.produce("lines", " ".join(words), partition=self._written % 2)
            self.words.update(words)
            self._written += 1
        assert self._producer.flush(60) == 0


def counted(running: RunningBroker) -> dict[str, int]:
    return {word: counts[-1] for word, counts in updates(running, "counts").items()}


def describe(running: RunningBroker, *options: str) -> Done:
    asked = ("--bootstrap-server", running.bootstrap, "--describe", "--group", GROUP, *options)
    return shared_tools().run(CLASSES["kafka-streams-groups"], *asked)


def described(running: RunningBroker, *options: str) -> str:
    done = describe(running, *options)
    assert done.code == 0, done
    return done.out


def members_of(running: RunningBroker) -> int:
    """None before the first member has joined: then there is no group."""
    done = describe(running, "--members")
    assert done.code == 0 or "GroupIdNotFoundException" in done.out, done
    return sum(line.startswith(GROUP) for line in done.out.splitlines())


def test_a_streams_application_counts_and_kafkas_tool_describes_it(running: RunningBroker, tmp_path: Path) -> None:
    create(running, "lines", "counts")
    lines = Lines(running)
    lines.write(300)
    with JavaProgram("WordCount", running.bootstrap, "lines", "counts", str(tmp_path), "streams", heap="256m"):
        wait_for(lambda: counted(running) == lines.words, lambda: f"{lines.words}: {counted(running)}", poll=0.2)
        state = described(running, "--state")
    assert "Stable" in state and GROUP in state
    shown = updates(running, "counts")
    assert all(counts == sorted(set(counts)) for counts in shown.values()), "a count was shown twice"


DESCRIPTIONS = (
    "--list",
    "--list --state",
    "--list --state Stable",
    "--list --state NotReady,Empty",
    "--describe --group flows",
    "--describe --group flows --offsets --verbose",
    "--describe --group flows --members",
    "--describe --group flows --members --verbose",
    "--describe --group flows --state",
    "--describe --all-groups --state --verbose",
)
CHANGES = (
    "--reset-offsets --group {group} --all-input-topics --to-earliest --dry-run",
    "--reset-offsets --group {group} --input-topic t:0 --shift-by -1 --execute",
    "--reset-offsets --group {group} --all-input-topics --to-latest --dry-run --export",
    "--delete-offsets --group {group} --input-topic t:0",
    "--delete-offsets --group {group} --all-input-topics",
    "--describe --group {group} --members",
    "--describe --group {group} --state",
    "--delete --group {group} --delete-all-internal-topics",
)


def test_our_tool_prints_what_kafkas_tool_prints(patient: RunningBroker, programs: Programs) -> None:
    running = patient
    create(running, "t", "flows-store-changelog")
    producer = Producer({"bootstrap.servers": running.bootstrap})
    producer.produce("t", "record", partition=0)
    assert producer.flush(60) == 0
    client = Client(running.bootstrap)
    patient_find(client, "flows")
    tools = shared_tools()

    def compare(words: str, **by_who: str) -> None:
        outputs = []
        for who in ("theirs", "ours"):
            asked = words.format(group=by_who.get(who, "")).split()
            line = ["kafka-streams-groups", "--bootstrap-server", running.bootstrap, *asked]
            done = kafkas(tools, line, "") if who == "theirs" else ours_forked(programs, line, "")
            lines = [line.rstrip() for line in done.out.replace(by_who.get(who, "\0"), "GROUP-").splitlines()]
            outputs.append((done.code, sorted(line for line in lines if line)))
        assert outputs[1] == outputs[0], words

    epoch = streams_beat(client, "flows", "member-a", 0).member_epoch
    streams_beat(client, "flows", "member-b", 0)
    streams_beat(client, "flows", "member-a", epoch)
    commit(client, "flows", member="member-a", generation=epoch)
    for words in DESCRIPTIONS:
        compare(words)
    groups = {"theirs": "flows-k", "ours": "flows-o"}
    for group in groups.values():
        create(running, f"{group}-store-changelog")
        epoch = streams_beat(client, group, "member", 0).member_epoch
        commit(client, group, member="member", generation=epoch)
        streams_beat(client, group, "member", -1)
    for words in CHANGES:
        compare(words, **groups)
    client.close()
    topics = AdminClient({"bootstrap.servers": running.bootstrap}).list_topics(timeout=30).topics
    assert not {f"{group}-store-changelog" for group in groups.values()} & set(topics), "deleted with their groups"


@pytest.mark.skipif(not is_long(), reason="three Java programs: HEADRACE_EFFORT=long")
def test_the_count_stays_right_when_instances_join_and_are_killed(running: RunningBroker, tmp_path: Path) -> None:
    create(running, "lines", "counts")
    lines = Lines(running)
    lines.write(300)

    def instance(name: str) -> JavaProgram:
        return JavaProgram(
            "WordCount", running.bootstrap, "lines", "counts", str(tmp_path / name), "streams", heap="256m"
        )

    def wait_for_counts() -> None:
        wait_for(lambda: counted(running) == lines.words, lambda: f"{lines.words}: {counted(running)}", poll=0.5)

    programs = {name: instance(name) for name in ("a", "b", "c")}
    try:
        wait_for(lambda: members_of(running) == 3, "three members", poll=1.0)
        lines.write(300)
        wait_for_counts()
        for killed in ("b", "a"):
            lines.write(200)
            programs[killed].process.send_signal(signal.SIGKILL)
            lines.write(200)
            wait_for_counts()
            programs[killed] = instance(f"{killed}-again")
        wait_for(lambda: members_of(running) == 3, "three members", poll=1.0)
        lines.write(300)
        wait_for_counts()
        members = described(running, "--members", "--verbose")
    finally:
        for program in programs.values():
            program.kill()
    shown = updates(running, "counts")
    assert all(counts == sorted(set(counts)) for counts in shown.values()), "a count was shown twice"
    assert members.count("ACTIVE") >= 1
