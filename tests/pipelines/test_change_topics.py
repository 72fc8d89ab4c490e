"""Changes of a database as records: keys, tombstones, Debezium's envelope."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest

from headrace.pipelines.connectors.cdc.change_topics import topic_changes
from headrace.pipelines.connectors.cdc.pgoutput import Change
from headrace.pipelines.connectors.cdc.source import CHANGE_COLUMNS, change_row
from headrace.pipelines.errors import OptionError

_AT = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)


@pytest.fixture(scope="module")
def changes(spark: Any) -> Any:
    at_ms = int(_AT.timestamp() * 1000)
    made = [
        Change("insert", "public.t", None, {"id": 1, "name": 'it\'s "x"'}, ("id",), 10, 0, at_ms),
        Change("update", "public.t", {"id": 1}, {"id": 2, "name": None}, ("id",), 11, 0, at_ms),
        Change("delete", "public.t", {"id": 2, "name": None}, None, ("id",), 12, 0, at_ms),
        Change("truncate", "public.t", None, None, ("id",), 13, 0, at_ms),
    ]
    return spark.createDataFrame([change_row(change) for change in made], CHANGE_COLUMNS)


def records(frame: Any) -> list[tuple[Any, Any]]:
    return [
        (row.key and json.loads(row.key), None if row.value is None else json.loads(row.value))
        for row in frame.collect()
    ]


def test_changed_key_is_a_delete_and_an_insert_with_tombstones(changes: Any) -> None:
    found = records(topic_changes(changes, tombstones=True, envelope="headrace", place="x"))
    assert [(key, value and value["op"]) for key, value in found] == [
        ({"id": 1}, "insert"),
        ({"id": 1}, "delete"),
        ({"id": 1}, None),
        ({"id": 2}, "insert"),
        ({"id": 2}, "delete"),
        ({"id": 2}, None),
        (None, "truncate"),
    ]
    assert json.loads(found[3][1]["after"]) == {"id": 2, "name": None}
    without = records(topic_changes(changes, tombstones=False, envelope="headrace", place="x"))
    assert [value["op"] for _, value in without] == ["insert", "delete", "insert", "delete", "truncate"]


def test_debezium_envelope(changes: Any) -> None:
    found = [value for _, value in records(topic_changes(changes, tombstones=False, envelope="debezium", place="x"))]
    at_ms = int(_AT.timestamp() * 1000)
    source = {"connector": "headrace", "table": "public.t", "lsn": 10, "ts_ms": at_ms, "snapshot": "false"}
    after = {"id": 1, "name": 'it\'s "x"'}
    assert found[0] == {"before": None, "after": after, "source": source, "op": "c", "ts_ms": at_ms}
    assert [value["op"] for value in found] == ["c", "d", "c", "d", "t"]
    with pytest.raises(OptionError, match="envelope 'debezum' must be headrace or debezium"):
        topic_changes(changes, tombstones=False, envelope="debezum", place="x")
