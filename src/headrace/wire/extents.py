"""Checks that the lengths in a request stay within its frame, before the native reader uses them.

kio's reader allocates an array by the count in the request: four bytes from any client could request a hundred
gigabytes and kill the process. It also refuses unknown tagged fields, which newer clients may send (KIP-482). So each
request class is compiled once, on first use, into a function that walks over the bytes without creating objects. It
bounds every count by the remaining bytes, refuses null for a list that is not nullable, and removes unknown tagged
fields.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from functools import cache
from typing import Final

from kio.serial._introspect import (
    EntityField,
    EntityTupleField,
    classify_field,
    get_field_tag,
    get_schema_field_type,
    is_optional,
)

from headrace.wire.entities import Entity, SchemaField
from headrace.wire.schema_writer import write_uvarint

Buffer = bytes | bytearray | memoryview
# (start, end, replacement)
Cuts = list[tuple[int, int, bytes]]
Walk = Callable[[Buffer, int, Cuts], int]

_SIZES: Final = {
    "int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8, "float64": 8,
    "bool": 1, "error_code": 2, "timedelta_i32": 4, "timedelta_i64": 8, "datetime_i64": 8, "uuid": 16,
}  # fmt: skip
# No valid client sends more; each element costs far more memory than its bytes.
_MAX_ELEMENTS: Final = 1_000_000
_i16: Final = struct.Struct(">h").unpack_from
_i32: Final = struct.Struct(">i").unpack_from


class BeyondFrame(ValueError):
    """A count or length that exceeds the frame, or null for a list that is not nullable."""


def _uvarint(buffer: Buffer, at: int) -> tuple[int, int]:
    byte = buffer[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    while True:
        at += 1
        byte = buffer[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
        shift += 7
        if shift > 28:
            raise BeyondFrame("a length that never ends")


def _skip_legacy_string(buffer: Buffer, at: int) -> int:
    (length,) = _i16(buffer, at)
    return at + 2 if length < 0 else at + 2 + int(length)


def _skip_legacy_bytes(buffer: Buffer, at: int) -> int:
    (length,) = _i32(buffer, at)
    return at + 4 if length < 0 else at + 4 + int(length)


def _skip_compact(buffer: Buffer, at: int) -> int:
    length, at = _uvarint(buffer, at)
    return at if length == 0 else at + length - 1


def _bounded(buffer: Buffer, at: int, count: int, smallest: int) -> int:
    if count * smallest > len(buffer) - at or count > _MAX_ELEMENTS:
        raise BeyondFrame(f"a list of {count} where {len(buffer) - at} bytes are left")
    return count


def _legacy_count(buffer: Buffer, at: int, smallest: int, nullable: bool) -> tuple[int, int]:
    (count,) = _i32(buffer, at)
    if count >= 0:
        return _bounded(buffer, at + 4, count, smallest), at + 4
    return _null(nullable), at + 4


def _compact_count(buffer: Buffer, at: int, smallest: int, nullable: bool) -> tuple[int, int]:
    count, at = _uvarint(buffer, at)
    return (_bounded(buffer, at, count - 1, smallest) if count else _null(nullable)), at


def _null(nullable: bool) -> int:
    # kio reads a null list as None even if the schema does not allow it. Handlers do not expect that.
    if not nullable:
        raise BeyondFrame("null where a list must be")
    return 0


def _walk_tagged(buffer: Buffer, at: int, cuts: Cuts, known: dict[int, Walk]) -> int:
    start = at
    count, at = _uvarint(buffer, at)
    if not count:
        return at
    _bounded(buffer, at, count, 2)
    kept: list[tuple[int, int]] = []
    for _ in range(count):
        field_start = at
        tag, at = _uvarint(buffer, at)
        size, at = _uvarint(buffer, at)
        end = at + size
        if end > len(buffer):
            raise BeyondFrame(f"a tagged field of {size} bytes where {len(buffer) - at} are left")
        if tag in known:
            inner: Cuts = []
            if known[tag](buffer, at, inner) != end or inner:
                raise BeyondFrame(f"tagged field {tag} is not as long as it says")
            kept.append((field_start, end))
        at = end
    if len(kept) < count:
        replaced = bytearray()
        write_uvarint(replaced, len(kept))
        for field_start, end in kept:
            replaced += buffer[field_start:end]
        cuts.append((start, at, bytes(replaced)))
    return at


class _Walker:
    """Generates the source of one walk; sizes of neighbouring fixed-width fields are added up."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, object] = {}
        self.smallest = 0
        self._fixed = 0

    def bind(self, value: object) -> str:
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def fixed(self, size: int) -> None:
        self._fixed += size
        self.smallest += size

    def line(self, text: str) -> None:
        if self._fixed:
            self.lines.append(f"at += {self._fixed}")
            self._fixed = 0
        self.lines.append(text)

    def compile(self) -> Walk:
        self.line("return at")
        exec("def walk(b, at, cuts):\n    " + "\n    ".join(self.lines) + "\n", self.names)
        return self.names["walk"]  # type: ignore[return-value]


