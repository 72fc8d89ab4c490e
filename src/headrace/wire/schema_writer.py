"""Writers for Kafka messages, compiled from kio's schemas, that take plain values.

kio has a typed class for every API and version. Writing a response through these classes has two costs: a handler would
need code for each version, because each version is another class; and kio's writer is Python code over small objects.
This module compiles each class once, on first use, into one function over a plain mapping:

    write = writer_for(MetadataResponse)          # of some version
    write(out, {"brokers": [...], "topics": [...], ...})

The mapping has the fields of the newest version; the writer of an older version skips fields that it lacks. Error codes
are integers, durations and timestamps are integers in milliseconds, ids are `uuid.UUID`, and a sequence is anything
with a length. One `struct` call packs neighbouring fixed-width fields.

Fields without a default are mandatory: a forgotten error code is a KeyError in a test, not a silent success. The only
exceptions are `throttle_time` (default 0) and booleans (default false).
"""

from __future__ import annotations

import dataclasses
import struct
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from kio.serial._introspect import (
    EntityField,
    EntityTupleField,
    PrimitiveField,
    PrimitiveTupleField,
    classify_field,
    get_field_tag,
    get_schema_field_type,
    is_optional,
)

from headrace.wire.entities import Body, EntityClass, SchemaField

Write = Callable[[bytearray, Body], None]

_FIXED: Final = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "float64": "d",
    "bool": "?",
    "error_code": "h",
    "timedelta_i32": "i",
    "timedelta_i64": "q",
    "datetime_i64": "q",
}
_ZERO_UUID_BYTES: Final = bytes(16)


def write_uvarint(out: bytearray, value: int) -> None:
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _compact_bytes(out: bytearray, value: bytes | str | None) -> None:
    if value is None:
        out.append(0)
        return
    data = value.encode() if isinstance(value, str) else value
    length = len(data) + 1
    if length < 0x80:
        out.append(length)
    else:
        write_uvarint(out, length)
    out += data


def _legacy_string(out: bytearray, value: str | None) -> None:
    if value is None:
        out += b"\xff\xff"
        return
    data = value.encode()
    out += len(data).to_bytes(2, "big")
    out += data


def _legacy_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out += b"\xff\xff\xff\xff"
        return
    out += len(value).to_bytes(4, "big")
    out += value


def _uuid(out: bytearray, value: uuid.UUID | None) -> None:
    out += _ZERO_UUID_BYTES if value is None else value.bytes


def _plain(value: object) -> object:
    """A schema's default as a plain value."""
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    if isinstance(value, datetime):
        return int(value.timestamp() * 1000)
    return value


def _default_of(field: SchemaField, kafka_type: str | None) -> tuple[bool, object]:
    if field.name == "throttle_time":
        return True, 0
    if field.default is not dataclasses.MISSING:
        value = _plain(field.default)
        # A null timestamp is -1 on the wire.
        return True, -1 if value is None and kafka_type == "datetime_i64" else value
    if kafka_type == "bool":
        return True, False
    return False, None


class _Source:
    """Generates the source of one writer; collects fixed-width fields until the next `struct` call."""

    def __init__(self, flexible: bool) -> None:
        self.flexible = flexible
        self.lines: list[str] = []
        self.names: dict[str, object] = {}
        self._formats: list[str] = []
        self._values: list[str] = []

    def bind(self, value: object) -> str:
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def fixed(self, code: str, expression: str) -> None:
        self._formats.append(code)
        self._values.append(expression)

    def flush(self) -> None:
        if self._formats:
            packer = self.bind(struct.Struct(">" + "".join(self._formats)).pack)
            self.lines.append(f"out += {packer}({', '.join(self._values)})")
            self._formats, self._values = [], []

    def line(self, text: str) -> None:
        self.flush()
        self.lines.append(text)

    def compile(self) -> Write:
        self.flush()
        body = "\n    ".join(self.lines) or "pass"
        source = f"def write(out, v):\n    {body}\n"
        exec(source, self.names)
        return self.names["write"]  # type: ignore[return-value]


def _primitive_writer(kafka_type: str, flexible: bool) -> Callable[..., None]:
    if kafka_type == "uuid":
        return _uuid
    if flexible:
        return _compact_bytes
    return _legacy_string if kafka_type == "string" else _legacy_bytes


