"""Commands that change something report it: as a sentence for people, with `-o json` and `-o yaml` for programs."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from confluent_kafka import Producer

from headrace.cli.support.reference import commands
from headrace.testing import RunningBroker
from tests.cli.conftest import Run

# They run until they are stopped, or print text for a shell or a file. `schemas export` writes JSON anyway.
WITHOUT_A_RESULT = {
    "start",
    "up",
    "demo wordcount",
    "demo run",
    "pipeline run",
    "tables run",
    "mirror run",
    "registry start",
    "console start",
    "top",
    "http start",
    "connect serve",
    "schemas export",
    "datagen show",
    "kafka",
    "completion",
}


def test_every_command_with_a_result_prints_it_as_json() -> None:
    without = {name for name, command in commands() if not any(p.name == "output" for p in command.params)}
    assert without == WITHOUT_A_RESULT


def json_of(headrace: Run, *words: str) -> Any:
    ran = headrace(*words, "-o", "json")
    assert ran.code == 0, ran
    assert yaml.safe_load(ran.out) == ran.json
    return ran.json


def test_topics_as_json(headrace: Run, running: RunningBroker) -> None:
    made = {"topic": "changes", "partitions": 1, "replication_factor": 1}
    create = ("topics", "create", "changes", "-p", "1")
    assert json_of(headrace, *create, "--dry-run") == {**made, "existed": False, "done": False}
    assert json_of(headrace, *create) == {**made, "existed": False, "done": True}
    assert json_of(headrace, *create, "--if-not-exists") == {**made, "existed": True, "done": False}
    grow = ("topics", "grow", "changes", "-p", "2", "--yes")
    assert json_of(headrace, *grow) == {"topic": "changes", "from": 1, "to": 2, "done": True}
    producer = Producer({"bootstrap.servers": running.bootstrap})
    producer.produce("changes", "value", partition=1)
    producer.flush(10)
    empty = ("topics", "empty", "changes", "--yes")
    rows = [{"partition": "changes-0", "before": 0}, {"partition": "changes-1", "before": 1}]
    assert json_of(headrace, *empty, "--dry-run") == [{**row, "done": False} for row in rows]
    assert json_of(headrace, *empty) == [{**row, "done": True} for row in rows]
    remove = ("topics", "rm", "changes", "--yes")
    assert json_of(headrace, *remove) == [{"topic": "changes", "partitions": 2, "records": 0, "done": True}]


def test_configs_and_quotas_as_json(headrace: Run, topic: str) -> None:
    resource = {"resource": f"topic/{topic}", "name": "retention.ms"}
    change = json_of(headrace, "configs", "set", f"topic/{topic}", "retention.ms=1000")
    assert change == [{**resource, "from": "604800000", "to": "1000", "done": True}]
    change = json_of(headrace, "configs", "unset", f"topic/{topic}", "retention.ms")
    assert change == [{**resource, "from": "1000", "to": None, "done": True}]
    limit = {"entity": f"client-id/{topic}", "quota": "producer_byte_rate"}
    change = json_of(headrace, "quotas", "set", limit["entity"], "producer_byte_rate=1024")
    assert change == [{**limit, "value": 1024.0, "done": True}]
    change = json_of(headrace, "quotas", "unset", limit["entity"], "producer_byte_rate")
    assert change == [{**limit, "value": None, "done": True}]


def test_groups_as_json(headrace: Run, topic: str) -> None:
    group = f"g-{topic}"
    moved = json_of(headrace, "groups", "reset", group, "--to", "end", "--topic", topic, "--yes")
    assert moved == [{"partition": f"{topic}-{n}", "from": None, "to": 0} for n in range(3)]
    gone = {"group": group, "positions": 3}
    assert json_of(headrace, "groups", "rm", group, "--dry-run") == {**gone, "done": False}
    assert json_of(headrace, "groups", "rm", group, "--yes") == {**gone, "done": True}


def test_contexts_as_json(headrace: Run) -> None:
    made = {"name": "here", "bootstrap": "127.0.0.1:9092"}
    assert json_of(headrace, "context", "add", "here", "127.0.0.1:9092") == {**made, "current": True, "done": True}
    assert json_of(headrace, "context", "use", "here") == {**made, "current": True, "done": True}
    assert json_of(headrace, "context", "rm", "here", "--yes") == {**made, "current": False, "done": True}


def test_confirmation_question_is_not_part_of_the_output(headrace: Run, topic: str) -> None:
    ran = headrace("topics", "rm", topic, "-o", "json", stdin="y\n")
    assert ran.out.startswith("[")
    assert ran.json == [{"topic": topic, "partitions": 3, "records": 0, "done": True}]
    assert f"would delete topic {topic}: 3 partitions, 0 records" in ran.err
    assert f"Delete {topic} for good?" in ran.err


def test_ending_a_transaction_reports_it_as_json(headrace: Run, running: RunningBroker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": running.bootstrap, "transactional.id": f"t-{topic}"})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(topic, "value", partition=0)
    producer.flush(10)
    ended = json_of(headrace, "transactions", "end", f"t-{topic}", "--yes")
    assert (ended["transactional_id"], ended["state"], ended["done"]) == (f"t-{topic}", "Ongoing", True)


@pytest.mark.parametrize("word", ["config", "topic"])
def test_written_files_are_reported_as_json(headrace: Run, word: str) -> None:
    command = ("configs", "init", "here") if word == "config" else ("pipeline", "init", "here")
    written = json_of(headrace, *command)
    assert written
    assert all(row["file"].startswith("here/") and row["done"] for row in written)
