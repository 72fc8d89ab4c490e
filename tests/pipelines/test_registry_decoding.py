"""Rows of a topic by the schemas of a registry: typed columns in, encoded records out, on a real Spark."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from headrace.pipelines.connectors.connector import connector_run, load_connector
from headrace.pipelines.connectors.databases import Database
from headrace.pipelines.decode import dead_letters
from headrace.pipelines.errors import OptionError
from headrace.pipelines.options import SourceOptions
from headrace.records.builder import Record
from headrace.serialization.record_encoder import RecordEncoder
from headrace.serialization.registry_client import RegistryClient
from tests.pipelines.conftest import Cluster
from tests.pipelines.test_sink import values_of
from tests.support.registry import registry

FIRST = """{"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "int"}, {"name": "item", "type": "string"}]}"""
SECOND = """{"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"}, {"name": "item", "type": "string"},
    {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}],
     "default": null},
    {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": null}]}"""
NESTED = """{"type": "record", "name": "Basket", "fields": [
    {"name": "lines", "type": {"type": "array", "items":
        {"type": "record", "name": "Line", "fields": [
            {"name": "name", "type": "string"}, {"name": "tags", "type": {"type": "map", "values": "int"}}]}}},
    {"name": "first", "type": ["null", "Line"]},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}}]}"""


@pytest.fixture(scope="module")
def url(headrace: Cluster) -> Iterator[str]:
    with registry(headrace.bootstrap) as running:
        yield running.url


@pytest.fixture(scope="module")
def client(url: str) -> RegistryClient:
    return RegistryClient(url)


def fill(headrace: Cluster, topic: str, *values: bytes | None, headers: Any = ()) -> None:
    now = int(time.time() * 1000)
    headrace.write(topic, [Record(b"k", value, headers, timestamp_ms=now) for value in values])


def source(headrace: Cluster, url: str, topic: str, **more: str) -> dict[str, str]:
    return headrace.options(subscribe=topic, startingOffsets="earliest", decode="registry", registry=url, **more)


def test_mixed_versions_tombstones_and_bad_records_in_one_batch(
    spark: Any, headrace: Cluster, url: str, client: RegistryClient, tmp_path: Path
) -> None:
    topic = headrace.topic()
    old = RecordEncoder(client, schema=FIRST).encode(topic, {"id": 1, "item": "a"})
    now = datetime(2026, 8, 1, 12, 0, 0, 5000, tzinfo=UTC)
    new = RecordEncoder(client, schema=SECOND)
    later = new.encode(topic, {"id": 2**40, "item": "b", "price": "1.50", "at": now})
    made = new.encode_with_header(topic, {"id": 3, "item": "by header"})
    fill(headrace, topic, old, None, b"broken", later, old[:-1], old)
    fill(headrace, topic, made.data, headers=(made.header,))
    options = source(headrace, url, topic)
    frame = spark.read.format("headrace").options(**options).load()
    assert frame.schema.simpleString().startswith(
        "struct<id:bigint,item:string,price:decimal(9,2),at:timestamp,_error:string,_source:struct<key:binary,"
    )
    rows = frame.orderBy("_source.offset").collect()
    assert [(row.id, row.item) for row in rows] == [
        (1, "a"), (None, None), (None, None), (2**40, "b"), (None, None), (1, "a"), (3, "by header"),
    ]  # fmt: skip
    assert (rows[3].price, rows[3]["at"].astimezone(UTC)) == (Decimal("1.50"), now)
    assert [row._error is None for row in rows] == [True, True, False, True, False, True, True]
    assert "no schema id" in rows[2]._error
    assert rows[1]._source.value is None
    # The same as a stream, with dead letters as for JSON.
    stream = spark.readStream.format("headrace").options(**options).load()
    dead = dead_letters(stream).writeStream.format("headrace").options(**headrace.options())
    headrace.client.create_topic(f"{topic}.dlq", 1)
    dead.option("checkpointLocation", str(tmp_path / "dead")).trigger(availableNow=True).start().awaitTermination()
    letters = spark.read.format("headrace").options(**headrace.options(subscribe=f"{topic}.dlq")).load().collect()
    assert [bytes(row.value) for row in letters] == [b"broken", old[:-1]]
    # An older version as the reader.
    first = spark.read.format("headrace").options(**source(headrace, url, topic, schemaVersion="1")).load()
    assert first.columns == ["id", "item", "_error", "_source"]
    found = first.orderBy("_source.offset").collect()
    assert (found[0].id, found[5].item) == (1, "a")
    assert "reader's schema" in found[3]._error  # a long does not fit an int


def test_nested_avro_json_and_protobuf_are_typed_columns(
    spark: Any, headrace: Cluster, url: str, client: RegistryClient
) -> None:
    basket = {"lines": [{"name": "pen", "tags": {"a": 1}}], "first": None, "day": "2026-08-01"}
    topic = headrace.topic()
    fill(headrace, topic, RecordEncoder(client, schema=NESTED).encode(topic, basket))
    frame = spark.read.format("headrace").options(**source(headrace, url, topic)).load()
    assert frame.selectExpr("lines[0].name", "lines[0].tags['a']", "first", "string(day)").collect()[0] == (
        "pen", 1, None, "2026-08-01",
    )  # fmt: skip
    text = json.dumps(
        {
            "type": "object",
            "properties": {"id": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}},
        }
    )
    topic = headrace.topic()
    fill(headrace, topic, RecordEncoder(client, "JSON", schema=text).encode(topic, {"id": 5, "tags": ["x", "y"]}))
    frame = spark.read.format("headrace").options(**source(headrace, url, topic)).load()
    assert frame.select("id", "tags").collect() == [(5, ["x", "y"])]
    proto = """syntax = "proto3"; import "google/protobuf/timestamp.proto";
        message Order { int64 id = 1; google.protobuf.Timestamp at = 2; map<string, int32> counts = 3;
        repeated Line lines = 4; uint64 big = 5; } message Line { string name = 1; optional bool done = 2; }"""
    topic = headrace.topic()
    encoder = RecordEncoder(client, "PROTOBUF", schema=proto)
    fill(
        headrace,
        topic,
        encoder.encode(topic, {"id": 1, "lines": [{"name": "pen"}], "counts": {"a": 2}, "big": 2**64 - 1}),
    )
    frame = spark.read.format("headrace").options(**source(headrace, url, topic)).load()
    row = frame.collect()[0]
    assert (row.id, row["at"], row.counts, row.big) == (1, None, {"a": 2}, Decimal(2**64 - 1))
    assert (row.lines[0].name, row.lines[0].done) == ("pen", None)


