"""Avro records of ten fields to Arrow columns: our vectorised walk, and fastavro record by record, in turns.

Goals: 400 thousand records a second on one core, and three times fastavro in the same run. `fastavro` makes the same
Arrow columns from its dicts; `fastavro, dicts only` leaves that out.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa

from benchmarks.report import Row
from headrace.serialization.arrow_decoder import ArrowDecoder
from headrace.serialization.avro.codec import AvroCodec
from headrace.serialization.registry_client import RegistryClient
from headrace.serialization.schema import AVRO, RegisteredSchema
from headrace.serialization.wire_format import prefixed

RECORDS = 100_000
FIELDS: list[tuple[str, Any]] = [
    ("id", "long"),
    ("customer", "string"),
    ("item", "string"),
    ("count", "int"),
    ("price", "double"),
    ("discount", ["null", "double"]),
    ("at", {"type": "long", "logicalType": "timestamp-millis"}),
    ("status", {"type": "enum", "name": "Status", "symbols": ["NEW", "PAID", "SENT"]}),
    ("note", ["null", "string"]),
    ("express", "boolean"),
]
ROWS = {
    "vectorised": Row("Avro of ten fields to Arrow, vectorised", "records/s"),
    "fastavro": Row("the same with fastavro, record by record", "records/s"),
    "dicts": Row("fastavro, dicts only", "records/s"),
    "ratio": Row("vectorised / fastavro", ""),
    "ratio_dicts": Row("vectorised / fastavro, dicts only", ""),
    "encode": Row("dicts to Avro", "records/s"),
}


class OneSchema(RegistryClient):
    """A registry with one schema, so that no HTTP is measured."""

    def __init__(self, schema: RegisteredSchema) -> None:
        super().__init__("http://127.0.0.1:1")
        self._schema = schema

    def schema_by_id(self, id_: int) -> RegisteredSchema:
        return self._schema


def _value(number: int) -> dict[str, Any]:
    return {
        "id": 1_000_000 + number,
        "customer": f"customer-{number % 5000}",
        "item": f"item {number % 300} of the catalogue",
        "count": number % 7,
        "price": number * 0.25,
        "discount": None if number % 3 else 0.1,
        "at": 1_780_000_000_000 + number,
        "status": ("NEW", "PAID", "SENT")[number % 3],
        "note": None if number % 4 else "leave it at the door",
        "express": number % 2 == 0,
    }


def _rate(work: Callable[[], object]) -> float:
    """Records a second of CPU: all of them run on one core."""
    began = time.process_time()
    work()
    return RECORDS / (time.process_time() - began)


def run(directory: Path, rounds: int = 3) -> list[Row]:
    text = {"type": "record", "name": "Order", "fields": [{"name": name, "type": kind} for name, kind in FIELDS]}
    schema = RegisteredSchema(1, None, None, None, AVRO, json.dumps(text))
    client = OneSchema(schema)
    codec = AvroCodec(schema, None)
    values = [_value(number) for number in range(RECORDS)]
    payloads = [codec.encode(value) for value in values]
    column = pa.array([prefixed(1, payload) for payload in payloads], pa.binary())
    decoder = ArrowDecoder(client, schema)
    parsed = codec.schema.root

    def dicts() -> list[Any]:
        return [fastavro.schemaless_reader(io.BytesIO(payload), parsed, None) for payload in payloads]

    def in_batches() -> list[Any]:
        """Ten thousand rows at once, as Spark has them."""
        return [decoder.decode(column[at : at + 10_000]) for at in range(0, RECORDS, 10_000)]

    assert decoder.decode(column).rows.to_pylist() == dicts()
    for _ in range(rounds):
        vectorised = _rate(in_batches)
        slow = _rate(lambda: pa.array(dicts(), decoder.type))
        bare = _rate(dicts)
        for row, rate in (
            ("vectorised", vectorised),
            ("fastavro", slow),
            ("dicts", bare),
            ("ratio", vectorised / slow),
            ("ratio_dicts", vectorised / bare),
            ("encode", _rate(lambda: [codec.encode(value) for value in values])),
        ):
            ROWS[row].add("headrace", rate)
    return list(ROWS.values())
