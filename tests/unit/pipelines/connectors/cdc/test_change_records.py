"""Changes of a table become records with its schema; the schema follows the table."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from headrace.pipelines.connectors.cdc import change_records
from headrace.pipelines.connectors.cdc.change_records import ChangeRecords, TableEncoder
from headrace.pipelines.errors import PipelineError
from headrace.pipelines.schemas.encoding import Encoding
from headrace.serialization.record_decoder import RecordDecoder
from headrace.serialization.registry_client import RegistryClient
from headrace.testing.in_process import broker
from tests.support.registry import registry

NOW = datetime(2026, 8, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with broker() as running, registry(running.bootstrap) as started:
        yield started.url


def change(op: str, before: Any, after: Any) -> dict[str, Any]:
    texts = {side: None if row is None else json.dumps(row) for side, row in (("before", before), ("after", after))}
    return {"op": op, "table": "items", "position": 7, "number": 0, "committed_at": NOW, "key": "{}", **texts}


def changes_of(url: str, file: Path, kind: str, topic: str, *tables: str) -> ChangeRecords:
    encoding = Encoding.from_options({"encode": kind, "registry": url})
    return ChangeRecords(encoding, f"sqlite:///{file}", tables or ("items",), topic)


@pytest.mark.parametrize("kind", ["avro", "json", "protobuf"])
def test_added_and_dropped_columns_are_compatible_versions(url: str, tmp_path: Path, kind: str) -> None:
    client, file, topic = RegistryClient(url), tmp_path / "a.db", f"items-{kind}"
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT, gone TEXT)")
    encoder = TableEncoder(changes_of(url, file, kind, topic), "items")
    first = encoder.encode(change("insert", None, {"id": 1, "name": "pen", "gone": "x"}))
    with sqlite3.connect(file) as database:
        database.execute("ALTER TABLE items ADD COLUMN stock REAL")
        database.execute("ALTER TABLE items DROP COLUMN gone")
    wide = {"id": 1, "name": "pen", "stock": 2}
    second = encoder.encode(change("update", {"id": 1, "name": "pen"}, wide))
    # Another worker starts later, and a change from before the ALTER is still to be written.
    late = TableEncoder(changes_of(url, file, kind, topic), "items")
    third = late.encode(change("delete", {"id": 1, "name": "pen", "gone": "x"}, None))
    assert client.call("GET", f"/subjects/{topic}-value/versions") == [1, 2]
    decoder = RecordDecoder(client, native=True)
    found = [decoder.decode(topic, data).value for data in (first, second, third)]
    assert [each["op"] for each in found] == ["insert", "update", "delete"]
    assert {name: found[1]["after"][name] for name in wide} == wide
    assert (found[0]["after"]["gone"], found[2]["before"]["gone"], found[2]["after"]) == ("x", "x", None)


def test_two_tables_of_a_topic_have_subjects_of_their_own(url: str, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "a.db") as database:
        database.execute("CREATE TABLE items (id INTEGER PRIMARY KEY)")
    records = changes_of(url, tmp_path / "a.db", "avro", "many", "items", "public.others")
    assert records.subject("public.others") == "many-public_others"
    TableEncoder(records, "items").encode(change("insert", None, {"id": 1}))
    assert "many-items" in RegistryClient(url).call("GET", "/subjects")


def test_a_value_that_is_not_of_its_column_is_named(url: str, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "a.db") as database:
        database.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, count INTEGER)")
    encoder = TableEncoder(changes_of(url, tmp_path / "a.db", "avro", "wrong"), "items")
    with pytest.raises(PipelineError, match=r"table 'items': after.*count"):
        encoder.encode(change("insert", None, {"id": 1, "count": "many"}))


def test_every_type_of_the_catalogue_has_a_column_type() -> None:
    from headrace.pipelines.connectors.databases import _postgres_type, _sqlite_type

    declared = ("smallint", "integer", "bigint", "real", "double precision", "boolean", "date", "bytea", "jsonb",
                "timestamp without time zone", "timestamp with time zone")  # fmt: skip
    kinds = {_postgres_type(name, None, None) for name in declared} | {_postgres_type("numeric", 9, 2)}
    kinds |= {_postgres_type("numeric", None, None)}
    kinds |= {_sqlite_type(name) for name in ("INT", "TEXT", "BLOB", "REAL", "DATE")}
    assert all(change_records._arrow_type(kind) is not None for kind in kinds)


class RecordedFrame:
    """Takes the place of a Spark frame: keeps the function that Spark would send to its workers."""

    def __init__(self) -> None:
        self.function: bytes = b""
        self.columns = ""

    def mapInArrow(self, function: Any, schema: str) -> RecordedFrame:
        self.function, self.columns = cloudpickle.dumps(function), schema
        return self


def test_a_worker_encodes_arrow_batches_without_a_session(url: str, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "a.db") as database:
        database.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT)")
    records = changes_of(url, tmp_path / "a.db", "avro", "batches")
    frame = RecordedFrame()
    records.encoded(frame)
    rows = [{**change("insert", None, {"id": n, "name": "pen"}), "key": f'{{"id": {n}}}'} for n in (1, 2)]
    made = list(cloudpickle.loads(frame.function)(iter([pa.RecordBatch.from_pylist(rows)])))
    assert frame.columns == "key string, value binary"
    assert [batch.schema.types for batch in made] == [[pa.string(), pa.binary()]]
    assert made[0].column("key").to_pylist() == ['{"id": 1}', '{"id": 2}']
    decoder = RecordDecoder(RegistryClient(url), native=True)
    found = [decoder.decode("batches", data).value for data in made[0].column("value").to_pylist()]
    assert [each["after"] for each in found] == [{"id": 1, "name": "pen"}, {"id": 2, "name": "pen"}]
    assert found[0]["committed_at"] == NOW
