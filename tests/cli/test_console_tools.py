"""kafka-console-producer and kafka-console-consumer, run as a user runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import headrace
from headrace.testing import RunningBroker, broker
from tests.cli.conftest import Ran
from tests.support.programs import Programs

Tool = Callable[..., Ran]


@pytest.fixture
def tool(running: RunningBroker, programs: Programs, tmp_path: Path) -> Tool:
    """`tool("console_producer", "--topic", …)` with the address of the running broker."""

    def run(module: str, *words: str, stdin: str = "", bootstrap: str | None = None) -> Ran:
        address = ["--bootstrap-server", bootstrap or running.bootstrap]
        done = programs.run(
            f"headrace.cli.kafka_tools.{module}",
            [*address, *words],
            env=os.environ,
            cwd=tmp_path,
            stdin=stdin.encode(),
            timeout=60,
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


def test_group_that_read_an_empty_topic_reads_later_records(tool: Tool, topic: str) -> None:
    """As in Kafka's consumer, the group also commits its offset in a partition without records."""
    read = ("console_consumer", "--topic", topic, "--group", f"late-{topic}", "--timeout-ms")
    assert tool(*read, "5000").out == ""
    tool("console_producer", "--topic", topic, stdin="one\ntwo\nthree\n")
    assert sorted(tool(*read, "60000", "--max-messages", "3").out.split()) == ["one", "three", "two"]


def test_a_lost_answer_doubles_no_line(tool: Tool, running: RunningBroker, topic: str) -> None:
    """Kafka's producers are idempotent by default, and so is its console producer."""
    lost = running.fail("Produce", drop_answer=True, topic=topic)
    assert tool("console_producer", "--topic", topic, stdin="one\ntwo\nthree\n").code == 0
    assert lost.hits == 1
    with headrace.connect(running.bootstrap) as cluster:
        assert sorted(str(record.value) for record in cluster.topic(topic, str).records()) == ["one", "three", "two"]


@pytest.fixture
def started() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """`started("console_producer", …)`: the tool as a process whose streams are pipes."""
    running: list[subprocess.Popen[str]] = []

    def start(module: str, *words: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        command = [sys.executable, "-m", f"headrace.cli.kafka_tools.{module}", *words]
        running.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True))
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.communicate()


def test_undelivered_records_are_an_error(started: Callable[..., subprocess.Popen[str]]) -> None:
    with broker() as mortal:
        words = ("--bootstrap-server", mortal.bootstrap, "--topic", "t", "--sync")
        writer = started("console_producer", *words, "--command-property", "delivery.timeout.ms=4000")
        assert writer.stdin is not None
        assert writer.stderr is not None
        assert "The broker created it now" in writer.stderr.readline()
    out, err = writer.communicate("lost\n", timeout=60)
    assert (writer.returncode, out) == (1, "")
    assert "console_producer: no broker answers any more; trying again" in err
    assert "a record for t was not written" in err


def test_consumer_fails_when_its_broker_stops(started: Callable[..., subprocess.Popen[str]]) -> None:
    with broker() as mortal:
        address = ("--bootstrap-server", mortal.bootstrap, "--topic", "t")
        started("console_producer", *address).communicate("one\n", timeout=60)
        reader = started("console_consumer", *address, "--from-beginning", "--timeout-ms", "6000")
        assert reader.stdout is not None
        assert reader.stdout.readline() == "one\n"
    _, err = reader.communicate(timeout=60)
    assert reader.returncode == 1
    assert "Processed a total of 1 messages" in err
    assert "no broker answers any more" in err


def test_time_out_while_joining_the_group_is_an_error(tool: Tool) -> None:
    # The time also covers the first metadata request, which a busy machine answers after more than a second.
    with broker({"group.initial.rebalance.delay.ms": "7000"}) as slow:
        tool("console_producer", "--topic", "t", stdin="one\n", bootstrap=slow.bootstrap)
        read = ("console_consumer", "--topic", "t", "--from-beginning", "--timeout-ms")
        ran = tool(*read, "5000", bootstrap=slow.bootstrap)
        assert (ran.code, ran.out) == (1, "")
        assert "the group assigned no partitions within 5000 ms" in ran.err
        assert tool(*read, "40000", "--max-messages", "1", bootstrap=slow.bootstrap).out == "one\n"


def test_missing_partition_is_named(tool: Tool, topic: str) -> None:
    ran = tool("console_consumer", "--topic", topic, "--partition", "7", "--timeout-ms", "5000")
    assert ran.code == 1
    assert f"topic '{topic}' has partitions 0 to 2, not 7" in ran.err


def test_share_consumer_accepts_releases_and_limits(tool: Tool, topic: str) -> None:
    group = f"share-{topic}"
    tool("configs", "--alter", "--entity-type", "groups", "--entity-name", group,
         "--add-config", "share.auto.offset.reset=earliest")  # fmt: skip
    tool("console_producer", "--topic", topic, stdin="one\ntwo\nthree\n")
    read = ("console_share_consumer", "--topic", topic, "--group", group, "--formatter-property", "print.delivery=true")
    first = tool(*read, "--release", "--max-messages", "1")
    assert first.out.split("\t")[0] == "Delivery:1"
    rest = tool(*read, "--max-messages", "3")
    assert sorted(line.split("\t")[1] for line in rest.out.splitlines()) == ["one", "three", "two"]
    assert "Processed a total of 3 messages" in rest.err
    assert tool(*read, "--timeout-ms", "1500").out == "", "accepted records do not come again"
    assert tool(*read, "--release", "--reject").code == 1


def test_client_metrics_are_subscribed_described_and_deleted(tool: Tool, topic: str) -> None:
    named = ("--name", topic)
    change = tool("client_metrics", "--alter", *named, "--metrics", "org.apache.kafka.producer.", "--interval", "5000")
    assert change.out == f"Altered client metrics config for {topic}.\n"
    assert topic in tool("client_metrics", "--list").out.splitlines()
    assert tool("client_metrics", "--describe", *named).out == (
        f"Client metrics configs for {topic} are:\n  interval.ms=5000\n  match=\n  metrics=org.apache.kafka.producer.\n"
    )
    tool("client_metrics", "--alter", *named, "--interval", "")
    assert "  interval.ms=300000\n" in tool("client_metrics", "--describe", *named).out
    tool("client_metrics", "--delete", *named)
    assert topic not in tool("client_metrics", "--list").out.splitlines()
    gone = tool("client_metrics", "--describe", *named)
    assert gone.code == 1 and "doesn't exist" in gone.err
    assert tool("client_metrics", "--alter", "--metrics", "a").code == 1
