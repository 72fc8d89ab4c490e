"""How a record names its schema: in front of the payload, or in a header (Confluent's wire formats).

    prefix   00 | id (4 bytes, big-endian) | payload
    header   `__key_schema_id` or `__value_schema_id`: 01 | GUID (16 bytes), or 00 | id; the payload has no prefix

Protobuf adds message indexes after the id or GUID: the path from the file to the message, as a count and indexes in
zig-zag varints. A single 0 stands for the first message.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Final

from headrace.kernel.dataclass import dataclass
from headrace.serialization.errors import SerializationError

KEY_HEADER: Final = "__key_schema_id"
VALUE_HEADER: Final = "__value_schema_id"
_ID_MAGIC: Final = 0
_GUID_MAGIC: Final = 1
_PREFIX_SIZE: Final = 5
_GUID_SIZE: Final = 17
_MOST_INDEXES: Final = 100


@dataclass(frozen=True, slots=True)
class Framed:
    """`schema` is an id, or a GUID as text."""

    schema: int | str
    payload: bytes
    indexes: bytes | None
    """What follows the id or GUID in a header. None in the prefix form: there the payload begins with it."""


def prefixed(id_: int, payload: bytes) -> bytes:
    return b"\x00" + id_.to_bytes(4, "big") + payload


def header_name(*, is_key: bool) -> str:
    return KEY_HEADER if is_key else VALUE_HEADER


def guid_header(guid: str, indexes: bytes = b"") -> bytes:
    return b"\x01" + uuid.UUID(guid).bytes + indexes


def framed(data: bytes, headers: Iterable[tuple[str, bytes | None]] = (), *, is_key: bool = False) -> Framed:
    """A header wins over the prefix. Raises SerializationError if the record names no schema."""
    wanted = header_name(is_key=is_key)
    named = [value for name, value in headers if name == wanted and value]
    if named:
        return _by_header(wanted, named[0], data)
    if len(data) < _PREFIX_SIZE:
        raise SerializationError(f"no schema id: the record has {len(data)} bytes, fewer than the prefix of 5")
    if data[0] != _ID_MAGIC:
        raise SerializationError(f"no schema id: the record begins with byte 0x{data[0]:02x}, not with 0x00")
    return Framed(int.from_bytes(data[1:_PREFIX_SIZE], "big"), data[_PREFIX_SIZE:], None)


def _by_header(name: str, value: bytes, data: bytes) -> Framed:
    if value[0] == _GUID_MAGIC and len(value) >= _GUID_SIZE:
        return Framed(str(uuid.UUID(bytes=bytes(value[1:_GUID_SIZE]))), data, bytes(value[_GUID_SIZE:]))
    if value[0] == _ID_MAGIC and len(value) >= _PREFIX_SIZE:
        return Framed(int.from_bytes(value[1:_PREFIX_SIZE], "big"), data, bytes(value[_PREFIX_SIZE:]))
    raise SerializationError(f"header {name} holds {value.hex()}: must be 01 and a GUID, or 00 and an id")


def message_indexes(path: Sequence[int]) -> bytes:
    """The first message of a file is one byte 0."""
    if tuple(path) == (0,):
        return b"\x00"
    return _varint(len(path)) + b"".join(map(_varint, path))


def split_message_indexes(data: bytes) -> tuple[tuple[int, ...], bytes]:
    """(path, what follows). Raises SerializationError."""
    count, position = _read_varint(data, 0)
    if count == 0:
        return (0,), data[position:]
    if not 0 < count <= _MOST_INDEXES:
        raise SerializationError(f"message indexes: {count} levels of nesting: must be 0 to {_MOST_INDEXES}")
    path = []
    for _ in range(count):
        index, position = _read_varint(data, position)
        path.append(index)
    return tuple(path), data[position:]


def _varint(number: int) -> bytes:
    value = (number << 1) ^ (number >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise SerializationError("message indexes: the record ends within them")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
