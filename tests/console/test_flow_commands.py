"""Stop, start and reset of a running flow from its page, with the runner without Spark. Spark's runner takes the same
commands (`tests/pipelines/test_flow_control.py`)."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from headrace.client.blocking.client import BlockingClient
from headrace.client.blocking.flow_commands import CommandReader, FlowCommand, give
from headrace.kernel.json_values import JsonValue
from headrace.pipelines.connectors.connector import load_connector
from headrace.pipelines.lite.run import LiteRun
from tests.console.conftest import Scene
from tests.console.test_pages import fetch_json, status_of
from tests.support.clock import wait_for
from tests.support.names import unique


class Flow:
    """A connector from one topic to another, `<name>.<name>` in the reports."""

    def __init__(self, scene: Scene, folder: Path, settings: str = "") -> None:
        self.scene, self.name = scene, unique("copy")
        self.source, self.target = scene.topic(), scene.topic()
        file = folder / f"{self.name}.yml"
        file.write_text(
            f"name: {self.name}\nbootstrap: {scene.bootstrap}\nstorage: {folder / self.name}\n"
            f"from: {{topic: {self.source}}}\nto: {{topic: {self.target}}}\n{settings}"
        )
        self.run = LiteRun(load_connector(file), lambda _: None, is_controlled=True)
        self.thread = threading.Thread(target=self.run.supervise, name=self.name)

    @property
    def key(self) -> str:
        return f"{self.name}.{self.name}"

    def page(self, action: str = "", **query: str) -> str:
        more = "".join(f"&{name}={value}" for name, value in query.items())
        return f"/pipeline{'/' + action if action else ''}?name={self.key}{more}"

    def shown(self) -> JsonValue:
        return fetch_json(self.scene.page(self.page()))

    def state(self) -> str:
        return str(fetch_json(self.scene.page(self.page()))["row"]["state"])

    def written(self) -> int:
        consumer = Consumer({"bootstrap.servers": self.scene.bootstrap, "group.id": unique("look")})
        _, end = consumer.get_watermark_offsets(TopicPartition(self.target, 0), timeout=10)
        consumer.close()
        return int(end)


@contextmanager
def running(scene: Scene, folder: Path, settings: str = "") -> Iterator[Flow]:
    flow = Flow(scene, folder, settings)
    flow.run.start()
    progress = flow.run.progress_of(flow.name)
    assert progress is not None
    progress.heartbeat_ms = 1000
    flow.thread.start()
    try:
        yield flow
    finally:
        flow.run.stop()
        flow.thread.join(30)
        assert not flow.thread.is_alive()


def test_a_flow_is_stopped_reset_with_a_preview_and_started(scene: Scene, tmp_path: Path) -> None:
    with running(scene, tmp_path) as flow:
        scene.numbered(flow.source, 10)
        wait_for(lambda: flow.shown()["offsets"] == [[flow.source, 0, 10]], "the flow to read ten records")
        wait_for(lambda: flow.shown()["row"]["takes_commands"], "the run to take commands")
        assert [name for name, _ in flow.shown()["commands"]] == ["stop", "replay"]
        assert "finishes its batch" in status_of(scene.page(flow.page("stop")))[1]
        status, text = scene.post(flow.page("stop"))
        assert status == 200 and f"{flow.key} is stopped." in text
        assert flow.state() == "stopped"
        scene.numbered(flow.source, 3)
        # It stays stopped, and the process goes on reporting.
        at_ms = flow.shown()["row"]["at_ms"]
        wait_for(lambda: flow.shown()["row"]["at_ms"] > at_ms, "a heartbeat of the stopped flow")
        assert flow.shown()["offsets"] == [[flow.source, 0, 10]]
        preview = fetch_json(scene.page(flow.page("reset", way="offset", value="4")))
        assert (preview["replayed"], preview["skipped"]) == (6, 0)
        assert preview["rows"][0][1] == 4
        status, text = scene.post(flow.page("reset"), way="offset", value="4")
        assert status == 200 and f"{flow.key} has new offsets." in text
        assert flow.shown()["offsets"] == [[flow.source, 0, 4]]
        status, text = scene.post(flow.page("start"))
        assert status == 200 and f"{flow.key} runs." in text
        wait_for(lambda: flow.shown()["offsets"] == [[flow.source, 0, 13]], "the flow to read from offset 4")
        assert flow.written() >= 10 + 9
        command = flow.shown()["last"]["command"]
        assert (command["action"], command["state"], command["by"]) == ("start", "done", "User:ANONYMOUS")


def test_a_running_flow_is_not_reset_and_a_runner_without_spark_replays_nothing(scene: Scene, tmp_path: Path) -> None:
    with running(scene, tmp_path) as flow:
        scene.numbered(flow.source, 2)
        wait_for(lambda: flow.shown()["offsets"] == [[flow.source, 0, 2]], "the flow to read")
        wait_for(lambda: flow.shown()["row"]["takes_commands"], "the run to take commands")
        status, text = status_of(scene.page(flow.page("reset")))
        assert status == 409 and "stop it before you reset it" in text
        status, text = scene.post(flow.page("replay"), way="earliest", until="now")
        assert status == 422 and "without Spark, which a replay needs" in text
        assert status_of(scene.page(flow.page("explode")))[0] == 404
    wait_for(lambda: not flow.shown()["row"]["takes_commands"], "the end of the run")
    status, text = status_of(scene.page(flow.page("start")))
    assert status == 409 and "takes commands now" in text


def test_a_pipeline_can_refuse_commands(scene: Scene, tmp_path: Path) -> None:
    with running(scene, tmp_path, 'configuration: {headrace.control: "false"}\n') as flow:
        scene.numbered(flow.source, 1)
        wait_for(lambda: flow.shown()["offsets"] == [[flow.source, 0, 1]], "the flow to read")
        assert flow.shown()["commands"] == []
        assert status_of(scene.page(flow.page("stop")))[0] == 409


@pytest.mark.parametrize("case", ["another run", "too old", "no command", "another flow"])
def test_only_a_fresh_command_for_this_run_is_obeyed(scene: Scene, tmp_path: Path, case: str) -> None:

    with BlockingClient(scene.bootstrap, client_id="test", timeout_s=10) as client:
        reader = CommandReader(client, "this-run")
        at_ms = int(time.time() * 1000) - (600_000 if case == "too old" else 0)
        run = "that-run" if case == "another run" else "this-run"
        command = FlowCommand("1", run, "shop.totals", "stop", "User:ann", at_ms)
        if case == "no command":
            scene.produce("__pipeline_commands", ("x", "{"), ("y", json.dumps({"action": "rm -rf", "at_ms": 1})))
            assert reader.read() == []
            return
        give(client, command)
        found = reader.read()
        if case == "another flow":
            # The reader gives it to the run, which has no such flow and leaves it.
            assert [one.flow for one in found] == ["shop.totals"] and reader.read() == []
        else:
            assert found == []