def test_options_that_cannot_work_are_refused_with_their_name(headrace: Cluster, url: str) -> None:
    for options, why in [
        ({"subscribe": "a,b", "decode": "registry", "registry": url}, "name the reader's subject"),
        ({"subscribe": "a", "decode": "avro"}, 'must be "registry"'),
        ({"subscribe": "a", "decode": "registry"}, 'option "registry" is missing'),
        ({"subscribe": "a", "registry": url}, 'needs option "decode"'),
        (
            {"subscribe": "a", "decode": "registry", "registry": url, "schemaVersion": "x"},
            "must be latest, or a number",
        ),
        ({"subscribe": "a", "decode": "registry", "registry": "ftp://x"}, "must be http://HOST:PORT"),
    ]:
        with pytest.raises(OptionError, match=why):
            SourceOptions.parse(headrace.options(**options), streaming=False)


@pytest.mark.parametrize("kind", ["avro", "json", "protobuf"])
def test_encoded_rows_register_their_schema_and_are_read_back(
    spark: Any, headrace: Cluster, url: str, client: RegistryClient, kind: str
) -> None:
    topic = headrace.topic()
    sink = headrace.options(topic=topic, encode=kind, registry=url)
    moment = "timestamp '2026-08-01 12:00:00'"
    frame = spark.sql(f"SELECT 'k' AS key, 1L AS id, 'a' AS item, {moment} AS at, array(1, 2) AS counts")
    frame.write.format("headrace").options(**sink).mode("append").save()
    # A new column is a new compatible version; a struct `value` that is null is a tombstone.
    wider = frame.selectExpr("key", "struct(id, item, at, counts, map('x', 1.5D) AS prices) AS value")
    wider.unionByName(wider.selectExpr("key", "CAST(NULL AS struct<id: bigint, item: string, at: timestamp, "
        "counts: array<int>, prices: map<string, double>>) AS value")).coalesce(1).write.format("headrace").options(
        **sink).mode("append").save()  # fmt: skip
    assert client.call("GET", f"/subjects/{topic}-value/versions") == [1, 2]
    found = spark.read.format("headrace").options(**source(headrace, url, topic)).load()
    rows = found.orderBy("_source.offset").collect()
    assert [row._error for row in rows] == [None] * 3
    assert [(row.id, row.item, row.counts, row.prices or None) for row in rows] == [
        (1, "a", [1, 2], None), (1, "a", [1, 2], {"x": 1.5}), (None, None, None, None),
    ]  # fmt: skip
    assert [row._source.value is None for row in rows] == [False, False, True]


