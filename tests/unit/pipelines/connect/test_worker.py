"""Connectors with several tasks: all of them stop, also if one takes long, and each has offsets of its own."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from headrace.kernel.json_values import JsonObject
from headrace.pipelines.connect import connector_task
from headrace.pipelines.connect.connector_store import PAUSED, STOPPED, ConnectorStore
from headrace.pipelines.connect.worker import Worker
from headrace.pipelines.connectors.connector import ConnectorSpec
from headrace.pipelines.errors import OptionError, PipelineError
from headrace.pipelines.lite.batch_log import BatchLog

_CONFIG = {
    "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
    "connection.url": "jdbc:sqlite:/tmp/never-opened.db",
    "table.whitelist": "a,b",
    "mode": "incrementing",
    "incrementing.column.name": "id",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


class _Run:
    """Stops when it is asked to and its batch is written."""

    def __init__(self) -> None:
        self.asked, self.batch_written = threading.Event(), threading.Event()

    def start(self) -> None:
        pass

    def supervise(self) -> None:
        self.asked.wait()
        self.batch_written.wait()

    def stop(self) -> None:
        self.asked.set()


@pytest.mark.parametrize("action", ["pause", "remove"])
def test_a_slow_task_keeps_no_other_task_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str) -> None:
    monkeypatch.setattr(connector_task, "_STOP_S", 0.05)
    runs: dict[str, _Run] = {}

    def runner(spec: ConnectorSpec) -> _Run:
        return runs.setdefault(spec.name, _Run())

    worker = Worker(ConnectorStore(tmp_path, "127.0.0.1:1"), runner, {}, lambda _: None)

    def act() -> None:
        worker.remove("shop") if action == "remove" else worker.set_state("shop", PAUSED)

    worker.create("shop", _CONFIG)
    while len(runs) < 2:
        threading.Event().wait(0.001)
    for _ in range(2):
        # The second request has to wait for the slow task as the first one did.
        with pytest.raises(PipelineError, match="has not stopped"):
            act()
    assert all(run.asked.is_set() for run in runs.values())
    assert worker.names() == ["shop"]
    for run in runs.values():
        run.batch_written.set()
    act()
    assert worker.names() == ([] if action == "remove" else ["shop"])


def test_offsets_of_one_table_of_several_are_altered(tmp_path: Path) -> None:
    worker = Worker(ConnectorStore(tmp_path, "127.0.0.1:1"), lambda _: _Run(), {}, lambda _: None)
    worker.create("shop", _CONFIG, STOPPED)
    for spec in worker.specs("shop"):
        log = BatchLog(spec.checkpoint)
        for after in (None, 7):
            log.finish(log.begin({"after": after}))

    def entry(name: str, after: int) -> JsonObject:
        return {"partition": {"connector": name}, "offset": {"after": after}}

    assert worker.offsets("shop") == [entry("shop-a", 7), entry("shop-b", 7)]
    worker.alter_offsets("shop", [entry("shop-b", 3)])
    assert worker.offsets("shop") == [entry("shop-a", 7), entry("shop-b", 3)]
    with pytest.raises(OptionError, match="shop-c"):
        worker.alter_offsets("shop", [entry("shop-a", 1), entry("shop-c", 1)])
    worker.alter_offsets("shop", worker.offsets("shop"))
    assert worker.offsets("shop") == [entry("shop-a", 7), entry("shop-b", 3)]
