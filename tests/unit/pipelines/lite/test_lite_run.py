"""Flows of a connector without Spark: what ends the run, and what does not."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

from headrace.pipelines.connectors.connector import load_connector
from headrace.pipelines.lite import run as lite_run
from headrace.pipelines.lite.run import LiteRun
from tests.support.clock import wait_for

_CONNECTOR = """
name: copy
from: {{file: {{path: {0}/in}}}}
select: SELECT value AS line FROM source
to: {{jdbc: {{url: "sqlite:///{0}/out.db", table: lines}}}}
storage: {0}/storage
trigger: 20 milliseconds
"""


def test_flow_waits_for_a_system_that_is_away_at_its_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The restart opens source and target again, which fails for as long as one of them is away."""
    monkeypatch.setattr(lite_run, "_FIRST_PAUSE_S", 0.02)
    incoming, away = tmp_path / "in", tmp_path / "away"
    incoming.mkdir()
    (incoming / "1").write_text("a\n")
    with sqlite3.connect(tmp_path / "out.db") as out:
        out.execute("CREATE TABLE lines (line TEXT)")
    file = tmp_path / "copy.yml"
    file.write_text(_CONNECTOR.format(tmp_path))
    said: list[str] = []
    run = LiteRun(load_connector(file), said.append)
    run.start()
    run._flows[0].pause_s = 0.02
    thread = threading.Thread(target=run.supervise)
    thread.start()

    def lines() -> list[tuple[str]]:
        with sqlite3.connect(tmp_path / "out.db") as found:
            return found.execute("SELECT line FROM lines").fetchall()

    try:
        wait_for(lambda: lines() == [("a",)], "the first batch")
        incoming.rename(away)
        wait_for(lambda: len(said) > 1 or not thread.is_alive(), "two failures")
        assert thread.is_alive(), said
        (away / "2").write_text("b\n")
        away.rename(incoming)
        wait_for(lambda: lines() == [("a",), ("b",)], "the batch after the restart")
    finally:
        run.stop()
        thread.join(30)


def test_a_table_gets_columns_that_begin_with_an_underscore(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1").write_text("a\n")
    with sqlite3.connect(tmp_path / "out.db") as out:
        out.execute("CREATE TABLE lines (_id TEXT PRIMARY KEY, line TEXT)")
    file = tmp_path / "copy.yml"
    selected = "SELECT value AS _id, value AS line FROM source"
    text = _CONNECTOR.format(tmp_path).replace("SELECT value AS line FROM source", selected)
    file.write_text(text.replace("table: lines", "table: lines, keys: [_id]"))
    run = LiteRun(load_connector(file), once=True)
    run.start()
    run.supervise()
    with sqlite3.connect(tmp_path / "out.db") as found:
        assert found.execute("SELECT * FROM lines").fetchall() == [("a", "a")]
