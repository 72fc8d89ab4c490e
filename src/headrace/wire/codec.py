"""Requests and responses: bytes to kio entities, plain mappings to bytes.

Reading returns kio's typed entity of that version (kio's reader is native). A field that the version lacks has its
documented default (`messages.absent_fields`), so a handler sees the same fields in every version: those of its Protocol
in `messages`. `millis(...)` converts durations. Writing takes plain mappings (see `schema_writer`).

    header, body_at = read_request_header(frame)
    request = read_request(header, frame, body_at)
    reply = encode_response(header.api_key, header.api_version, header.correlation_id, {...})

Clients use `encode_request` and `read_response`. A frame that is read has no length prefix; a frame that is written has
one, because the socket needs it.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from typing import Final, NamedTuple

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader
from kio.serial._introspect import EntityField, EntityTupleField, classify_field, is_optional

from headrace.wire.apis import ApiKey, api_name
from headrace.wire.entities import Body, Entity, EntityClass
from headrace.wire.extents import checked
from headrace.wire.messages.absent_fields import ABSENT
from headrace.wire.schema_writer import Write, writer_for

Reader = Callable[[bytes, int], tuple[Entity, int]]

_FIXED_HEADER: Final = struct.Struct(">hhi")
_HEADER_TO_CLIENT_ID: Final = struct.Struct(">hhih")
_INT16: Final = struct.Struct(">h")


class MalformedRequest(Exception):
    """The bytes are not a valid request of their API and version. The broker logs it and closes the connection."""


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def known_apis() -> tuple[int, ...]:
    """Every API that kio has schemas for."""
    return tuple(api_key_map)


@cache
def known_versions(api_key: int) -> tuple[int, ...]:
    """The versions that kio has schemas for, lowest first."""
    return tuple(sorted(schema_name_map[api_key_map[api_key]]))


@cache
def _request_schema(api_key: int, version: int) -> EntityClass:
    schema: EntityClass = load_request_schema(api_key, version)
    absent = ABSENT.get(api_key)
    if absent:
        _set_absent_field_defaults(schema, absent, "")
    return schema


def _set_absent_field_defaults(schema: EntityClass, absent: dict[str, dict[str, object]], path: str) -> None:
    """Sets defaults for the fields that the version lacks on the class, so that its instances have them at no cost."""
    fields = {field.name: field for field in dataclasses.fields(schema)}
    for name, default in absent.get(path, {}).items():
        if name not in fields:
            setattr(schema, name, default)
    for name, field in fields.items():
        kind = classify_field(field)
        if isinstance(kind, EntityField | EntityTupleField):
            _set_absent_field_defaults(kind.type_, absent, f"{path}.{name}" if path else name)


@cache
def response_schema(api_key: int, version: int) -> EntityClass:
    return load_response_schema(api_key, version)


@cache
def _request_reader(api_key: int, version: int) -> Reader:
    return entity_reader(_request_schema(api_key, version))


@cache
def _response_reader(api_key: int, version: int) -> Reader:
    schema = response_schema(api_key, version)
    if api_key == ApiKey.DESCRIBE_TRANSACTIONS:
        _allow_null_timestamps(schema)
    return entity_reader(schema)


def _allow_null_timestamps(schema: EntityClass) -> None:
    """Lets timestamps be null. Kafka writes -1 as the start of a transaction that never began; kio's schema does not
    allow that.
    """
    for field in dataclasses.fields(schema):
        kind = classify_field(field)
        if isinstance(kind, EntityTupleField):
            _allow_null_timestamps(kind.type_)
        elif field.metadata.get("kafka_type") == "datetime_i64" and not is_optional(field):
            field.type = kind.type_ | None


@cache
def _request_header_is_flexible(api_key: int, version: int) -> bool:
    """Whether the request header ends with tagged fields. For unknown versions the answer is no."""
    name = api_key_map.get(api_key)
    if name is None or version not in schema_name_map[name]:
        return False
    return int(_request_schema(api_key, version).__header_schema__.__version__) >= 2


@cache
def _response_header_is_flexible(api_key: int, version: int) -> bool:
    # ApiVersions answers always have the old header, so that a client can read the error for an unsupported version.
    if api_key == ApiKey.API_VERSIONS:
        return False
    return int(response_schema(api_key, version).__header_schema__.__version__) >= 1


def read_uvarint(buffer: bytes | bytearray | memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = buffer[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 35:
            raise MalformedRequest("a length that never ends")


def skip_tagged_fields(buffer: bytes | bytearray | memoryview, at: int) -> int:
    count, at = read_uvarint(buffer, at)
    for _ in range(count):
        _, at = read_uvarint(buffer, at)
        size, at = read_uvarint(buffer, at)
        at += size
        if at > len(buffer):
            raise MalformedRequest("a tagged field that is longer than its frame")
    return at


def read_request_header(frame: bytes | bytearray | memoryview) -> tuple[RequestHeader, int]:
    """The header and where the body begins. Raises MalformedRequest."""
    try:
        api_key, version, correlation_id, length = _HEADER_TO_CLIENT_ID.unpack_from(frame, 0)
        at = 10
        client_id: str | None = None
        if length >= 0:
            at += length
            if at > len(frame):
                raise MalformedRequest(f"a client id of {length} bytes in a frame of {len(frame)}")
            client_id = str(frame[10:at], "utf-8")
        if _request_header_is_flexible(api_key, version):
            at = at + 1 if frame[at] == 0 else skip_tagged_fields(frame, at)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedRequest(f"a request header that cannot be read ({error})") from error
    return RequestHeader(api_key, version, correlation_id, client_id), at


def read_request(header: RequestHeader, frame: bytes | bytearray | memoryview, at: int) -> Entity:
    """kio's entity for the request body. Raises MalformedRequest, also for a version that kio does not know."""
    try:
        # kio's reader needs a read-only buffer. Request bodies are small except Produce, which has its own reader.
        body = checked(_request_schema(header.api_key, header.api_version), bytes(frame), at)
        request, _ = _request_reader(header.api_key, header.api_version)(body, at)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        # kio raises many kinds of exceptions for bad bytes, also panics of its native part, which are not subclasses of
        # `Exception`. Each may only end this connection.
        raise MalformedRequest(
            f"a {api_name(header.api_key)} v{header.api_version} request that cannot be read ({error})"
        ) from error
    return request


