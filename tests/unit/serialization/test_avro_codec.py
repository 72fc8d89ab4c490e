"""Our Avro writer against fastavro's reader, and readers of older and newer schemas."""

from __future__ import annotations

import io
import json
import uuid
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from headrace.serialization.avro.codec import AvroCodec
from headrace.serialization.errors import SerializationError
from headrace.serialization.schema import AVRO, RegisteredSchema


def registered(schema: Any, id_: int = 1) -> RegisteredSchema:
    return RegisteredSchema(id_, None, None, None, AVRO, json.dumps(schema))


def codec(schema: Any) -> AvroCodec:
    return AvroCodec(registered(schema), None)


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


def logical(kind: Any, named: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": named, **more}


NOW = datetime(2026, 8, 1, 12, 30, 15, 123456, tzinfo=UTC)
VALUES: list[tuple[Any, Any]] = [
    ("null", None), ("boolean", True), ("boolean", False), ("string", "žluť"),
    (record(b="bytes"), {"b": b"\x00\xff"}),
    *(("int", n) for n in (0, -1, 63, 64, -64, -65, 2**31 - 1, -(2**31))),
    *(("long", n) for n in (2**63 - 1, -(2**63), 1 << 40)),
    ("double", 1.5), ("float", 0.25),
    ({"type": "array", "items": "int"}, []), ({"type": "array", "items": ["null", "int"]}, [1, None, 3]),
    ({"type": "map", "values": "string"}, {"a": "b", "c": ""}),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B"),
    ({"type": "fixed", "name": "F", "size": 3}, b"abc"),
    (["null", "string"], None), (["null", "string"], "x"), (["string", "bytes"], b"x"), (["double", "long"], 3),
    (["null", {"type": "array", "items": "string"}, record(a="int")], {"a": 1}),
    (logical("int", "date"), date(1969, 12, 31)), (logical("int", "date"), date(2026, 2, 28)),
    (logical("int", "time-millis"), time(23, 59, 59, 999000)), (logical("long", "time-micros"), time(1, 2, 3, 4)),
    (logical("long", "timestamp-millis"), NOW.replace(microsecond=123000)),
    (logical("long", "timestamp-micros"), NOW), (logical("long", "timestamp-micros"), datetime(1960, 1, 1, tzinfo=UTC)),
    (logical("long", "local-timestamp-micros"), NOW.replace(tzinfo=None)),
    (logical("string", "uuid"), uuid.UUID(int=5)),
    *((logical("bytes", "decimal", precision=9, scale=2), Decimal(text)) for text in ("0", "1.25", "-1.28", "-655.36")),
    (logical("fixed", "decimal", name="D", size=6, precision=9, scale=2), Decimal("-12.50")),
    (["null", logical("long", "timestamp-micros")], NOW),
    (["null", logical("bytes", "decimal", precision=4)], Decimal(7)),
    (record(a="int", b=record(a="string") | {"name": "Inner"}), {"a": 1, "b": {"a": "x"}}),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value"), VALUES)
def test_fastavro_reads_what_the_writer_wrote(schema: Any, value: Any) -> None:
    data = codec(schema).encode(value)
    assert fastavro.schemaless_reader(io.BytesIO(data), schema) == value


@pytest.mark.parametrize(("schema", "value"), VALUES)
def test_the_json_form_of_a_value_encodes_to_the_same_bytes(schema: Any, value: Any) -> None:
    found = codec(schema)
    data = found.encode(value)
    plain = json.loads(json.dumps(found.plain(found.decode(data))))
    if schema == ["string", "bytes"]:
        return  # text is a string there
    assert found.encode(plain) == data


@pytest.mark.parametrize("branches", [("date", "timestamp-micros"), ("timestamp-micros", "date")])
def test_a_time_in_a_union_with_a_date_keeps_its_hours(branches: tuple[str, str]) -> None:
    kinds = {"date": logical("int", "date"), "timestamp-micros": logical("long", "timestamp-micros")}
    found = codec(["null", *[kinds[name] for name in branches]])
    for value in (NOW, date(2026, 8, 1), None):
        assert found.decode(found.encode(value)) == value


@pytest.mark.parametrize("data", [b"", b"\x04ab", b"hello", b"x" * 300])
def test_the_schema_bytes_has_the_bytes_without_a_length(data: bytes) -> None:
    """The only exception in Confluent's wire format."""
    for schema in ("bytes", {"type": "bytes"}):
        assert codec(schema).encode(data) == data
        assert codec(schema).decode(data) == data
    as_text = AvroCodec(registered("bytes"), None, registered("string", 2))
    assert as_text.decode(data) == data.decode()


def test_a_recursive_record_is_written() -> None:
    tree = {"type": "record", "name": "Tree", "fields": [{"name": "next", "type": ["null", "Tree"], "default": None}]}
    value = {"next": {"next": {"next": None}}}
    assert codec(tree).decode(codec(tree).encode(value)) == value
    assert codec(tree).encode({}) == b"\x00"


def test_a_union_takes_the_branch_that_the_value_names() -> None:
    data = codec(["null", "string"]).encode({"string": "a"})
    assert codec(["null", "string"]).decode(data) == "a"


def test_missing_fields_take_their_default() -> None:
    schema = record(a="int")
    schema["fields"].append({"name": "b", "type": "bytes", "default": "\u00ff"})
    assert codec(schema).decode(codec(schema).encode({"a": 1})) == {"a": 1, "b": b"\xff"}


@pytest.mark.parametrize(
    ("schema", "value", "why"),
    [
        (record(a="int"), {"a": "1"}, "a: '1' is no int"),
        (record(a="int"), {"a": 2**31}, "a: 2147483648 is beyond the range of int"),
        (record(a="int"), {}, "needs the field 'a'"),
        (record(a="int"), {"a": 1, "b": 2}, "has no field 'b'"),
        (record(a={"type": "array", "items": ["null", "int"]}), {"a": [1, "x"]}, "a.\\[1\\]: 'x' fits none of null, i"),
        (record(a=["null", record(b="int") | {"name": "I"}]), {"a": {"b": "x"}}, "a.b: 'x' is no int"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "C", "must be one of A"),
        ({"type": "fixed", "name": "F", "size": 2}, b"abc", "3 bytes for fixed F: must be 2"),
        ("boolean", 1, "no boolean"), ("int", True, "no int"), ("double", "1", "no double"),
        ("float", 1e300, "beyond the range of float"), ("bytes", "\u0100", "one character"),
        ("string", "\ud800", "Unicode"),
        (logical("bytes", "decimal", precision=4, scale=2), "1.234", "more than 2 digits after the point"),
        (logical("bytes", "decimal", precision=4, scale=2), Decimal("100"), "more than 4 digits"),
        (logical("bytes", "decimal", precision=4, scale=2), Decimal("NaN"), "no such decimal"),
        (logical("int", "date"), "yesterday", "no date"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_named_with_its_place(schema: Any, value: Any, why: str) -> None:
    with pytest.raises(SerializationError, match=why):
        codec(schema).encode(value)


@pytest.mark.parametrize(
    "schema", [record(a="long", b="string"), {"type": "array", "items": "string"}, ["null", "int"]]
)
def test_every_truncation_and_every_extra_byte_is_an_error(schema: Any) -> None:
    found = codec(schema)
    value = {"a": 1 << 40, "b": "hello"} if isinstance(schema, dict) and schema["type"] == "record" else None
    data = found.encode(value if value else (["a", "b"] if isinstance(schema, dict) else 70_000))
    for end in range(len(data)):
        with pytest.raises(SerializationError):
            found.decode(data[:end])
    with pytest.raises(SerializationError, match="1 bytes follow"):
        found.decode(data + b"\x00")


def test_a_reader_resolves_older_and_newer_records() -> None:
    old, new = record(a="int", gone="string"), record(a="long")
    new["fields"].append({"name": "added", "type": "string", "default": "none"})
    data = codec(old).encode({"a": 5, "gone": "x"})
    assert AvroCodec(registered(old, 1), None, registered(new, 2)).decode(data) == {"a": 5, "added": "none"}
    incompatible = AvroCodec(registered(old, 1), None, registered(record(a="string"), 3))
    with pytest.raises(SerializationError, match="reader"):
        incompatible.decode(data)
