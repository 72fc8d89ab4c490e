"""Columns of mixed versions: the vectorised walk gives what fastavro gives, for good and for damaged payloads."""

from __future__ import annotations

import json
import random
import uuid
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headrace.serialization.arrow_decoder import ArrowDecoder, DecodedColumns
from headrace.serialization.avro.codec import AvroCodec
from headrace.serialization.errors import RegistryError
from headrace.serialization.registry_client import RegistryClient
from headrace.serialization.schema import AVRO, RegisteredSchema
from headrace.serialization.wire_format import prefixed


class Schemas(RegistryClient):
    """A registry of this process."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:1")
        self.known: dict[int, RegisteredSchema] = {}

    def add(self, schema: Any, kind: str = AVRO) -> RegisteredSchema:
        id_ = len(self.known) + 1
        self.known[id_] = RegisteredSchema(id_, None, None, None, kind, json.dumps(schema))
        return self.known[id_]

    def schema_by_id(self, id_: int) -> RegisteredSchema:
        if id_ not in self.known:
            raise RegistryError(40403, f"Schema {id_} not found")
        return self.known[id_]

    def encode(self, schema: RegisteredSchema, value: Any) -> bytes:
        return prefixed(schema.id, AvroCodec(schema, self).encode(value))


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def record(*fields: dict[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def rows(found: DecodedColumns) -> list[Any]:
    return found.rows.to_pylist()  # type: ignore[no-any-return]


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
EVERYTHING = record(
    field("small", "int"), field("large", "long"), field("single", "float"), field("double", "double"),
    field("flag", "boolean"), field("text", "string"), field("data", "bytes"),
    field("kind", {"type": "enum", "name": "Kind", "symbols": ["A", "B", "C"]}),
    field("fixed", {"type": "fixed", "name": "Fixed", "size": 3}),
    field("price", DECIMAL),
    field("fixed_price", {"type": "fixed", "name": "P", "size": 5,
                          "logicalType": "decimal", "precision": 9, "scale": 1}),
    field("day", {"type": "int", "logicalType": "date"}),
    field("millis", {"type": "long", "logicalType": "timestamp-millis"}),
    field("micros", {"type": "long", "logicalType": "timestamp-micros"}),
    field("local", {"type": "long", "logicalType": "local-timestamp-micros"}),
    field("maybe", ["null", "string"]), field("maybe_last", ["long", "null"]), field("maybe_price", ["null", DECIMAL]),
    field("inner", record(field("a", "int"), field("b", ["null", "double"]), name="Inner")),
    field("maybe_inner", ["null", record(field("c", "string"), field("d", ["null", "int"]), name="Inner2")]),
)  # fmt: skip
NOW = datetime(2026, 8, 1, 12, 30, tzinfo=UTC)


def random_value(chance: random.Random) -> dict[str, Any]:
    def text() -> str:
        return "".join(chance.choice("abcžř€😀") for _ in range(chance.choice((0, 1, 3, 70, 200))))

    def integer(bits: int) -> int:
        return chance.choice(
            (0, -1, 63, 64, -64, -65, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), chance.getrandbits(bits - 1))
        )

    moment = NOW + timedelta(milliseconds=chance.randrange(-(10**13), 10**12))
    return {
        "small": integer(32), "large": integer(64) >> chance.choice((0, 5, 30)), "single": 0.5,
        "double": chance.random(),
        "flag": chance.random() < 0.5, "text": text(), "data": text().encode(), "kind": chance.choice("ABC"),
        "fixed": b"abc", "price": Decimal(chance.randrange(-(10**12) + 1, 10**12)) / 100,
        "fixed_price": Decimal(chance.randrange(-(10**9) + 1, 10**9)) / 10,
        "day": date(1900, 1, 1) + timedelta(days=chance.randrange(80_000)), "millis": moment, "micros": moment,
        "local": moment.replace(tzinfo=None), "maybe": chance.choice((None, text())),
        "maybe_last": chance.choice((None, integer(64))),
        "maybe_price": chance.choice((None, Decimal("1.25"), Decimal("-0.01"), Decimal(0))),
        "inner": {"a": integer(32), "b": chance.choice((None, 1.5))},
        "maybe_inner": chance.choice((None, {"c": text(), "d": None}, {"c": "", "d": 7})),
    }  # fmt: skip


def test_the_walk_gives_every_type_as_it_was_written() -> None:
    client = Schemas()
    schema = client.add(EVERYTHING)
    chance = random.Random(7)
    values = [random_value(chance) for _ in range(700)]
    decoder = ArrowDecoder(client, schema)
    found = decoder.decode(pa.array([client.encode(schema, value) for value in values], pa.binary()))
    assert found.errors.null_count == len(values)
    assert rows(found) == values
    assert decoder._version(schema.id).walk is not None  # type: ignore[union-attr]


def test_every_damaged_byte_gives_what_record_by_record_gives() -> None:
    client = Schemas()
    schema = client.add(EVERYTHING)
    good = client.encode(schema, random_value(random.Random(3)))
    damaged = [good[:end] for end in range(5, len(good))]
    damaged += [
        good[:at] + bytes((byte,)) + good[at + 1 :] for at in range(5, len(good)) for byte in (0, 1, 0x80, 0xFF)
    ]
    damaged += [good + b"\x00", good]
    decoder = ArrowDecoder(client, schema)
    vectorised = decoder.decode(pa.array(damaged, pa.binary()))
    codec = AvroCodec(schema, None)
    for data, row, error in zip(damaged, rows(vectorised), vectorised.errors.to_pylist(), strict=True):
        try:
            wanted = codec.decode(data[5:])
        except ValueError as fault:
            assert error is not None, fault
            continue
        assert error is None or "does not fit its column" in error
        if error is None:  # as text, because NaN is not equal to itself
            assert str(row) == str(pa.array([wanted], decoder.type).to_pylist()[0])


def test_null_foreign_and_unknown_values_stand_between_good_ones() -> None:
    client = Schemas()
    schema = client.add(record(field("a", "int"), field("b", "string")))
    good = client.encode(schema, {"a": 1, "b": "x"})
    data = [good, None, b"", b"{}", prefixed(99, b"\x00"), good[:-1], b"\x00\x00", good]
    found = ArrowDecoder(client, schema).decode(pa.array(data, pa.binary()))
    errors = found.errors.to_pylist()
    assert [row for row in rows(found) if row] == [{"a": 1, "b": "x"}] * 2
    assert rows(found)[1] is None
    assert errors[1] is None
    assert [each is None for each in errors] == [True, True, False, False, False, False, False, True]
    assert "0 bytes" in errors[2]
    assert "0x7b" in errors[3] or "2 bytes" in errors[3]
    assert "Schema 99 not found" in errors[4]
    assert "ends too early" in errors[5]


def test_invalid_text_is_an_error_of_its_row_only() -> None:
    client = Schemas()
    bytes_schema = client.add(record(field("a", "bytes")))
    schema = client.add(record(field("a", "string")))
    data = [client.encode(bytes_schema, {"a": each}) for each in (b"ok", b"\xff\xfe", "ž".encode())]
    moved = [prefixed(schema.id, each[5:]) for each in data]
    found = ArrowDecoder(client, schema).decode(pa.array(moved, pa.binary()))
    assert [row and row["a"] for row in rows(found)] == ["ok", None, "ž"]
    assert "utf-8" in found.errors.to_pylist()[1]


def test_mixed_versions_become_rows_of_the_reader() -> None:
    client = Schemas()
    first = client.add(record(field("id", "int"), field("name", "string"), field("gone", "double")))
    second = client.add(
        record(field("id", "int"), field("name", "string"), field("at", ["null", "long"], default=None))
    )
    third = client.add(
        record(
            field("id", "long"),
            field("title", ["null", "string"], aliases=["name"], default=None),
            field("at", ["null", "long"], default=None),
            field("price", DECIMAL, default="\u0064"),
        )
    )
    data = [
        client.encode(third, {"id": 2**40, "title": None, "at": 5, "price": "2.50"}),
        client.encode(first, {"id": 1, "name": "a", "gone": 1.5}),
        client.encode(second, {"id": 2, "name": "b", "at": 9}),
        client.encode(first, {"id": 3, "name": "c", "gone": 2.5}),
    ]
    found = ArrowDecoder(client, third).decode(pa.array(data, pa.binary()))
    assert found.errors.null_count == 4
    assert rows(found) == [
        {"id": 2**40, "title": None, "at": 5, "price": Decimal("2.50")},
        {"id": 1, "title": "a", "at": None, "price": Decimal("1.00")},
        {"id": 2, "title": "b", "at": 9, "price": Decimal("1.00")},
        {"id": 3, "title": "c", "at": None, "price": Decimal("1.00")},
    ]


def test_a_null_that_the_reader_does_not_allow_is_an_error_of_its_row() -> None:
    client = Schemas()
    old, new = client.add(record(field("a", ["null", "int"]))), client.add(record(field("a", "int")))
    data = [client.encode(old, {"a": value}) for value in (1, None, 3)]
    found = ArrowDecoder(client, new).decode(pa.array(data, pa.binary()))
    assert [row and row["a"] for row in rows(found)] == [1, None, 3]
    assert found.errors.to_pylist()[1] is not None
    assert found.errors.null_count == 2


def test_a_version_that_the_reader_cannot_read_gives_errors() -> None:
    client = Schemas()
    old, new = client.add(record(field("a", "string"))), client.add(record(field("a", "int"), field("b", "int")))
    found = ArrowDecoder(client, new).decode(pa.array([client.encode(old, {"a": "x"})], pa.binary()))
    assert rows(found) == [None]
    assert "reader's schema" in found.errors.to_pylist()[0]


def test_nested_types_are_columns_too() -> None:
    client = Schemas()
    item = record(field("name", "string"), field("at", {"type": "int", "logicalType": "time-millis"}), name="Item")
    schema = client.add(
        record(
            field("items", {"type": "array", "items": item}),
            field("more", {"type": "map", "values": ["null", "Item"]}),
            field("any", ["null", "string", "long", "Item"]),
            field("number", ["int", "null", "long"]),
            field("id", {"type": "string", "logicalType": "uuid"}),
            field("next", ["null", "R"]),
        )
    )
    name = uuid.UUID(int=9)
    pen = {"name": "pen", "at": 5}
    value = {"items": [pen], "more": {"a": pen, "b": None}, "any": pen, "number": 3, "id": name}
    data = [
        client.encode(schema, {**value, "next": {**value, "next": None}}),
        client.encode(schema, {**value, "next": None}),
    ]
    decoder = ArrowDecoder(client, schema)
    found = decoder.decode(pa.array(data, pa.binary()))
    assert found.errors.null_count == 2
    row = rows(found)[1]
    assert row["items"] == [pen]
    assert row["more"] == [("a", pen), ("b", None)]
    assert json.loads(row["any"])["name"] == "pen"
    assert (row["number"], row["id"], row["next"]) == (3, str(name), None)
    assert json.loads(rows(found)[0]["next"])["id"] == str(name)


def test_a_schema_that_is_no_record_is_one_column() -> None:
    client = Schemas()
    schema = client.add(["null", "string"])
    found = ArrowDecoder(client, schema).decode(
        pa.array([client.encode(schema, "a"), client.encode(schema, None)], pa.binary())
    )
    assert rows(found) == [{"value": "a"}, {"value": None}]


def test_the_schema_bytes_has_the_bytes_without_a_length() -> None:
    client = Schemas()
    schema = client.add("bytes")
    found = ArrowDecoder(client, schema).decode(pa.array([prefixed(schema.id, b"\x04ab")], pa.binary()))
    assert rows(found) == [{"value": b"\x04ab"}]


def test_a_slice_of_an_array_is_decoded() -> None:
    client = Schemas()
    schema = client.add(record(field("a", "int"), field("b", "string")))
    data = pa.array([client.encode(schema, {"a": n, "b": str(n)}) for n in range(10)], pa.binary())
    assert rows(ArrowDecoder(client, schema).decode(data[3:6])) == [{"a": n, "b": str(n)} for n in (3, 4, 5)]
    assert rows(ArrowDecoder(client, schema).decode(data[:0])) == []


JSON_SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "price": {"type": ["number", "null"]},
        "item": {"$ref": "#/definitions/item"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "any": {},
        "maybe": {"oneOf": [{"type": "null"}, {"type": "boolean"}]},
    },
    "definitions": {"item": {"type": "object", "properties": {"name": {"type": "string"}}}},
}


def test_json_records_are_columns_of_the_json_schema() -> None:
    client = Schemas()
    schema = client.add(JSON_SCHEMA, "JSON")
    value = {
        "id": 1, "price": 2, "item": {"name": "pen", "other": 1}, "tags": ["a"], "counts": {"x": 1},
        "any": [1], "maybe": True,
    }  # fmt: skip
    data = [prefixed(schema.id, json.dumps(each).encode()) for each in (value, {}, {"id": "x"}, [1])]
    found = ArrowDecoder(client, schema).decode(pa.array([*data, prefixed(schema.id, b"{")], pa.binary()))
    wanted = {"price": 2.0, "item": {"name": "pen"}, "counts": [("x", 1)], "any": "[1]"}
    assert rows(found)[0] == {**value, **wanted}
    assert rows(found)[1] == dict.fromkeys(JSON_SCHEMA["properties"])
    assert found.errors.to_pylist()[2:4] == ["id: 'x' is no integer", "[1] is no object"]
    assert "not JSON" in found.errors.to_pylist()[4]


@pytest.mark.parametrize("kind", ["JSON", "AVRO"])
def test_a_record_of_another_type_is_an_error(kind: str) -> None:
    client = Schemas()
    avro, other = client.add(record(field("a", "int"))), client.add(JSON_SCHEMA, "JSON")
    reader, sent = (avro, other) if kind == "JSON" else (other, avro)
    found = ArrowDecoder(client, reader).decode(pa.array([prefixed(sent.id, b"\x02")], pa.binary()))
    assert f"is {sent.kind}, the reader's schema {reader.kind}" in found.errors.to_pylist()[0]
