"""SQL over topics in the console: rows, a chart, errors, and what a statement may not do."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping

import pytest

from headrace.console.cluster.sql import Rows
from headrace.console.core.masking import Mask
from headrace.console.pages.sql import bars
from headrace.console.settings import ClusterAddress, ConsoleSettings
from headrace.web.login import Brokers
from tests.console.conftest import Scene
from tests.support.console import console_of
from tests.support.effort import is_long


def run(url: str, statement: str) -> tuple[int, Mapping[str, object]]:
    request = urllib.request.Request(f"{url}?{urllib.parse.urlencode({'q': statement})}")
    request.add_header("accept", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return int(answer.status), json.load(answer)["found"]
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["found"]


def test_a_statement_reads_topics_and_its_faults_are_sentences(scene: Scene) -> None:
    topic = scene.topic(2)
    scene.numbered(topic, 30)
    status, found = run(scene.page("/sql"), f'SELECT count(*) AS n, min("offset") AS first FROM "{topic}"')
    assert status == 200 and found["rows"] == [[30, 0]] and found["columns"] == ["n", "first"]
    status, found = run(scene.page("/sql"), f'SELECT no_such_column FROM "{topic}"')
    assert status == 422 and "no_such_column" in str(found["error"]) and "Traceback" not in str(found["error"])


# Each starts a process: the last ones run in the long form.
FORBIDDEN = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SET enable_external_access=true",
    "COPY (SELECT 1) TO '/tmp/written-by-sql.csv'",
    "SELECT * FROM read_text('/etc/hostname')",
    "ATTACH '/tmp/other.db'",
    "INSTALL httpfs",
]


@pytest.mark.parametrize("statement", FORBIDDEN if is_long() else FORBIDDEN[:2])
def test_a_statement_reaches_nothing_but_topics(scene: Scene, statement: str) -> None:
    status, found = run(scene.page("/sql"), statement)
    assert status == 422 and found["error"] and not found["rows"]


def test_masked_and_hidden_values_turn_sql_off(scene: Scene) -> None:
    address = (ClusterAddress("local", Brokers(scene.bootstrap)),)
    for settings in (ConsoleSettings(address, hides_values=True), ConsoleSettings(address, masks=(Mask.parse("*:x"),))):
        with console_of(settings) as url, urllib.request.urlopen(f"{url}/clusters/local/sql?q=SELECT+1") as answer:
            assert "SQL would show them" in answer.read().decode()


def test_numbers_by_a_name_become_bars() -> None:
    rows = Rows(("city", "orders"), ("string", "int64"), (("Graz", 2), ("Wien", 8)), False, 0.1)
    found = bars(rows)
    assert found is not None and [bar["width"] for bar in found["rows"]] == [25.0, 100.0]  # type: ignore[attr-defined]
    assert bars(Rows(("city",), ("string",), (("Graz",), ("Wien",)), False, 0.1)) is None
