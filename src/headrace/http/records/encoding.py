"""Keys and values of a v3 request to bytes: BINARY, JSON, STRING, or a schema of the registry."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Final

from headrace.http.call import MOST_INT64, checked_integer
from headrace.http.records.schemas import KINDS, Schemas, encoded
from headrace.kernel.dataclass import dataclass
from headrace.kernel.json_values import JsonObject, JsonValue
from headrace.records.builder import Record
from headrace.web.errors import Problem, bad_request

PLAIN_TYPES: Final = ("BINARY", "JSON", "STRING")
TYPES: Final = (*PLAIN_TYPES, *KINDS)
_SCHEMA_FIELDS: Final = frozenset({"schema_id", "schema", "subject", "schema_version"})


@dataclass(frozen=True, slots=True)
class Part:
    """An encoded key or value, and what the answer says about it."""

    data: bytes | None
    type: str
    schema_id: int | None = None

    def as_json(self) -> JsonObject | None:
        if self.data is None:
            return None
        about: JsonObject = {"type": self.type, "size": len(self.data)}
        if self.schema_id is not None:
            about["schema_id"] = self.schema_id
        return about


_NONE: Final = Part(None, "BINARY")


_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def json_bytes(value: JsonValue) -> bytes:
    return _json(value).encode("utf-8", "surrogatepass")


def base64_bytes(value: JsonValue, what: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise bad_request(f"{what}: must be base64 text") from None


def plain_part(spec: JsonValue, what: str) -> Part | None:
    """A part without a schema; None if the part names one. Raises Problem 400."""
    if spec is None:
        return _NONE
    if not isinstance(spec, dict):
        raise bad_request(f"{what}: must be an object with type and data")
    data, kind = spec.get("data"), spec.get("type")
    if kind is not None and kind not in TYPES:
        raise bad_request(f"{what}.type={kind!r}: must be one of {', '.join(TYPES)}")
    if kind == "JSON":
        return Part(json_bytes(data), "JSON") if data is not None else _NONE
    if kind is None and not _SCHEMA_FIELDS & spec.keys():
        kind = "BINARY"
    if data is None:
        return _NONE
    if kind == "BINARY":
        return Part(base64_bytes(data, f"{what}.data"), "BINARY")
    if kind == "STRING":
        if not isinstance(data, str):
            raise bad_request(f"{what}.data: must be text")
        return Part(data.encode("utf-8", "surrogatepass"), "STRING")
    return None


async def schema_part(spec: JsonObject, schemas: Schemas | None, topic: str, *, is_key: bool) -> Part:
    """A part by a schema of the registry. Raises Problem 422."""
    if schemas is None:
        what = "key" if is_key else "value"
        raise Problem(422, 42205, f"{what}: needs a schema registry: start headrace http with --registry URL")
    schema, codec = await schemas.writer(spec, topic, is_key=is_key)
    name = next(name for name, known in KINDS.items() if known == schema.kind)
    return Part(encoded(schema, codec, spec["data"]), name, schema.id)


def headers_of(listed: JsonValue) -> tuple[tuple[str, bytes | None], ...]:
    if not listed:
        return ()
    if not isinstance(listed, list):
        raise bad_request("headers: must be a list of objects with name and value")
    found: list[tuple[str, bytes | None]] = []
    for one in listed:
        if not isinstance(one, dict) or not isinstance(one.get("name"), str):
            raise bad_request("headers: each must have a name and a value in base64")
        value = one.get("value")
        found.append((one["name"], None if value is None else base64_bytes(value, f"header {one['name']}")))
    return tuple(found)


def timestamp_of(value: JsonValue, now_ms: int) -> int:
    """Milliseconds, or ISO-8601 as Confluent takes it."""
    if value is None:
        return now_ms
    if isinstance(value, str):
        from headrace.client.places import Kind, parse_place

        try:
            place = parse_place(value, now_ms)
        except ValueError:
            place = None
        if place is None or place.kind is not Kind.TIME:
            raise bad_request(f"timestamp={value!r}: must be milliseconds or a time as 2026-01-31T12:00:00Z")
        return place.value
    return checked_integer(value, "timestamp", least=0, most=MOST_INT64)


@dataclass(frozen=True, slots=True)
class Encoded:
    """A record of a request."""

    record: Record
    partition: int | None
    key: Part
    value: Part


async def encoded_record(document: JsonValue, schemas: Schemas | None, topic: str, now_ms: int) -> Encoded:
    """Raises Problem."""
    if not isinstance(document, dict):
        raise bad_request("a record must be a JSON object")
    key, value = plain_part(document.get("key"), "key"), plain_part(document.get("value"), "value")
    if key is None:
        key = await schema_part(document["key"], schemas, topic, is_key=True)
    if value is None:
        value = await schema_part(document["value"], schemas, topic, is_key=False)
    partition = document.get("partition_id")
    if partition is not None:
        partition = checked_integer(partition, "partition_id", least=0, most=(1 << 31) - 1)
    headers = headers_of(document.get("headers"))
    record = Record(key.data, value.data, headers, timestamp_of(document.get("timestamp"), now_ms))
    return Encoded(record, partition, key, value)
