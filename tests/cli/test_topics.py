"""Commands for topics, configurations, quotas, the cluster and contexts, for users and scripts."""

from __future__ import annotations

import socket
import threading

import pytest
import yaml

from headrace.client.topic_names import topic_names
from headrace.testing import RunningBroker
from tests.cli.conftest import Run


def test_a_topic_is_created_listed_grown_and_deleted(headrace: Run) -> None:
    assert headrace("topics", "create", "life", "-p", "2", "-c", "retention.ms=1000").code == 0
    [row] = [row for row in headrace("topics", "ls", "-o", "json").json if row["topic"] == "life"]
    assert (row["partitions"], row["replicas"], row["records"]) == (2, 1, 0)
    assert "from 2 to 5" in headrace("topics", "grow", "life", "-p", "5", "--yes").out
    described = yaml.safe_load(headrace("topics", "describe", "life", "-o", "yaml").out)
    assert [row["partition"] for row in described] == [0, 1, 2, 3, 4]
    assert headrace("topics", "rm", "life", "--yes").code == 0
    assert "life" not in [row["topic"] for row in headrace("topics", "ls", "-o", "json").json]


def test_dangerous_command_asks_and_answer_no_changes_nothing(headrace: Run, topic: str) -> None:
    refused = headrace("topics", "rm", topic, stdin="n\n")
    assert refused.code == 1
    assert "for good?" in refused.err
    assert "would delete" in headrace("topics", "rm", topic, "--dry-run").out
    assert topic in headrace("topics", "ls").out


def test_an_unknown_topic_suggests_the_nearest_name(headrace: Run, topic: str) -> None:
    ran = headrace("topics", "describe", topic + "x")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == f"headrace: topic '{topic}x' does not exist. Did you mean {topic!r}?\n"


def test_wrong_usage_exits_with_2(headrace: Run) -> None:
    assert headrace("topics", "explode").code == 2
    assert headrace("topics", "ls", "--bootstrap", "nonsense:port").code == 2
    assert headrace("topics", "plan").code == 2


def test_an_unreachable_broker_is_named_within_the_time_out(headrace: Run) -> None:
    ran = headrace("topics", "ls", "--bootstrap", "127.0.0.1:1", "--timeout", "2")
    assert ran.code == 1
    assert "127.0.0.1:1" in ran.err
    assert "Traceback" not in ran.err


def test_no_boxes_and_no_colour_in_a_pipe(headrace: Run, topic: str) -> None:
    for words in (("topics", "ls"), ("cluster", "status"), ("topics", "--help"), ("--help",), ("topics", "explode")):
        ran = headrace(*words)
        assert not set("│╭─┏━┃\x1b") & set(ran.out + ran.err), words


def test_plan_calculates_the_sizing_of_the_documentation(headrace: Run) -> None:
    found = headrace("topics", "plan", "--tb-per-day", "1", "--brokers", "5", "--days", "7", "-o", "json").json
    assert found["storage_tb_one_copy"] == 7
    assert found["storage_tb_all_replicas"] == 21
    assert found["partitions"] == 10
    assert (found["failures_tolerated"], found["failures_with_acks_all_writes"]) == (2, 1)
    shown = headrace("topics", "plan", "--tb-per-day", "1", "--brokers", "5").out
    assert "\n2 of 3 lost: no record is lost and reads go on, but writes with acks=all stop" in shown


def test_configurations_are_set_shown_and_unset(headrace: Run, topic: str) -> None:
    assert headrace("configs", "set", f"topic/{topic}", "retention.ms=12345").code == 0
    [row] = headrace("configs", "get", f"topic/{topic}", "-o", "json").json
    assert (row["name"], row["value"], row["source"]) == ("retention.ms", "12345", "topic")
    assert headrace("configs", "unset", f"topic/{topic}", "retention.ms").code == 0
    assert headrace("configs", "get", f"topic/{topic}", "-o", "json").json == []
    wrong = headrace("configs", "get", f"topic/{topic}", "retention.m")
    assert (wrong.code, "Did you mean 'retention.ms'?" in wrong.err) == (1, True)
    assert headrace("configs", "set", f"topic/{topic}", "retention.ms=soon").code == 1


