"""`headrace connect serve` driven over Kafka Connect's REST interface, as tools for Kafka Connect drive it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.conftest import Cluster
from tests.pipelines.test_sink import values_of
from tests.support.clock import wait_for
from tests.support.effort import is_long

_ROOT = Path(__file__).resolve().parents[3]
Ask = Callable[..., tuple[int, Any]]


@contextmanager
def serving_url(bootstrap: str, data: Path, *more: str) -> Iterator[str]:
    command = [sys.executable, "-m", "headrace.cli", "connect", "serve", "--listen", "127.0.0.1:0", "--data", str(data)]
    environment = {**os.environ, "PYTHONPATH": str(_ROOT / "src"), "HEADRACE_BOOTSTRAP": bootstrap}
    with (data.parent / "serve.log").open("a") as log:
        process = subprocess.Popen([*command, *more], env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "Kafka Connect ready on " in line, (data.parent / "serve.log").read_text()
    try:
        yield line.split()[-1]
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(90) == 0, (data.parent / "serve.log").read_text()
        process.stdout.close()


@contextmanager
def serving(bootstrap: str, data: Path, *more: str) -> Iterator[Ask]:
    with serving_url(bootstrap, data, *more) as url:

        def ask(method: str, path: str, body: object = None) -> tuple[int, Any]:
            sent = None if body is None else json.dumps(body).encode()
            request = urllib.request.Request(url + path, sent, {"Content-Type": "application/json"}, method=method)
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    text = answer.read()
                    return answer.status, json.loads(text) if text else None
            except urllib.error.HTTPError as error:
                text = error.read()
                return error.code, json.loads(text) if text else None

        yield ask


def state(ask: Ask, name: str) -> list[str]:
    status, found = ask("GET", f"/connectors/{name}/status")
    assert status == 200
    return [found["connector"]["state"], *[task["state"] for task in found["tasks"]]]


def drive(headrace: Cluster, data: Path, *options: str) -> None:
    """A source and a sink through their whole life, and a restart of the worker."""
    topic = headrace.topic()
    lines, copy = data.parent / "app.log", data.parent / "copy.txt"
    lines.write_text("one\ntwo\n")
    source = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(lines), "topic": topic}
    sink = {"connector.class": "FileStreamSink", "file": str(copy), "topics": topic}

    def copied(*wanted: str) -> None:
        wait_for(lambda: copy.exists() and copy.read_text().split() == list(wanted), lambda: f"{wanted} in {copy}")

    with serving(headrace.bootstrap, data, *options) as ask:
        assert ask("GET", "/connectors") == (200, [])
        status, root = ask("GET", "/")
        assert status == 200 and set(root) == {"version", "commit", "kafka_cluster_id"}
        status, made = ask("POST", "/connectors", {"name": "in", "config": source})
        assert (status, made["type"], made["tasks"]) == (201, "source", [{"connector": "in", "task": 0}])
        assert made["config"] == {"name": "in", **source}
        assert ask("POST", "/connectors", {"name": "in", "config": source})[0] == 409
        assert ask("PUT", "/connectors/out/config", sink)[0] == 201
        copied("one", "two")
        wait_for(lambda: state(ask, "out") == ["RUNNING", "RUNNING"], "the sink to run")
        assert ask("PUT", "/connectors/in/pause")[0] == 202
        assert state(ask, "in") == ["PAUSED", "PAUSED"]
        with lines.open("a") as file:
            file.write("three\n")
        assert ask("PUT", "/connectors/in/resume")[0] == 202
        copied("one", "two", "three")
        assert ask("GET", "/connectors/in/offsets")[1] == {
            "offsets": [{"partition": {"filename": str(lines)}, "offset": {"position": 14}}]
        }
        status, answer = ask("POST", "/connectors/in/restart?includeTasks=true")
        assert (status, answer["connector"]["state"], answer["tasks"][0]["state"]) == (202, "RESTARTING", "RESTARTING")
        assert ask("POST", "/connectors/in/tasks/0/restart")[0] == 204
        assert ask("POST", "/connectors/in/tasks/7/restart")[0] == 404
        assert ask("GET", "/connectors/in/topics") == (200, {"in": {"topics": [topic]}})
        everything = ask("GET", "/connectors?expand=status&expand=info")[1]
        assert {name: set(entry) for name, entry in everything.items()} == {
            "in": {"status", "info"},
            "out": {"status", "info"},
        }
        assert ask("PATCH", "/connectors/out/offsets", {"offsets": [{"partition": {}, "offset": None}]})[0] == 400
        assert ask("PUT", "/connectors/out/stop")[0] == 204
        assert state(ask, "out") == ["STOPPED"]
        part = {"kafka_topic": topic, "kafka_partition": 0}
        (entry,) = ask("GET", "/connectors/out/offsets")[1]["offsets"]
        assert entry["partition"] == part and entry["offset"]["kafka_offset"] >= 3
        # Records of transactions are between, so the second line is at offset 1.
        altered = {"offsets": [{"partition": part, "offset": {"kafka_offset": 1}}]}
        assert ask("PATCH", "/connectors/out/offsets", altered)[0] == 200
        assert ask("PUT", "/connectors/out/resume")[0] == 202
        copied("one", "two", "three", "two", "three")
    with serving(headrace.bootstrap, data, *options) as ask:
        with lines.open("a") as file:
            file.write("four\n")
        copied("one", "two", "three", "two", "three", "four")
        assert ask("PUT", "/connectors/out/stop")[0] == 204
        copy.unlink()
        assert ask("DELETE", "/connectors/out/offsets")[0] == 200
        assert ask("GET", "/connectors/out/offsets")[1] == {"offsets": []}
        assert ask("PUT", "/connectors/out/resume")[0] == 202
        copied("one", "two", "three", "four")
        for name in ("in", "out"):
            assert ask("DELETE", f"/connectors/{name}")[0] == 204
        assert ask("GET", "/connectors") == (200, [])
        assert ask("GET", "/connectors/in/status")[0] == 404
        # A connector that is created again under its name continues, as in Kafka Connect.
        with lines.open("a") as file:
            file.write("five\n")
        for name, config in (("in", source), ("out", sink)):
            assert ask("PUT", f"/connectors/{name}/config", config)[0] == 201
        copied("one", "two", "three", "four", "five")
    assert values_of(headrace, topic) == {b"one": 1, b"two": 1, b"three": 1, b"four": 1, b"five": 1}


def test_connectors_without_spark_are_driven_over_rest(headrace: Cluster, tmp_path: Path) -> None:
    drive(headrace, tmp_path / "data", "--lite")


@pytest.mark.skipif(not is_long(), reason="long: Spark starts twice")
def test_connectors_in_one_spark_session_are_driven_over_rest(headrace: Cluster, tmp_path: Path) -> None:
    drive(headrace, tmp_path / "data", "--master", "local[2]")


def test_wrong_requests_and_failed_tasks_are_explained(headrace: Cluster, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with serving(headrace.bootstrap, tmp_path / "data", "--lite") as ask:
        status, answer = ask("POST", "/connectors", {"name": "x", "config": {"connector.class": "Nothing"}})
        assert status == 400 and "connector.class 'Nothing' is not known" in answer["message"]
        status, answer = ask("POST", "/connectors", {"name": "../x", "config": {"connector.class": "FileStreamSource"}})
        assert status == 400 and "connector name '../x'" in answer["message"]
        status, answer = ask("PUT", "/connectors/x/config", {"name": "y"})
        assert (status, answer["message"]) == (
            400,
            "Connector name configuration (y) doesn't match connector name in the URL (x)",
        )
        assert ask("GET", "/connectors/x") == (404, {"error_code": 404, "message": "Connector x not found"})
        own = {"connector.class": "headrace", "connector.yaml": "from:\n  file: {path: nowhere}\nto: console\n"}
        assert ask("PUT", "/connectors/bad/config", own)[0] == 201
        wait_for(lambda: state(ask, "bad") == ["RUNNING", "FAILED"], "the task to fail")
        trace = ask("GET", "/connectors/bad/tasks/0/status")[1]["trace"]
        assert trace.endswith("nowhere does not exist")
        assert ask("PATCH", "/connectors/bad/config", {"connector.yaml": None})[0] == 400
        classes = {one["class"]: one["type"] for one in ask("GET", "/connector-plugins")[1]}
        assert classes["io.debezium.connector.postgresql.PostgresConnector"] == "source"
        name = "org.apache.kafka.connect.file.FileStreamSinkConnector"
        config = {"name": "v", "connector.class": name, "topics": "t", "surprise": "1"}
        status, answer = ask("PUT", f"/connector-plugins/{name}/config/validate", config)
        errors = {one["value"]["name"]: one["value"]["errors"] for one in answer["configs"] if one["value"]["errors"]}
        assert (status, answer["error_count"]) == (200, 2)
        assert errors == {"file": ["file is missing"], "surprise": ["the setting surprise is not supported"]}
        status, answer = ask(
            "PUT", f"/connector-plugins/{name}/config/validate", {**config, "file": "f", "surprise": None}
        )
        assert answer["error_count"] == 0
        assert ask("PUT", "/connector-plugins/Nothing/config/validate", {})[0] == 404
        held = {"connector.class": "FileStreamSink", "file": "f", "topics": "t"}
        body = {"name": "held", "config": held, "initial_state": "STOPPED"}
        assert ask("POST", "/connectors", body)[0] == 201
        assert state(ask, "held") == ["STOPPED"]
        # As a worker of Kafka Connect answers (test_connect_reference.py).
        assert ask("GET", "/connectors/held/tasks") == (200, [])
        assert ask("POST", "/connectors", {**body, "name": "other", "surprise": 1})[0] == 400
        for count in ("zero", "0"):
            assert ask("PUT", "/connectors/other/config", {**held, "tasks.max": count})[0] == 400
        assert (
            ask("PUT", f"/connector-plugins/{name}/config/validate", {"connector.class": "FileStreamSource"})[0] == 400
        )
        assert ask("GET", "/connectors/ghost/topics") == (200, {"ghost": {"topics": []}})
        assert ask("GET", "/health")[1]["status"] == "healthy"
        assert "version" in ask("GET", "/connectors/held/status")[1]["connector"]
