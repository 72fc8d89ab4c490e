"""Keys and values of records to JSON.

    auto     by the schema of the registry if the data names one, else JSON, else text without NUL, else base64
    binary   base64
    json     JSON; data that is not JSON is the error of the record
    string   text; bytes that are not UTF-8 are replaced

`key_type` and `value_type` say what was found: AVRO, JSONSCHEMA, PROTOBUF, JSON, STRING or BINARY.
"""

from __future__ import annotations

import base64
import json
from typing import Final

from headrace.http.records.schemas import KINDS, Schemas
from headrace.kernel.dataclass import dataclass
from headrace.kernel.json_values import JsonObject, JsonValue
from headrace.records.builder import Record
from headrace.web.errors import Problem

FORMATS: Final = ("auto", "binary", "json", "string")
_KIND_NAMES: Final = {kind: name for name, kind in KINDS.items()}
_PREFIXED_LENGTH: Final = 5


@dataclass(frozen=True, slots=True)
class Shown:
    value: JsonValue
    type: str | None
    error: str | None = None


_NULL: Final = Shown(None, None)


def format_named(name: str) -> str:
    if name not in FORMATS:
        raise Problem(400, 400, f"format={name!r}: must be one of {', '.join(FORMATS)}")
    return name


def shown_part(
    data: bytes | None, how: str, schemas: Schemas | None, topic: str, record: Record, *, is_key: bool
) -> Shown:
    """May ask the registry: blocking."""
    if data is None:
        return _NULL
    if how == "binary":
        return Shown(base64.b64encode(data).decode(), "BINARY")
    if how == "string":
        return Shown(data.decode("utf-8", "replace"), "STRING")
    error = None
    if how == "auto" and schemas is not None and (_names_schema(data) or record.headers):
        decoded = schemas.decoded(topic, data, record.headers, is_key=is_key)
        if decoded.error is None and decoded.schema is not None:
            return Shown(decoded.value, _KIND_NAMES.get(decoded.schema.kind, decoded.schema.kind))
        if _names_schema(data):
            error = decoded.error
    try:
        return Shown(_decode(data.decode()), "JSON")
    except (ValueError, RecursionError):
        if how == "json":
            what = "key" if is_key else "value"
            return Shown(base64.b64encode(data).decode(), "BINARY", f"the {what} is not JSON")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        return Shown(base64.b64encode(data).decode(), "BINARY", error)
    return Shown(text, "STRING", error)


def _names_schema(data: bytes) -> bool:
    return len(data) >= _PREFIXED_LENGTH and data[0] == 0


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")


# `json.loads` with this argument would make a decoder for every call.
_decode = json.JSONDecoder(parse_constant=_no_constant).decode


def shown_record(topic: str, partition: int, record: Record, how: str, schemas: Schemas | None) -> JsonObject:
    """The document of a record."""
    key = shown_part(record.key, how, schemas, topic, record, is_key=True)
    value = shown_part(record.value, how, schemas, topic, record, is_key=False)
    document: JsonObject = {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key": key.value,
        "value": value.value,
        "key_type": key.type,
        "value_type": value.type,
        "headers": [
            {"name": name, "value": None if data is None else base64.b64encode(data).decode()}
            for name, data in record.headers
        ],
    }
    if key.error or value.error:
        document["error"] = key.error or value.error
    return document