def _array(source: _Source, value: str, field: SchemaField, flexible: bool) -> None:
    field_class = classify_field(field)
    source.line(f"a = {value}")
    # kio marks a nullable array only by `tuple[...] | None`; this writer accepts a null array everywhere.
    if flexible:
        uvarint = source.bind(write_uvarint)
        source.line(f"{uvarint}(out, 0 if a is None else len(a) + 1)")
    else:
        source.line("out += (-1 if a is None else len(a)).to_bytes(4, 'big', signed=True)")
    if isinstance(field_class, EntityTupleField):
        writer = source.bind(writer_for(field_class.type_))
        source.line("if a:")
        source.line(f"    for e in a: {writer}(out, e)")
        return
    assert isinstance(field_class, PrimitiveTupleField)
    kafka_type = get_schema_field_type(field)
    if kafka_type in _FIXED:
        pack = source.bind(struct.pack)
        source.line(f"if a: out += {pack}('>%d{_FIXED[kafka_type]}' % len(a), *a)")
    else:
        writer = source.bind(_primitive_writer(kafka_type, flexible))
        source.line("if a:")
        source.line(f"    for e in a: {writer}(out, e)")


def _field(source: _Source, value: str, field: SchemaField, flexible: bool, tagged: bool) -> None:
    field_class = classify_field(field)
    if field_class.is_array:
        _array(source, value, field, flexible)
        return
    if isinstance(field_class, EntityField):
        writer = source.bind(writer_for(field_class.type_))
        if is_optional(field) and not tagged:
            source.line(f"e = {value}")
            source.line("if e is None: out.append(0xff)")
            source.line(f"else: out.append(1); {writer}(out, e)")
        else:
            source.line(f"{writer}(out, {value})")
        return
    assert isinstance(field_class, PrimitiveField)
    kafka_type = get_schema_field_type(field)
    if kafka_type in _FIXED:
        source.fixed(_FIXED[kafka_type], value)
    else:
        writer = source.bind(_primitive_writer(kafka_type, flexible))
        source.line(f"{writer}(out, {value})")


def _tagged_fields(source: _Source, tagged: dict[int, SchemaField]) -> None:
    if not tagged:
        source.line("out.append(0)")
        return
    uvarint = source.bind(write_uvarint)
    source.line("tags = []")
    for tag, field in sorted(tagged.items()):
        inner = _Source(flexible=True)
        _field(inner, "v", field, flexible=True, tagged=True)
        writer = source.bind(inner.compile())
        kafka_type = None if classify_field(field).is_array else field.metadata.get("kafka_type")
        _, default = _default_of(field, kafka_type)
        bound = source.bind(default)
        source.line(f"t = v.get({field.name!r}, {bound})")
        # A tagged field with its default is not written. An empty list and an empty tuple are the same default.
        source.line("if t:" if default == () else f"if t is not None and t != {bound}:")
        source.line(f"    b = bytearray(); {writer}(b, t); tags.append(({tag}, b))")
    source.line(f"{uvarint}(out, len(tags))")
    source.line(f"for n, b in tags: {uvarint}(out, n); {uvarint}(out, len(b)); out += b")


_compiled: Final[dict[EntityClass, Write]] = {}


def writer_for(entity: EntityClass) -> Write:
    """The writer of one kio class, compiled on first use."""
    if entity not in _compiled:
        _compiled[entity] = _compile(entity)
    return _compiled[entity]


def _compile(entity: EntityClass) -> Write:
    flexible: bool = entity.__flexible__
    source = _Source(flexible)
    tagged: dict[int, SchemaField] = {}
    for field in dataclasses.fields(entity):
        tag = get_field_tag(field)
        if tag is not None:
            tagged[tag] = field
            continue
        kafka_type = field.metadata.get("kafka_type")
        has_default, default = _default_of(field, kafka_type)
        if has_default:
            value = f"v.get({field.name!r}, {source.bind(default)})"
        else:
            value = f"v[{field.name!r}]"
        # The client id of a request header has the old encoding in every version: a broker must be able to read the
        # header of an ApiVersions request with an unknown version.
        legacy = entity.__name__ == "RequestHeader" and field.name == "client_id"
        _field(source, value, field, flexible and not legacy, tagged=False)
    if flexible:
        _tagged_fields(source, tagged)
    return source.compile()
