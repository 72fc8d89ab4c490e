"""Avro values without a registry: the writer's schema decides how bytes are read."""

from __future__ import annotations

import io
import json

import fastavro
import pytest
from fastavro.schema import fingerprint, to_parsing_canonical_form

from headrace.pipelines.avro_values import read_value


def schema(*fields: str, **extra: str) -> str:
    of = [{"name": name, "type": "string"} for name in fields]
    of += [{"name": name, "type": "string", "default": value} for name, value in extra.items()]
    return json.dumps({"type": "record", "name": "R", "fields": of})


WRITER, READER = schema("first", "last"), schema("last", "first", nick="none")
ROW = {"first": "Ada", "last": "Byron"}


def bare(row: dict[str, str] = ROW, by: str = WRITER) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, json.loads(by), row)
    return out.getvalue()


def container(*rows: dict[str, str]) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, json.loads(WRITER), list(rows))
    return out.getvalue()


def single_object(by: str = WRITER) -> bytes:
    name = fingerprint(to_parsing_canonical_form(json.loads(by)), "CRC-64-AVRO")
    return b"\xc3\x01" + bytes.fromhex(name) + bare()


@pytest.mark.parametrize("data", [bare(), container(ROW), single_object()], ids=["bare", "container", "single object"])
def test_reordered_and_new_fields_are_resolved_from_the_writers_schema(data: bytes) -> None:
    assert read_value(data, READER, WRITER) == ({"last": "Byron", "first": "Ada", "nick": "none"}, None)


def test_fingerprint_of_the_avro_specification() -> None:
    """The specification gives this fingerprint for the schema "int", little-endian in a single object."""
    data = b"\xc3\x01" + (0x7275D51A3F395C8F).to_bytes(8, "little") + b"\x54"
    assert read_value(data, '"int"') == (42, None)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (bare() + b"x", "bytes are left over"),
        (b"\xff", "not AVRO of the schema"),
        (b"", "not AVRO of the schema"),
        (container(ROW, ROW), "a container with 2 rows"),
        (single_object(schema("other", "fields")), "no given schema has the fingerprint"),
        (b"\x00\x00\x00\x00\x2a" + bare(), r"value of a schema registry (id 42): decode it by the registry"),
    ],
)
def test_other_bytes_have_a_reason(data: bytes, words: str) -> None:
    row, problem = read_value(data, WRITER)
    assert row is None and problem is not None and words in problem
