"""`headrace connect serve` answers as a worker of Kafka Connect 4.3.0 does: the same requests to both, their statuses
and their JSON compared. `DIFFERENCES` has the answers that differ on purpose.

The texts of error messages are not compared. Values that only a worker knows (addresses, versions, traces) count as
equal. Both use the same Headrace brokers.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from tests.pipelines.conftest import Cluster
from tests.pipelines.connectors.test_connect_rest import serving_url
from tests.reference.connect import ReferenceConnect
from tests.reference.kafka import ReferenceUnavailable
from tests.support.clock import wait_for
from tests.support.effort import is_long

Answer = tuple[int, Any]
# By the label of a request: the answers of Kafka Connect and of Headrace, and why they differ. `...` is any JSON.
DIFFERENCES: Final[dict[str, tuple[object, object, str]]] = {
    "create": ({"tasks": []}, {"tasks": ...}, "here the tasks exist when the answer is written"),
    "put": ({"tasks": []}, {"tasks": ...}, "here the tasks exist when the answer is written"),
    "create paused": ({"tasks": []}, {"tasks": ...}, "here the tasks exist when the answer is written"),
    "status of paused": ({"tasks": []}, {"tasks": ...}, "here a paused connector has its task from the beginning"),
    "no config": (500, 400, "the request is wrong, not the worker"),
    "unknown field": (500, 400, "the request is wrong, not the worker"),
    "not json": (500, 400, "the request is wrong, not the worker"),
    "array": (500, 400, "the request is wrong, not the worker"),
    "list as a value": (500, 400, "the request is wrong, not the worker"),
    "initial state": (500, 400, "the request is wrong, not the worker"),
    "tasks": ({"config": {"task.class": ...}}, {"config": {}}, "a task is no Java class"),
    "offsets of the sink": ({"kafka_offset": ...}, {"kafka_offset": ...}, "records of transactions have offsets, too"),
    "alter negative": (500, 400, "the request is wrong, not the worker"),
    "alter other topic": (500, 400, "the request is wrong, not the worker"),
    "altered to null": ({"offsets": []}, {"offsets": ...}, "here null is the beginning of the topic"),
    "alter other file": (500, 400, "the request is wrong, not the worker"),
    "alter to no number": (500, 400, "the request is wrong, not the worker"),
    "validate unknown class": (500, 404, "the request is wrong, not the worker"),
    "validate": ({"groups": ..., "configs": ...}, {"groups": ..., "configs": ...}, "only given settings are listed"),
    "validate without topic": ({"groups": ..., "configs": ...}, {"groups": ..., "configs": ...}, "as above"),
    "settings of a class": (200, 404, "translations declare no settings"),
    "loggers": (200, 404, "one process has one level: --log-level"),
}
_VOLATILE: Final = {"worker_id", "version", "commit", "kafka_cluster_id", "trace", "message"}


@dataclass
class Side:
    """One of the two workers, with files and a topic of its own."""

    url: str
    folder: Path
    topic: str
    answers: dict[str, Answer] = field(default_factory=dict)

    @property
    def source(self) -> dict[str, str]:
        return {
            "connector.class": "FileStreamSource",
            "tasks.max": "1",
            "file": f"{self.folder}/in",
            "topic": self.topic,
        }

    @property
    def sink(self) -> dict[str, str]:
        return {"connector.class": "FileStreamSink", "file": f"{self.folder}/out", "topics": self.topic}

    def ask(self, method: str, path: str, body: object = None) -> Answer:
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=90) as answer:
                status, text = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read()
        plain = text.decode().replace(str(self.folder), "DIR").replace(self.topic, "TOPIC")
        return status, json.loads(plain) if plain else None

    def note(self, label: str, method: str, path: str, body: object = None) -> None:
        # A worker of Kafka Connect that rebalances asks its client to come again.
        def settled() -> Answer | None:
            answer = self.ask(method, path, body)
            return None if answer[0] == 409 and "rebalance" in answer[1]["message"] else answer

        self.answers[label] = wait_for(settled, label)

    def await_state(self, name: str, *states: str) -> None:
        def is_there() -> bool:
            status, found = self.ask("GET", f"/connectors/{name}/status")
            return status == 200 and [found["connector"]["state"], *[t["state"] for t in found["tasks"]]] == [*states]

        wait_for(is_there, lambda: f"{name} to be {states}: {self.ask('GET', f'/connectors/{name}/status')}")


def drive(side: Side) -> None:
    """Every request of the interface, right and wrong."""
    note, running = side.note, ("RUNNING", "RUNNING")
    (side.folder / "in").write_text("one\ntwo\n")
    _create(side)
    note("put", "PUT", "/connectors/out/config", side.sink)
    side.await_state("out", *running)
    note("put again", "PUT", "/connectors/out/config", side.sink)
    side.await_state("out", *running)
    _read(side)
    _unknown(side)
    note("pause", "PUT", "/connectors/in/pause")
    side.await_state("in", "PAUSED", "PAUSED")
    note("paused", "GET", "/connectors/in/status")
    note("pause again", "PUT", "/connectors/in/pause")
    note("resume", "PUT", "/connectors/in/resume")
    side.await_state("in", *running)
    note("restart", "POST", "/connectors/in/restart")
    side.await_state("in", *running)
    note("restart with tasks", "POST", "/connectors/in/restart?includeTasks=true")
    side.await_state("in", *running)
    note("restart what failed", "POST", "/connectors/in/restart?includeTasks=true&onlyFailed=true")
    note("restart task", "POST", "/connectors/in/tasks/0/restart")
    side.await_state("in", *running)
    note("restart task 7", "POST", "/connectors/in/tasks/7/restart")
    note("patch", "PATCH", "/connectors/in/config", {"batch.size": "5"})
    side.await_state("in", *running)
    note("patch away", "PATCH", "/connectors/in/config", {"batch.size": None})
    side.await_state("in", *running)
    _offsets(side)
    _validate(side)
    for label, method, path in (
        ("unknown path", "GET", "/nothing"),
        ("wrong method", "DELETE", "/connectors"),
        ("wrong method of status", "POST", "/connectors/in/status"),
        ("health", "GET", "/health"),
        ("loggers", "GET", "/admin/loggers"),
        ("delete", "DELETE", "/connectors/in"),
        ("delete again", "DELETE", "/connectors/in"),
    ):
        note(label, method, path)


def _create(side: Side) -> None:
    note, source = side.note, side.source
    note("root", "GET", "/")
    note("none", "GET", "/connectors")
    note("create", "POST", "/connectors", {"name": "in", "config": source})
    side.await_state("in", "RUNNING", "RUNNING")
    for label, body in (
        ("exists", {"name": "in", "config": source}),
        ("no class", {"name": "bad", "config": {"topic": "x"}}),
        ("unknown class", {"name": "bad", "config": {"connector.class": "NoSuch", "topic": "x"}}),
        ("no topic", {"name": "bad", "config": {"connector.class": "FileStreamSource", "file": "x"}}),
        ("other name", {"name": "bad", "config": {**source, "name": "other"}}),
        ("no name", {"config": source}),
        ("empty name", {"name": "", "config": source}),
        ("tasks.max is text", {"name": "bad", "config": {**source, "tasks.max": "zero"}}),
        ("tasks.max is 0", {"name": "bad", "config": {**source, "tasks.max": "0"}}),
        ("no config", {"name": "bad"}),
        ("unknown field", {"name": "bad", "config": source, "zzz": 1}),
        ("not json", b"{nope"),
        ("array", [1]),
        ("list as a value", {"name": "bad", "config": {**source, "topic": ["x"]}}),
        ("initial state", {"name": "bad", "config": source, "initial_state": "flying"}),
    ):
        note(label, "POST", "/connectors", body)
    later = {"name": "later", "config": {**source, "file": f"{side.folder}/later"}, "initial_state": "PAUSED"}
    note("create paused", "POST", "/connectors", later)
    wait_for(lambda: side.ask("GET", "/connectors/later/status")[0] == 200, "the status of the paused connector")
    note("status of paused", "GET", "/connectors/later/status")
    note("delete paused", "DELETE", "/connectors/later")
    wait_for(lambda: side.ask("GET", "/connectors")[1] == ["in"], "the paused connector to be gone")


def _read(side: Side) -> None:
    wait_for(lambda: side.ask("GET", "/connectors/in/topics")[1]["in"]["topics"], "the topic of the source")
    for label, path in (
        ("list", ""),
        ("expand", "?expand=status&expand=info"),
        ("expand nothing", "?expand=nope"),
        ("info", "/in"),
        ("config", "/in/config"),
        ("status", "/in/status"),
        ("tasks", "/in/tasks"),
        ("task", "/in/tasks/0/status"),
        ("task 7", "/in/tasks/7/status"),
        ("task x", "/in/tasks/x/status"),
        ("old tasks-config", "/in/tasks-config"),
        ("topics", "/in/topics"),
    ):
        side.note(label, "GET", f"/connectors{path}")
    side.note("forget topics", "PUT", "/connectors/in/topics/reset")


def _unknown(side: Side) -> None:
    entry = {"partition": {"filename": "x"}, "offset": {"position": 1}}
    for method, path, body in (
        ("GET", "", None), ("GET", "/config", None), ("GET", "/status", None), ("GET", "/tasks", None),
        ("GET", "/topics", None), ("PUT", "/topics/reset", None), ("GET", "/offsets", None),
        ("DELETE", "/offsets", None), ("PUT", "/pause", None), ("PUT", "/resume", None), ("PUT", "/stop", None),
        ("POST", "/restart", None), ("POST", "/restart?includeTasks=true", None), ("POST", "/tasks/0/restart", None),
        ("GET", "/tasks/0/status", None), ("DELETE", "", None), ("PATCH", "/config", {"a": "b"}),
        ("PATCH", "/offsets", {"offsets": [entry]}),
    ):  # fmt: skip
        side.note(f"unknown name: {method} {path}", method, f"/connectors/ghost{path}", body)


def _offsets(side: Side) -> None:
    note, part = side.note, {"kafka_topic": side.topic, "kafka_partition": 0}

    def altered(partition: object, offset: object) -> object:
        return {"offsets": [{"partition": partition, "offset": offset}]}

    for name in ("in", "out"):
        wait_for(lambda name=name: side.ask("GET", f"/connectors/{name}/offsets")[1]["offsets"], "offsets")
    note("offsets of the source", "GET", "/connectors/in/offsets")
    note("offsets of the sink", "GET", "/connectors/out/offsets")
    note("alter while running", "PATCH", "/connectors/out/offsets", altered(part, {"kafka_offset": 1}))
    note("reset while running", "DELETE", "/connectors/out/offsets")
    note("stop", "PUT", "/connectors/out/stop")
    side.await_state("out", "STOPPED")
    for label, path in (("stopped", "/status"), ("tasks of stopped", "/tasks"), ("info of stopped", "")):
        note(label, "GET", f"/connectors/out{path}")
    for label, body in (
        ("alter nothing", {}),
        ("alter an empty list", {"offsets": []}),
        ("alter other keys", altered({"x": 1}, {"kafka_offset": 1})),
        ("alter to a text", altered(part, {"kafka_offset": "x"})),
        ("alter negative", altered(part, {"kafka_offset": -4})),
        ("alter other topic", altered({**part, "kafka_topic": "nope"}, {"kafka_offset": 1})),
        ("alter", altered(part, {"kafka_offset": 1})),
    ):
        note(label, "PATCH", "/connectors/out/offsets", body)
    note("altered", "GET", "/connectors/out/offsets")
    note("alter to null", "PATCH", "/connectors/out/offsets", altered(part, None))
    note("altered to null", "GET", "/connectors/out/offsets")
    note("reset", "DELETE", "/connectors/out/offsets")
    note("after the reset", "GET", "/connectors/out/offsets")
    note("stop the source", "PUT", "/connectors/in/stop")
    side.await_state("in", "STOPPED")
    file = {"filename": f"{side.folder}/in"}
    note("alter the source", "PATCH", "/connectors/in/offsets", altered(file, {"position": 4}))
    note("altered source", "GET", "/connectors/in/offsets")
    note("alter other file", "PATCH", "/connectors/in/offsets", altered({"file": "x"}, {"position": 4}))
    note("alter to no number", "PATCH", "/connectors/in/offsets", altered(file, {"position": "x"}))
    note("reset the source", "DELETE", "/connectors/in/offsets")
    note("after the reset of the source", "GET", "/connectors/in/offsets")


def _validate(side: Side) -> None:
    path = "/connector-plugins/FileStreamSource/config/validate"
    given = {"name": "v", "connector.class": "FileStreamSource", "file": "x"}
    side.note("validate", "PUT", path, {**given, "topic": "t"})
    side.note("validate without topic", "PUT", path, given)
    side.note("validate another class", "PUT", path, {**given, "connector.class": "FileStreamSink"})
    other = path.replace("FileStreamSource", "NoSuch")
    side.note("validate unknown class", "PUT", other, {"name": "v", "connector.class": "NoSuch"})
    side.note("settings of a class", "GET", path.removesuffix("/validate"))


def comparable(value: object) -> object:
    """The JSON without what only one worker knows."""
    if isinstance(value, dict):
        return {key: "…" if key in _VOLATILE else comparable(inner) for key, inner in value.items()}
    return [comparable(one) for one in value] if isinstance(value, list) else value


def without(value: object, different: object) -> object:
    """`value` with the parts that `different` names removed; asserts that a part without `...` is as it says."""
    if isinstance(value, list):
        return [without(one, different) for one in value]
    if not isinstance(value, dict) or not isinstance(different, dict):
        return value
    kept: dict[str, object] = {}
    for key, inner in value.items():
        if key not in different:
            kept[key] = without(inner, different)
        elif isinstance(different[key], dict):
            kept[key] = without(inner, different[key])
        else:
            assert different[key] in (..., inner), f"{key}: {inner}"
    return kept


def entries_by_name(answer: Any) -> dict[str, Any]:
    return {entry["definition"]["name"]: entry for entry in answer["configs"]}


@pytest.mark.skipif(not is_long(), reason="a worker of Kafka Connect (HEADRACE_EFFORT=long)")
@pytest.mark.needs("kafka")
def test_answers_are_those_of_kafka_connect(headrace: Cluster, tmp_path: Path) -> None:
    sides: dict[str, Side] = {}

    def run(name: str, url: str) -> None:
        (tmp_path / name / "files").mkdir(parents=True, exist_ok=True)
        sides[name] = Side(url, tmp_path / name / "files", headrace.topic())
        drive(sides[name])

    (tmp_path / "ours").mkdir()
    with serving_url(headrace.bootstrap, tmp_path / "ours" / "data", "--lite") as url:
        run("ours", url)
    try:
        with ReferenceConnect(tmp_path / "worker", headrace.bootstrap) as worker:
            run("kafka", worker.url)
    except ReferenceUnavailable as unavailable:
        pytest.skip(str(unavailable))
    kafka, ours = sides["kafka"].answers, sides["ours"].answers
    assert list(kafka) == list(ours)
    different = {label: found for label in kafka if (found := difference(label, kafka[label], ours[label]))}
    assert different == {}
    assert set(DIFFERENCES) <= set(kafka)
    for label in ("validate", "validate without topic"):
        theirs, mine = (entries_by_name(answers[label][1]) for answers in (kafka, ours))
        for name, entry in mine.items():
            assert entry["definition"].keys() == theirs[name]["definition"].keys()
            assert entry["value"].keys() == theirs[name]["value"].keys()
            assert bool(entry["value"]["errors"]) == bool(theirs[name]["value"]["errors"]), (label, name)
    print(f"{len(kafka)} requests, {len(DIFFERENCES)} intended differences")


def difference(label: str, theirs: Answer, mine: Answer) -> str | None:
    """What differs and should not; None if the answers are the same."""
    expected = DIFFERENCES.get(label)
    if expected is not None and isinstance(expected[0], int):
        is_so = (theirs[0], mine[0]) == expected[:2]
        return None if is_so else f"Kafka Connect {theirs}, here {mine}, expected {expected[:2]}"
    one, other = comparable(theirs[1]), comparable(mine[1])
    if expected is not None:
        one, other = without(one, expected[0]), without(other, expected[1])
    return None if (theirs[0], one) == (mine[0], other) else f"Kafka Connect {theirs[0]} {one}, here {mine[0]} {other}"
