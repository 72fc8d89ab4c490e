"""Avro payloads: fastavro reads, our own writer writes.

The schema `bytes` is the exception of Confluent's wire format: the payload is the bytes themselves, without their
length.
"""

from __future__ import annotations

import io
from typing import Any

import fastavro
from fastavro.read import SchemaResolutionError

from headrace.serialization.avro.defaults import set_native_defaults
from headrace.serialization.avro.schema import AvroSchema, parse_avro
from headrace.serialization.avro.writer import AvroWriters, Mismatch, long_bytes
from headrace.serialization.errors import SerializationError
from headrace.serialization.plain_values import as_json
from headrace.serialization.registry_client import RegistryClient
from headrace.serialization.schema import RegisteredSchema


class AvroCodec:
    """`reader`: resolve records to this schema, by Avro's rules."""

    def __init__(
        self, schema: RegisteredSchema, client: RegistryClient | None, reader: RegisteredSchema | None = None
    ) -> None:
        self.schema: AvroSchema = parse_avro(schema, client)
        self._reader = None
        if reader is not None and reader.id != schema.id:
            resolved = parse_avro(reader, client)
            set_native_defaults(resolved)
            self._reader = resolved.root
        self.is_raw = _is_bytes(self.schema.root)
        self._write = AvroWriters(self.schema).writer(self.schema.root)

    @property
    def record_name(self) -> str | None:
        return self.schema.record_name

    def decode(self, payload: bytes, _: bytes | None = None) -> Any:
        payload = long_bytes(len(payload)) + payload if self.is_raw else payload
        data = io.BytesIO(payload)
        try:
            value = fastavro.schemaless_reader(data, self.schema.root, self._reader)
        except SchemaResolutionError as fault:
            raise SerializationError(f"the reader's schema cannot read the record: {fault}") from fault
        except (EOFError, ValueError, IndexError, OverflowError, MemoryError, TypeError, StopIteration) as fault:
            why = "it ends too early" if isinstance(fault, EOFError) else str(fault) or type(fault).__name__
            raise SerializationError(f"the payload is no record of its Avro schema: {why}") from fault
        if data.tell() < len(payload):
            left = len(payload) - data.tell()
            raise SerializationError(f"the payload is no record of its Avro schema: {left} bytes follow it")
        return value

    def encode(self, value: Any) -> bytes:
        out = bytearray()
        try:
            self._write(out, value)
        except Mismatch as mismatch:
            raise SerializationError(str(mismatch)) from None
        return _without_length(out) if self.is_raw else bytes(out)

    def plain(self, value: Any) -> Any:
        return as_json(value)

    def indexes(self) -> bytes:
        return b""


def _is_bytes(root: Any) -> bool:
    """A decimal is a value of its own, which is written as such."""
    return root == "bytes" or (
        isinstance(root, dict) and root["type"] == "bytes" and root.get("logicalType") != "decimal"
    )


def _without_length(data: bytearray) -> bytes:
    last = next(at for at, byte in enumerate(data) if byte < 0x80)
    return bytes(data[last + 1 :])
