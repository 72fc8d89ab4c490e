"""Commands delete internal topics only with a flag, and say what is lost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing import RunningBroker, broker

LOST = {
    "__consumer_offsets": "committed offsets",
    "__transaction_state": "open ones never end",
    "__share_group_state": "share groups begin again",
    "_schemas": "can no longer be decoded",
    "__pipelines": "status shows nothing until the next batch",
    "__pipeline_commands": "nothing that a pipeline needs",
    "__sink_ledger": "may write rows twice",
    "__streams": "does not notice that a topic was deleted and created again",
    "__anything": "the state that a program keeps in it",
}
HEADRACE = [str(Path(sys.executable).with_name("headrace")), "topics", "rm"]
KAFKA_TOPICS = [str(Path(__file__).parents[2] / "bin" / "kafka-topics.sh"), "--delete"]


@pytest.fixture
def running() -> Iterator[RunningBroker]:
    with broker() as started:
        admin = AdminClient({"bootstrap.servers": started.bootstrap})
        for future in admin.create_topics([NewTopic(name, 1, 1) for name in (*LOST, "orders")]).values():
            future.result(30)
        yield started


def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def topics(running: RunningBroker) -> set[str]:
    return set(AdminClient({"bootstrap.servers": running.bootstrap}).list_topics(timeout=30).topics)


def test_headrace_topics_rm_needs_internal_and_says_what_is_lost(running: RunningBroker) -> None:
    for name, lost in LOST.items():
        refused = run([*HEADRACE, name, "orders", "--yes", "-b", running.bootstrap])
        assert refused.returncode == 1 and lost in refused.stderr and "--internal" in refused.stderr, refused.stderr
        assert "deleting" not in refused.stdout
    assert topics(running) >= {*LOST, "orders"}, "nothing of a refused call is deleted"
    for name, lost in LOST.items():
        done = run([*HEADRACE, name, "--internal", "--yes", "-b", running.bootstrap])
        assert done.returncode == 0 and lost in done.stdout, done.stderr
    assert topics(running) == {"orders"}


def test_kafka_topics_delete_needs_delete_internal_and_says_what_is_lost(running: RunningBroker) -> None:
    there = ["--bootstrap-server", running.bootstrap]
    for name, lost in LOST.items():
        refused = run([*KAFKA_TOPICS, "--topic", name, *there])
        assert refused.returncode == 1 and lost in refused.stdout + refused.stderr
    everything = run([*KAFKA_TOPICS, "--topic", ".*", *there])
    assert everything.returncode == 1 and "no topic was deleted" in everything.stdout + everything.stderr
    assert topics(running) >= {*LOST, "orders"}
    assert run([*KAFKA_TOPICS, "--topic", ".*", "--delete-internal", *there]).returncode == 0
    assert topics(running) == set()


def test_broker_deletes_an_internal_topic_on_request_like_kafka(running: RunningBroker) -> None:
    admin = AdminClient({"bootstrap.servers": running.bootstrap})
    for future in admin.delete_topics(list(LOST)).values():
        future.result(30)
    assert topics(running) == {"orders"}
