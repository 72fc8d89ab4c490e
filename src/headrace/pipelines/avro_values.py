"""Avro values without a registry: the writer's schema is found, not assumed, and the value resolved to the reader's.

An Avro value cannot be read without the schema that wrote it: the same bytes with two fields in another order give
swapped values and no error. Three forms of values name their writer's schema:

`Obj 1 …`            an object container file, which contains the schema; it must hold one row
`C3 01 fingerprint`  single-object encoding: the fingerprint of the schema that was given for the reader or the writer
anything else        a bare value, written with the writer's schema that was given, else with the reader's

A value that begins with the prefix of a schema registry (a zero byte and a schema id) is not guessed: its schema is in
the registry.
"""

from __future__ import annotations

import functools
import io
import json
import struct
from typing import Any, Final

import fastavro
from fastavro.schema import fingerprint, parse_schema, to_parsing_canonical_form

from headrace.kernel.plurals import counted

_CONTAINER: Final = b"Obj\x01"
_SINGLE_OBJECT: Final = b"\xc3\x01"
_FINGERPRINT_BYTES: Final = 8
_PREFIX: Final = struct.Struct(">bi")
# Ids of registries are small. A bare value may begin with a zero byte, too, but rarely with four.
_LARGEST_ID: Final = 1 << 20

# What fastavro reads has the types of the schema, which is known only when the query runs.
AvroValue = Any


def read_value(data: bytes, reader: str, writer: str | None = None) -> tuple[AvroValue, str | None]:
    """(row, None), or (None, reason)."""
    try:
        if data.startswith(_CONTAINER):
            return _of_container(data, reader)
        if data.startswith(_SINGLE_OBJECT):
            return _of_single_object(data, reader, writer)
        return _of_bare_value(data, reader, writer)
    except Exception as error:
        # Boundary to the bytes of one record: fastavro may raise any exception, and none may fail the query.
        return None, _problem(data, f"{type(error).__name__}: {error}")


def _of_container(data: bytes, reader: str) -> tuple[AvroValue, str | None]:
    rows = list(fastavro.reader(io.BytesIO(data), reader_schema=json.loads(reader)))
    if len(rows) != 1:
        return None, f"not AVRO of the schema: a container with {counted(len(rows), 'row')}, must be one"
    return rows[0], None


def _of_single_object(data: bytes, reader: str, writer: str | None) -> tuple[AvroValue, str | None]:
    end = len(_SINGLE_OBJECT) + _FINGERPRINT_BYTES
    named = data[len(_SINGLE_OBJECT) : end]
    for schema in filter(None, (reader, writer)):
        if _fingerprint(schema) == named:
            return _resolved(data[end:], schema, reader)
    return None, f"not AVRO of the schema: no given schema has the fingerprint {named.hex()}: give writer_schema"


def _of_bare_value(data: bytes, reader: str, writer: str | None) -> tuple[AvroValue, str | None]:
    row, problem = _resolved(data, writer or reader, reader)
    return row, None if problem is None else _problem(data, problem)


def _resolved(data: bytes, writer: str, reader: str) -> tuple[AvroValue, str | None]:
    stream = io.BytesIO(data)
    row = fastavro.schemaless_reader(stream, _parsed(writer), _parsed(reader))
    if stream.read(1):
        return None, "not AVRO of the schema: bytes are left over"
    return row, None


def _problem(data: bytes, problem: str) -> str:
    if len(data) > _PREFIX.size and data[0] == 0 and 0 < (number := _PREFIX.unpack_from(data)[1]) < _LARGEST_ID:
        begins = f"it begins like a value of a schema registry (id {number})"
        return f"not AVRO of the schema: {begins}: decode it by the registry"
    return problem if problem.startswith("not AVRO") else f"not AVRO of the schema: {problem}"[:300]


@functools.lru_cache(maxsize=64)
def _parsed(schema: str) -> AvroValue:
    return parse_schema(json.loads(schema))


@functools.lru_cache(maxsize=64)
def _fingerprint(schema: str) -> bytes:
    return bytes.fromhex(fingerprint(to_parsing_canonical_form(json.loads(schema)), "CRC-64-AVRO"))
