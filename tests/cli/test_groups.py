"""Commands for groups and transactions, shell completion, and the benchmark."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pexpect
import pytest
from confluent_kafka import Consumer, Producer, ShareConsumer, TopicPartition

from headrace.testing import RunningBroker, broker
from tests.cli.conftest import Run, environment
from tests.support.clock import wait_for


def test_a_group_reads_on_from_its_offsets(headrace: Run, topic: str) -> None:
    group = f"readers-of-{topic}"
    assert headrace("produce", topic, "-p", "0", stdin="a\nb\nc\n").code == 0
    assert headrace("consume", topic, "-g", group, "-n", "2").out == "a\nb\n"
    assert headrace("consume", topic, "-g", group, "-n", "1").out == "c\n"
    assert headrace("consume", topic, "-g", group).out == ""
    assert headrace("produce", topic, "-p", "0", stdin="d\n").code == 0
    assert headrace("consume", topic, "-g", group, "-f", "-n", "1").out == "d\n"
    lag = headrace("groups", "lag", group, "-o", "json").json
    assert next(row for row in lag if row["partition"] == 0)["position"] == 4
    assert headrace("consume", topic, "-g", group, "--from", "beginning", "-n", "1").out == "a\n"


def test_lag_reset_and_delete_of_a_group(headrace: Run, topic: str) -> None:
    group = f"g-{topic}"
    headrace("produce", topic, "a", "b", "c", "-p", "0")
    assert headrace("consume", topic, "--group", group, "-n", "2").out == "a\nb\n"
    rows = headrace("groups", "lag", group, "-o", "json").json
    assert [(row["position"], row["end"], row["lag"]) for row in rows] == [(2, 3, 1), (None, 0, 0), (None, 0, 0)]
    looks = headrace("groups", "lag", group, "--watch", "--every", "0.1", "-n", "2", "-o", "json").lines
    assert [look["recently"] for look in looks if look["partition"] == 0] == ["█", "██"]
    assert headrace("groups", "reset", group, "--to", "beginning", "--dry-run", "-o", "json").json[0]["to"] == 0
    assert headrace("groups", "lag", group, "-o", "json").json[0]["position"] == 2, "a dry run moves nothing"
    assert headrace("groups", "reset", group, "--to", "end", "--yes").code == 0
    assert headrace("groups", "lag", group, "-o", "json").json[0]["lag"] == 0
    assert headrace("groups", "describe", group, "-o", "json").json["state"] == "Empty"
    spelled = headrace("topics", "describe", "__consumer__offsets", "-o", "json").json
    assert {row["topic"] for row in spelled} == {"__consumer_offsets"}, "as documents write it now and then"
    assert headrace("groups", "rm", group, "--yes").code == 0
    missing = headrace("groups", "describe", group)
    assert (missing.code, "does not exist" in missing.err) == (1, True)


def test_partitions_without_a_committed_offset_count_as_lag(headrace: Run, running: RunningBroker, topic: str) -> None:
    group = f"g-{topic}"
    for partition, values in (("0", "ab"), ("1", "abcde"), ("2", "ab")):
        headrace("produce", topic, *values, "-p", partition)
    headrace("topics", "empty", topic, "--before", "1", "--yes")
    # Joins without reading: it has partitions, but commits no offset.
    consumer = Consumer({"bootstrap.servers": running.bootstrap, "group.id": group, "enable.auto.commit": False})
    consumer.subscribe([topic])
    try:
        wait_for(lambda: consumer.poll(0.1) is None and len(consumer.assignment()) == 3, "the assignment")
        rows = headrace("groups", "lag", group, "-o", "json").json
        assert [(row["position"], row["lag"]) for row in rows] == [(None, 1), (None, 4), (None, 1)]
        consumer.commit(offsets=[TopicPartition(topic, 1, 5)], asynchronous=False)
    finally:
        consumer.close()
    rows = headrace("groups", "lag", group, "-o", "json").json
    assert [(row["position"], row["lag"]) for row in rows] == [(None, 1), (5, 0), (None, 1)]
    shown = headrace("groups", "lag", group).out
    assert "position –: no committed offset; the lag counts every record in the partition" in shown
    [line] = [line for line in shown.splitlines() if line.split()[2:3] == ["0"]]
    assert line.split()[3:] == ["–", "2", "1"]


def test_share_groups_are_described_reset_and_deleted(headrace: Run, running: RunningBroker, topic: str) -> None:
    group = f"s-{topic}"
    assert headrace("configs", "set", f"group/{group}", "share.auto.offset.reset=earliest", "--yes").code == 0
    headrace("produce", topic, *"abc", "-p", "0")
    headrace("produce", topic, *"ab", "-p", "1")
    consumer = ShareConsumer({"bootstrap.servers": running.bootstrap, "group.id": group, "client.id": "worker"})
    consumer.subscribe([topic])
    read: list[object] = []
    try:
        wait_for(lambda: read.extend(consumer.poll(0.2)) or len(read) == 5, "five records")
        found = headrace("groups", "describe", group, "-o", "json").json
        assert (found["type"], found["state"], found["assignor"]) == ("share", "Stable", "simple")
        assert [(member["client"], member["host"]) for member in found["members"]] == [("worker", "127.0.0.1")]
        assert found["members"][0]["partitions"] == [f"{topic}-{number}" for number in range(3)]
        refused = headrace("groups", "reset", group, "--to", "end", "--yes")
        assert (refused.code, "is Stable with 1 member: stop them first" in refused.err) == (1, True)
        consumer.commit_sync()
    finally:
        consumer.close()
    headrace("produce", topic, "d", "-p", "0")

    def lags() -> dict[int, tuple[int | None, int, int | None]]:
        rows = headrace("groups", "lag", group, "-o", "json").json
        return {row["partition"]: (row["position"], row["end"], row["lag"]) for row in rows}

    assert lags() == {0: (3, 4, 1), 1: (2, 2, 0), 2: (None, 0, None)}, "of partition 2 nothing was ever handed out"
    described = headrace("groups", "describe", group, "-o", "json").json
    assert described["share_partitions"][0] == {
        "partition": f"{topic}-0", "start_offset": 3, "leader_epoch": 0, "lag": 1
    }  # fmt: skip
    shown = headrace("groups", "describe", group).out
    assert "START OFFSET" in shown and "share" in shown
    every = {row["group"] for row in headrace("groups", "lag", "-o", "json").json}
    assert group in every, "share groups are among all groups"

    [first, *_] = headrace("groups", "reset", group, "--to", "1", "--dry-run", "-o", "json").json
    assert (first["partition"], first["from"], first["to"]) == (f"{topic}-0", 3, 1)
    assert lags()[0] == (3, 4, 1), "a dry run moves nothing"
    assert headrace("groups", "reset", group, "--to", "1", "--topic", topic, "--yes").code == 0
    assert lags() == {0: (1, 4, 3), 1: (1, 2, 1), 2: (0, 0, 0)}
    kafka = headrace("kafka", "share-groups", "--bootstrap-server", running.bootstrap, "--describe", "--group", group)
    assert [line.split()[2:] for line in kafka.out.splitlines() if line.startswith(group)] == [
        ["0", "1", "3"], ["1", "1", "1"], ["2", "0", "0"]
    ]  # fmt: skip
    assert "with 3 positions" in headrace("groups", "rm", group, "--yes").out
    assert "does not exist" in headrace("groups", "lag", group).err


def test_an_open_transaction_is_listed_described_and_ended(headrace: Run, running: RunningBroker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": running.bootstrap, "transactional.id": "till-1"})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(topic, "open")
    producer.flush()
    rows = headrace("transactions", "ls", "-o", "json").json
    assert [row["state"] for row in rows if row["transactional_id"] == "till-1"] == ["Ongoing"]
    described = headrace("transactions", "describe", "till-1", "-o", "json").json
    assert [name.rpartition("-")[0] for name in described["partitions"]] == [topic]
    assert headrace("consume", topic, "--uncommitted", "-c").out == "1\n"
    assert headrace("consume", topic, "-c").out == "0\n"
    assert headrace("transactions", "end", "till-1", "--yes").code == 0
    assert headrace("transactions", "describe", "till-1", "-o", "json").json["state"] != "Ongoing"
    assert "Did you mean 'till-1'?" in headrace("transactions", "describe", "till-2").err


def test_a_transaction_is_ended_on_a_broker_with_a_low_maximum_timeout(headrace: Run) -> None:
    with broker({"transaction.max.timeout.ms": "10000"}) as strict:
        settings = {"bootstrap.servers": strict.bootstrap, "transactional.id": "short", "transaction.timeout.ms": 9000}
        Producer(settings).init_transactions(10)
        ended = headrace("transactions", "end", "short", "--yes", env={"HEADRACE_BOOTSTRAP": strict.bootstrap})
        assert ended.code == 0, ended.err


def test_completion_offers_commands_and_names_of_the_cluster(headrace: Run, topic: str) -> None:
    def completed(*words: str) -> list[str]:
        env = {"_HEADRACE_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
        return headrace(env=env).out.split()

    assert completed("headrace", "con") == ["configs", "connect", "console", "consume", "context"]
    assert completed("headrace", "consume", topic[:-2]) == [topic]
    assert completed("headrace", "configs", "get", f"topic/{topic[:-2]}") == [f"topic/{topic}"]
    env = {"_HEADRACE_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": f"headrace topics describe {topic[:-2]}"}
    assert topic in headrace(env=env).out
    assert headrace("completion", "tcsh").code == 2


def test_bash_completion_offers_names_of_the_cluster(running: RunningBroker, topic: str, tmp_path: Path) -> None:
    """Calls the function that `headrace completion bash` binds to the tab key."""
    script = f"""
        eval "$(headrace completion bash)"
        bound=$(complete -p headrace | sed 's/.*-F \\([^ ]*\\).*/\\1/')
        COMP_WORDS=(headrace consume {topic[:-2]}) COMP_CWORD=2
        $bound headrace {topic[:-2]} consume
        echo "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "-c", script], env=environment(tmp_path, running.bootstrap), capture_output=True, text=True, timeout=30
    )
    assert (done.stdout, done.stderr) == (f"{topic}\n", "")