def test_rows_are_written_with_a_given_or_the_latest_schema(
    spark: Any, headrace: Cluster, url: str, client: RegistryClient
) -> None:
    topic = headrace.topic()
    sink = headrace.options(topic=topic, encode="avro", registry=url)
    rows = spark.sql("SELECT 1 AS id, 'a' AS item")
    rows.write.format("headrace").options(**sink, schema=FIRST).mode("append").save()
    rows.write.format("headrace").options(**sink, schema="latest").mode("append").save()
    assert [each.version for each in (client.latest(f"{topic}-value"),)] == [1]
    found = spark.read.format("headrace").options(**source(headrace, url, topic)).load()
    assert found.select("id", "item", "_error").collect() == [(1, "a", None)] * 2
    with pytest.raises(Exception, match="a row does not fit the schema: id: 'x' is no int"):
        spark.sql("SELECT 'x' AS id, 'a' AS item").write.format("headrace").options(**sink, schema="latest").mode(
            "append"
        ).save()
    with pytest.raises(Exception, match="incompatible with an earlier schema"):
        spark.sql("SELECT 'x' AS id, 2 AS item").write.format("headrace").options(**sink).mode("append").save()


def test_a_connector_decodes_selects_and_encodes(
    spark: Any, headrace: Cluster, url: str, client: RegistryClient, tmp_path: Path
) -> None:
    first, second = headrace.topic(), headrace.topic()
    headrace.client.create_topic(f"{first}.dlq", 1)
    encoder = RecordEncoder(client, schema=FIRST)
    fill(
        headrace,
        first,
        encoder.encode(first, {"id": 1, "item": "a"}),
        b"bad",
        encoder.encode(first, {"id": 20, "item": "b"}),
    )
    (tmp_path / "order.avsc").write_text(SECOND)
    file = tmp_path / "c.yml"
    file.write_text(f"""
name: c
bootstrap: {headrace.bootstrap}
from:
  topic: {{name: {first}, decode: registry, registry: "{url}"}}
select: SELECT id, item, CAST(9.5 AS DECIMAL(9, 2)) AS price FROM source WHERE id > 10
to:
  topic: {{name: {second}, key: id, schema: order.avsc, registry: "{url}"}}
""")
    run = connector_run(load_connector(file), spark, once=True, report=lambda _: None)
    run.start()
    run.supervise()
    found = spark.read.format("headrace").options(**source(headrace, url, second)).load().collect()
    assert [(row.id, row.item, row.price, bytes(row._source.key)) for row in found] == [
        (20, "b", Decimal("9.50"), b"20")
    ]
    assert client.latest(f"{second}-value").version == 1
    assert set(values_of(headrace, f"{first}.dlq")) == {b"bad"}


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_changes_of_a_table_register_its_schema_and_a_new_column_is_a_new_version(
    spark: Any, headrace: Cluster, url: str, client: RegistryClient, request: Any, tmp_path: Path, kind: str
) -> None:
    topic = headrace.topic()
    database = Database(f"sqlite:///{tmp_path}/s.db" if kind == "sqlite" else request.getfixturevalue("postgres"))
    price = "REAL" if kind == "sqlite" else "NUMERIC(9, 2)"
    with database.connect() as connection:
        connection.execute(f"CREATE TABLE priced (id INTEGER PRIMARY KEY, name TEXT, price {price}, old TEXT)")
    file = tmp_path / "changes.yml"
    file.write_text(f"""
name: changes-{kind}
bootstrap: {headrace.bootstrap}
from:
  cdc: {{url: "{database.url}", tables: [priced]}}
to:
  topic: {{name: {topic}, encode: avro, registry: "{url}"}}
""")

    def follow(*statements: str) -> None:
        with database.connect() as connection:
            for statement in statements:
                connection.execute(statement)
        run = connector_run(load_connector(file), spark, once=True, report=lambda _: None)
        run.start()
        run.supervise()

    follow()
    follow("INSERT INTO priced VALUES (1, 'pen', 2.5, 'x')", "DELETE FROM priced WHERE id = 1")
    assert client.call("GET", f"/subjects/{topic}-value/versions") == [1]
    # SQLite does not drop a column that the triggers of the connector use.
    dropped = ["ALTER TABLE priced DROP COLUMN old"] if kind == "postgres" else []
    follow("ALTER TABLE priced ADD COLUMN stock BIGINT", *dropped)
    follow("INSERT INTO priced (id, name, price, stock) VALUES (2, 'cup', 7.25, 40)")
    assert client.call("GET", f"/subjects/{topic}-value/versions") == [1, 2]
    options = source(headrace, url, topic, **{"kafka.isolation.level": "read_committed"})
    found = spark.read.format("headrace").options(**options).load().orderBy("_source.offset").collect()
    assert [row._error for row in found] == [None] * 4
    rows = [row for row in found if row._source.value is not None]
    # A tombstone follows the delete.
    assert found[2]._source.value is None and found[2]._source.key == rows[1]._source.key
    assert [row.op for row in rows] == ["insert", "delete", "insert"]
    assert [row.after and (row.after.id, row.after.name, float(row.after.price), row.after.stock) for row in rows] == [
        (1, "pen", 2.5, None), None, (2, "cup", 7.25, 40),
    ]  # fmt: skip
    assert (rows[0].after.old, rows[1].before.id, rows[2].after.old) == ("x", 1, None)
    assert json.loads(rows[2]._source.key) == {"id": 2}
