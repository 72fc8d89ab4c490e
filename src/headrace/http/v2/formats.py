"""Formats of v2: `application/vnd.kafka.json.v2+json` names how keys and values are written in JSON."""

from __future__ import annotations

import re
from typing import Final

from starlette.responses import Response

from headrace.http.call import Call, as_json
from headrace.http.records.decoding import shown_part
from headrace.http.records.encoding import base64_bytes, json_bytes
from headrace.http.records.schemas import Schemas
from headrace.kernel.ids import TopicPartition
from headrace.kernel.json_values import JsonObject, JsonValue
from headrace.records.builder import Record
from headrace.web.body import content_type
from headrace.web.errors import Problem

SCHEMA_KINDS: Final = {"avro": "AVRO", "jsonschema": "JSONSCHEMA", "protobuf": "PROTOBUF"}
FORMATS: Final = ("binary", "json", *SCHEMA_KINDS)
V2_JSON: Final = "application/vnd.kafka.v2+json"
_TYPE: Final = re.compile(r"application/(?:vnd\.kafka(?:\.(?P<format>[a-z]+))?(?:\.v2)?\+json|json)")
PRODUCE_TYPES: Final = tuple(f"application/vnd.kafka.{name}.v2+json" for name in FORMATS)


def format_of(media_type: str) -> str | None:
    """The format that a content type names; None if it names none. Raises Problem 415 for other types."""
    found = _TYPE.fullmatch(media_type)
    if found is None or (found["format"] is not None and found["format"] not in FORMATS):
        raise Problem(415, 415, f"Content-Type {media_type or '(none)'}: must be one of {', '.join(PRODUCE_TYPES)}")
    return found["format"]


def sent_format(call: Call) -> str:
    return format_of(content_type(call.request)) or "binary"


def accepted_format(call: Call) -> str | None:
    """The format that `Accept` names; None if it names none."""
    for one in call.request.headers.get("accept", "").split(","):
        found = _TYPE.fullmatch(one.partition(";")[0].strip().lower())
        if found is not None and found["format"] is not None:
            return found["format"]
    return None


def encoded_plain(value: JsonValue, how: str, what: str) -> bytes | None:
    """Bytes of a key or value in the format binary or json."""
    if value is None:
        return None
    return json_bytes(value) if how == "json" else base64_bytes(value, what)


def shown_v2(partition: TopicPartition, record: Record, how: str, schemas: Schemas | None) -> JsonObject:
    """A record as v2 shows it. May ask the registry: blocking. Raises Problem 42203 if the data has another format."""
    document: JsonObject = {"topic": partition.topic}
    for name, data in (("key", record.key), ("value", record.value)):
        read = "auto" if how in SCHEMA_KINDS else how
        shown = shown_part(data, read, schemas, partition.topic, record, is_key=name == "key")
        if shown.error is not None:
            raise Problem(422, 42203, f"{partition} offset {record.offset}: {shown.error}")
        document[name] = shown.value
    return {**document, "partition": partition.partition, "offset": record.offset}


def v2_json(document: JsonValue, status: int = 200, how: str | None = None) -> Response:
    return as_json(document, status, media_type=f"application/vnd.kafka.{how}.v2+json" if how else V2_JSON)
