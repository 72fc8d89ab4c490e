"""Groups, transactions, completion, the bench: what they tell."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pexpect
import pytest
from confluent_kafka import Producer

from headrace.testing import RunningBroker
from tests.cli.conftest import Run, environment


def test_lag_reset_and_delete_of_a_group(headrace: Run, topic: str) -> None:
    group = f"g-{topic}"
    headrace("produce", topic, "a", "b", "c", "-p", "0")
    assert headrace("consume", topic, "--group", group, "-n", "2").out == "a\nb\n"
    [row] = headrace("groups", "lag", group, "-o", "json").json
    assert (row["position"], row["end"], row["lag"]) == (2, 3, 1)
    looks = headrace("groups", "lag", group, "--watch", "--every", "0.1", "-n", "2", "-o", "json").lines
    assert [look["recently"] for look in looks] == ["█", "██"]
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


def test_the_shell_completes_commands_and_live_names(headrace: Run, topic: str) -> None:
    def completed(*words: str) -> list[str]:
        env = {"_HEADRACE_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
        return headrace(env=env).out.split()

    assert completed("headrace", "con") == ["configs", "consume", "context"]
    assert completed("headrace", "consume", topic[:-2]) == [topic]
    assert completed("headrace", "configs", "get", f"topic/{topic[:-2]}") == [f"topic/{topic}"]
    env = {"_HEADRACE_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": f"headrace topics describe {topic[:-2]}"}
    assert topic in headrace(env=env).out
    assert headrace("completion", "tcsh").code == 2


def test_a_real_shell_offers_the_live_names(running: RunningBroker, topic: str, tmp_path: Path) -> None:
    """What the tab key runs: the function that `headrace completion bash` binds."""
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
def test_the_tab_key_in_zsh_offers_commands_topics_and_groups(
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


def test_the_bench_measures_and_cleans_up(headrace: Run) -> None:
    found = headrace("bench", "produce", "-n", "500", "-o", "json").json
    assert (found["records"], found["records_per_s"] > 0) == (500, True)
    assert headrace("bench", "consume", "-n", "500", "-o", "json").json["records"] == 500
    assert headrace("bench", "latency", "-n", "20", "-o", "json").json["p50_ms"] > 0
    assert "headrace-bench" not in headrace("topics", "ls").out