@pytest.mark.needs("zsh")
def test_zsh_completion_offers_commands_topics_and_groups(
    headrace: Run, running: RunningBroker, topic: str, tmp_path: Path
) -> None:
    group = f"g-{topic}"
    headrace("produce", topic, "a")
    headrace("consume", topic, "-g", group, "-n", "1")
    env = environment(tmp_path, running.bootstrap)
    shell = pexpect.spawn("zsh", ["-f"], env=env, encoding="utf-8", timeout=20, dimensions=(40, 140))
    shell.sendline('autoload -Uz compinit; compinit -D -u; eval "$(headrace completion zsh)"; echo rea""dy')
    shell.expect("ready\r\n")
    for typed, completed in (
        ("headrace transac", "transactions"),
        (f"headrace consume {topic[:-2]}", topic),
        (f"headrace groups lag {group[:-2]}", group),
    ):
        shell.send(f"{typed}\t")
        shell.expect_exact(completed)
        shell.sendcontrol("u")
    shell.close(force=True)


def test_bench_measures_and_deletes_its_topic(headrace: Run) -> None:
    found = headrace("bench", "produce", "-n", "500", "-o", "json").json
    assert (found["records"], found["records_per_s"] > 0) == (500, True)
    assert headrace("bench", "consume", "-n", "500", "-o", "json").json["records"] == 500
    assert headrace("bench", "latency", "-n", "20", "-o", "json").json["p50_ms"] > 0
    assert "headrace-bench" not in headrace("topics", "ls").out