@cache
def _response_writer(api_key: int, version: int) -> Write:
    return writer_for(response_schema(api_key, version))


@cache
def _request_writer(api_key: int, version: int) -> Write:
    return writer_for(_request_schema(api_key, version))


def encode_response_body(api_key: int, version: int, body: Body) -> bytearray:
    out = bytearray()
    _response_writer(api_key, version)(out, body)
    return out


def encode_response(api_key: int, version: int, correlation_id: int, body: Body) -> bytearray:
    """A whole response frame, length prefix included."""
    out = bytearray(8)
    if _response_header_is_flexible(api_key, version):
        out.append(0)
    _response_writer(api_key, version)(out, body)
    struct.pack_into(">ii", out, 0, len(out) - 4, correlation_id)
    return out


@cache
def throttle_time_at(api_key: int, version: int) -> int | None:
    """The position of the throttle time in a whole response frame, or None if it is not the first field."""
    if dataclasses.fields(response_schema(api_key, version))[0].name != "throttle_time":
        return None
    return 9 if _response_header_is_flexible(api_key, version) else 8


def encode_request(api_key: int, version: int, correlation_id: int, client_id: str | None, body: Body) -> bytearray:
    """A whole request frame, length prefix included."""
    out = bytearray(4)
    out += _FIXED_HEADER.pack(api_key, version, correlation_id)
    if client_id is None:
        out += b"\xff\xff"
    else:
        data = client_id.encode()
        out += _INT16.pack(len(data))
        out += data
    if _request_header_is_flexible(api_key, version):
        out.append(0)
    _request_writer(api_key, version)(out, body)
    struct.pack_into(">i", out, 0, len(out) - 4)
    return out


def read_response(api_key: int, version: int, frame: bytes | bytearray | memoryview) -> tuple[int, Entity]:
    """(correlation id, kio's entity) of a response frame without its length prefix."""
    (correlation_id,) = struct.unpack_from(">i", frame, 0)
    at = 4
    if _response_header_is_flexible(api_key, version):
        at = skip_tagged_fields(frame, at)
    response, _ = _response_reader(api_key, version)(bytes(frame), at)
    return correlation_id, response


def millis(value: timedelta) -> int:
    """kio reads durations as timedelta; the broker counts milliseconds."""
    return (value.days * 86_400 + value.seconds) * 1000 + value.microseconds // 1000