def test_quotas_are_set_listed_and_removed(headrace: Run) -> None:
    assert headrace("quotas", "set", "client-id/q", "producer_byte_rate=1000").code == 0
    assert {"entity": "client-id/q", "quota": "producer_byte_rate", "value": 1000.0} in headrace(
        "quotas", "ls", "-o", "json"
    ).json
    assert headrace("quotas", "unset", "client-id/q", "producer_byte_rate").code == 0
    assert headrace("quotas", "ls", "-o", "json").json == []
    assert "Did you mean" in headrace("quotas", "set", "client-id/q", "producer_byte_rat=1").err


def test_empty_deletes_all_records(headrace: Run, topic: str) -> None:
    headrace("produce", topic, "a", "b", "-p", "0")
    assert headrace("topics", "empty", topic, "--before", "1", "--yes").code == 0
    assert headrace("consume", topic).out == "b\n"


def test_the_status_of_a_healthy_cluster(headrace: Run) -> None:
    found = headrace("cluster", "status", "--check", "-o", "json")
    assert found.code == 0
    assert found.json["offline"] == found.json["under_replicated"] == 0
    assert [row["state"] for row in found.json["brokers"]] == ["up"]
    assert headrace("cluster", "disks", "-o", "json").json[0]["total"] > 0


def test_contexts_are_added_used_and_removed(headrace: Run, running: object) -> None:
    env = {"HEADRACE_BOOTSTRAP": ""}
    address = running.bootstrap  # type: ignore[attr-defined]
    assert headrace("context", "add", "here", address, env=env).code == 0
    assert headrace("context", "add", "gone", "127.0.0.1:1", env=env).code == 0
    assert headrace("cluster", "brokers", env=env).code == 0, "the first one added is the current one"
    assert headrace("context", "use", "gone", env=env).code == 0
    assert "127.0.0.1:1" in headrace("cluster", "brokers", env=env).err
    assert headrace("cluster", "brokers", "-b", "here", env=env).code == 0, "a name may stand for its address"
    assert headrace("context", "rm", "gone", "--yes", env=env).code == 0
    assert [row["name"] for row in headrace("context", "ls", "-o", "json", env=env).json] == ["here"]


def test_fast_topic_list_has_all_topics(headrace: Run, running: RunningBroker, topic: str) -> None:
    found = topic_names(running.host, running.port, "test", 5)
    assert topic in found
    listed = [row["topic"] for row in headrace("topics", "ls", "-o", "json").json]
    assert [name for name in found if not name.startswith("__")] == [n for n in listed if not n.startswith("__")]


@pytest.mark.parametrize("answer", [b"", b"\0\0\0\x0c" + bytes(11), b"\0\0\0\x14" + b"\x7f" * 20, b"HTTP/1.1 400 Bad"])
def test_fast_topic_list_refuses_an_invalid_answer(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            client, _ = server.accept()
            with client:
                client.recv(100)
                client.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        with pytest.raises(ValueError, match="answer"):
            topic_names("127.0.0.1", server.getsockname()[1], "test", 5)


def test_piped_table_is_not_truncated(headrace: Run) -> None:
    name = "long-" + "n" * 230
    headrace("topics", "create", name)
    for words in (("topics", "ls"), ("topics", "describe", name)):
        table = headrace(*words, env={"COLUMNS": "40"}).out.splitlines()
        [line] = [line for line in table if name in line]
        [row] = [row for row in headrace(*words, "-o", "json").json if row["topic"] == name]
        numbers = [str(value) for value in row.values() if type(value) is int]
        assert line.startswith(name)
        assert set(numbers) - {str(row.get("size"))} <= set(line.split())
    headrace("topics", "rm", name, "--yes")
