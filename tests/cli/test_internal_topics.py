"""Commands, the console, the HTTP API and Python delete internal topics only with a flag, and say what is lost."""

from __future__ import annotations

import html
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from headrace import connect
from headrace.api.errors import NotPossible
from headrace.kernel.ids import INTERNAL_TOPICS
from headrace.testing import RunningBroker, broker
from tests.console.conftest import Scene
from tests.console.test_pages import status_of
from tests.support.console import console_on
from tests.support.http_api import http_api

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
# Brokers accept no records of clients for their own topics.
WRITABLE = [name for name in LOST if name not in INTERNAL_TOPICS]
HEADRACE = [str(Path(sys.executable).with_name("headrace")), "topics"]
BIN = Path(__file__).parents[2] / "bin"
KAFKA_TOPICS = [str(BIN / "kafka-topics.sh"), "--delete"]
KAFKA_DELETE_RECORDS = str(BIN / "kafka-delete-records.sh")


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
        refused = run([*HEADRACE, "rm", name, "orders", "--yes", "-b", running.bootstrap])
        assert refused.returncode == 1 and lost in refused.stderr and "--internal" in refused.stderr, refused.stderr
        assert "deleting" not in refused.stdout
    assert topics(running) >= {*LOST, "orders"}, "nothing of a refused call is deleted"
    for name, lost in LOST.items():
        done = run([*HEADRACE, "rm", name, "--internal", "--yes", "-b", running.bootstrap])
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


def produce(running: RunningBroker, *topics: str) -> None:
    producer = Producer({"bootstrap.servers": running.bootstrap})
    for topic in topics:
        producer.produce(topic, b"state")
    assert producer.flush(30) == 0


def records(running: RunningBroker, *topics: str) -> int:
    """The sum of all records of these topics."""
    admin = AdminClient({"bootstrap.servers": running.bootstrap})
    places = [TopicPartition(topic, 0) for topic in topics]
    first, end = (
        admin.list_offsets(dict.fromkeys(places, spec)) for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
    )
    return sum(end[place].result(30).offset - first[place].result(30).offset for place in places)


def test_topics_are_emptied_only_with_the_flag(running: RunningBroker, tmp_path: Path) -> None:
    produce(running, *WRITABLE)
    for name, lost in LOST.items():
        refused = run([*HEADRACE, "empty", name, "--yes", "-b", running.bootstrap])
        assert refused.returncode == 1 and lost in refused.stderr and "--internal" in refused.stderr, refused.stderr
    offsets = {"partitions": [{"topic": name, "partition": 0, "offset": 1} for name in WRITABLE], "version": 1}
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps(offsets))
    delete = [KAFKA_DELETE_RECORDS, "--bootstrap-server", running.bootstrap, "--offset-json-file", str(file)]
    refused = run(delete)
    assert refused.returncode == 1
    assert all(LOST[name] in refused.stdout + refused.stderr for name in WRITABLE), refused.stdout + refused.stderr
    assert records(running, *WRITABLE) == len(WRITABLE), "nothing of a refused call is deleted"
    emptied = run([*HEADRACE, "empty", "_schemas", "--internal", "--yes", "-b", running.bootstrap])
    assert emptied.returncode == 0 and LOST["_schemas"] in emptied.stdout, emptied.stderr
    assert records(running, "_schemas") == 0
    assert run([*delete, "--delete-internal"]).returncode == 0
    assert records(running, *WRITABLE) == 0


def test_python_deletes_an_internal_topic_only_with_internal(running: RunningBroker) -> None:
    with connect(running.bootstrap) as cluster:
        for name, lost in LOST.items():
            with pytest.raises(NotPossible, match=f"{lost}.*internal=True"):
                cluster.topics.delete(name)
        assert topics(running) >= {*LOST, "orders"}
        for name in LOST:
            cluster.topics.delete(name, internal=True)
    assert topics(running) == {"orders"}


def test_the_http_api_deletes_an_internal_topic_only_with_internal(running: RunningBroker) -> None:
    with http_api(running.bootstrap) as api:
        cluster = api.ask("GET", "/v3/clusters")[1]["data"][0]["cluster_id"]
        for name, lost in LOST.items():
            status, answer = api.ask("DELETE", f"/v3/clusters/{cluster}/topics/{name}")
            assert status == 400 and lost in answer["message"] and "?internal=true" in answer["message"]
        assert topics(running) >= {*LOST, "orders"}
        for name in LOST:
            assert api.ask("DELETE", f"/v3/clusters/{cluster}/topics/{name}?internal=true")[0] == 204
    assert topics(running) == {"orders"}


def test_the_console_changes_an_internal_topic_only_with_a_checked_box(running: RunningBroker) -> None:
    produce(running, *WRITABLE)
    with console_on(running.bootstrap) as url:
        scene = Scene(running.bootstrap, url)
        for name, lost in LOST.items():
            for action in ("empty", "delete"):
                page = f"/topics/{name}/{action}"
                assert html.escape(lost) in status_of(scene.page(page))[1]
                status, text = scene.post(page, name=name)
                assert status == 422 and "check the box" in text
        assert records(running, *WRITABLE) == len(WRITABLE)
        assert scene.post("/topics/_schemas/empty", internal="1")[0] == 200
        assert records(running, "_schemas") == 0
        for name in LOST:
            assert scene.post(f"/topics/{name}/delete", name=name, internal="1")[0] == 200
    assert topics(running) == {"orders"}


def test_broker_deletes_an_internal_topic_on_request_like_kafka(running: RunningBroker) -> None:
    admin = AdminClient({"bootstrap.servers": running.bootstrap})
    for future in admin.delete_topics(list(LOST)).values():
        future.result(30)
    assert topics(running) == {"orders"}