def _skipper(kafka_type: str, flexible: bool) -> tuple[Callable[[Buffer, int], int], int]:
    """The function that skips one value of variable length, and the minimum size of the value."""
    if flexible:
        return _skip_compact, 1
    return (_skip_legacy_string, 2) if kafka_type == "string" else (_skip_legacy_bytes, 4)


def _array(walker: _Walker, field: SchemaField, flexible: bool) -> None:
    kind = classify_field(field)
    count = walker.bind(_compact_count if flexible else _legacy_count)
    nullable = is_optional(field)
    if isinstance(kind, EntityTupleField):
        walk, smallest = _compiled(kind.type_)
        walker.line(f"n, at = {count}(b, at, {max(smallest, 1)}, {nullable})")
        walker.line(f"for _ in range(n): at = {walker.bind(walk)}(b, at, cuts)")
    else:
        kafka_type = get_schema_field_type(field)
        size = _SIZES.get(kafka_type)
        if size is not None:
            walker.line(f"n, at = {count}(b, at, {size}, {nullable})")
            walker.line(f"at += n * {size}")
        else:
            skip, smallest = _skipper(kafka_type, flexible)
            walker.line(f"n, at = {count}(b, at, {smallest}, {nullable})")
            walker.line(f"for _ in range(n): at = {walker.bind(skip)}(b, at)")
    walker.smallest += 1 if flexible else 4


def _field(walker: _Walker, field: SchemaField, flexible: bool, tagged: bool) -> None:
    kind = classify_field(field)
    if kind.is_array:
        _array(walker, field, flexible)
    elif isinstance(kind, EntityField):
        walk, smallest = _compiled(kind.type_)
        if is_optional(field) and not tagged:
            walker.line("at += 1")
            walker.line(f"if b[at - 1] == 1: at = {walker.bind(walk)}(b, at, cuts)")
            walker.smallest += 1
        else:
            walker.line(f"at = {walker.bind(walk)}(b, at, cuts)")
            walker.smallest += smallest
    else:
        kafka_type = get_schema_field_type(field)
        size = _SIZES.get(kafka_type)
        if size is not None:
            walker.fixed(size)
        else:
            skip, smallest = _skipper(kafka_type, flexible)
            walker.line(f"at = {walker.bind(skip)}(b, at)")
            walker.smallest += smallest


@cache
def _compiled(entity: Entity) -> tuple[Walk, int]:
    """The walk over one class, and the minimum size of its entities."""
    flexible: bool = entity.__flexible__
    walker = _Walker()
    tagged: dict[int, Walk] = {}
    for field in dataclasses.fields(entity):
        tag = get_field_tag(field)
        if tag is None:
            _field(walker, field, flexible, tagged=False)
        else:
            inner = _Walker()
            _field(inner, field, flexible, tagged=True)
            tagged[tag] = inner.compile()
    if flexible:
        walker.line(f"at = {walker.bind(_walk_tagged)}(b, at, cuts, {walker.bind(tagged)})")
        walker.smallest += 1
    return walker.compile(), walker.smallest


def checked(entity: Entity, buffer: bytes, at: int) -> bytes:
    """The bytes, without tagged fields that `entity` does not know. Raises BeyondFrame, IndexError, struct.error."""
    cuts: Cuts = []
    walk, _ = _compiled(entity)
    end = walk(buffer, at, cuts)
    if end > len(buffer):
        raise BeyondFrame(f"a request of {end - at} bytes where {len(buffer) - at} are left")
    if not cuts:
        return buffer
    out = bytearray()
    done = 0
    for start, stop, replacement in cuts:
        out += buffer[done:start]
        out += replacement
        done = stop
    return bytes(out + buffer[done:])
