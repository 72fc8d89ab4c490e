"""Primitive types of Kafka's messages, for records that kio has no schemas for."""

from __future__ import annotations

import struct
import uuid
from typing import Final

from headrace.kernel.ids import ZERO_UUID

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")


class UnreadableRecord(Exception):
    """A record of a type or version that this release does not know, or bytes that end too early."""


class Reader:
    """Reads one key or value from its beginning to its end."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self._at = at

    def int8(self) -> int:
        return int.from_bytes(self._take(1), "big", signed=True)

    def int16(self) -> int:
        return int.from_bytes(self._take(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self._take(4), "big", signed=True)

    def int64(self) -> int:
        return int.from_bytes(self._take(8), "big", signed=True)

    def uuid(self) -> uuid.UUID:
        return uuid.UUID(bytes=bytes(self._take(16)))

    def uvarint(self) -> int:
        value = shift = 0
        while True:
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 35:
                raise UnreadableRecord("a length that never ends")

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise UnreadableRecord("null where a text must be")
        return text

    def nullable_string(self) -> str | None:
        length = self.int16()
        return None if length < 0 else str(self._take(length), "utf-8")

    def bytes_(self) -> bytes:
        return bytes(self._take(max(self.int32(), 0)))

    def compact_string(self) -> str:
        text = self.compact_nullable_string()
        if text is None:
            raise UnreadableRecord("null where a text must be")
        return text

    def compact_nullable_string(self) -> str | None:
        length = self.uvarint() - 1
        return None if length < 0 else str(self._take(length), "utf-8")

    def compact_bytes(self) -> bytes:
        return bytes(self._take(max(self.uvarint() - 1, 0)))

    def array_count(self) -> int:
        """-1 for null."""
        return self._bounded(self.int32())

    def compact_count(self) -> int:
        return self._bounded(self.uvarint() - 1)

    def compact_int32s(self) -> list[int]:
        count = self.compact_count()
        return list(struct.unpack(f">{count}i", self._take(4 * count))) if count > 0 else []

    def compact_strings(self) -> list[str]:
        return [self.compact_string() for _ in range(self.compact_count())]

    def tagged(self) -> dict[int, bytes]:
        """Tagged fields by tag; the caller ignores unknown ones."""
        count = self.uvarint()
        return {self.uvarint(): bytes(self._take(self.uvarint())) for _ in range(count)} if count else {}

    def _bounded(self, count: int) -> int:
        # Every element takes at least a byte: a count beyond the rest of the record is damage.
        if count > len(self._data) - self._at:
            raise UnreadableRecord(f"a count of {count} in a record of {len(self._data)} bytes")
        return count

    def _take(self, length: int) -> bytes:
        end = self._at + length
        if end > len(self._data):
            raise UnreadableRecord(f"a record of {len(self._data)} bytes ends too early")
        part = self._data[self._at : end]
        self._at = end
        return part


def read_version(data: bytes, supported: range, name: str) -> tuple[int, Reader]:
    reader = Reader(data)
    version = reader.int16()
    if version not in supported:
        raise UnreadableRecord(
            f"{name} version {version}: this release knows {supported.start} to {supported.stop - 1}"
        )
    return version, reader


def int16(value: int) -> bytes:
    return _INT16.pack(value)


def int32(value: int) -> bytes:
    return _INT32.pack(value)


def int64(value: int) -> bytes:
    return _INT64.pack(value)


def uvarint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def string(text: str) -> bytes:
    data = text.encode()
    return _INT16.pack(len(data)) + data


def nullable_string(text: str | None) -> bytes:
    return b"\xff\xff" if text is None else string(text)


def bytes_(data: bytes) -> bytes:
    return _INT32.pack(len(data)) + data


def compact_string(text: str) -> bytes:
    data = text.encode()
    return uvarint(len(data) + 1) + data


def compact_nullable_string(text: str | None) -> bytes:
    return b"\0" if text is None else compact_string(text)


def compact_bytes(data: bytes) -> bytes:
    return uvarint(len(data) + 1) + data


def compact_int32s(values: list[int] | tuple[int, ...]) -> bytes:
    return uvarint(len(values) + 1) + struct.pack(f">{len(values)}i", *values)


def compact_strings(values: list[str] | tuple[str, ...]) -> bytes:
    return uvarint(len(values) + 1) + b"".join(map(compact_string, values))


def uuid_bytes(value: uuid.UUID | None) -> bytes:
    return (value or ZERO_UUID).bytes


def tagged(fields: dict[int, bytes] | None = None) -> bytes:
    if not fields:
        return b"\0"
    parts = [uvarint(len(fields))]
    for tag in sorted(fields):
        parts += (uvarint(tag), uvarint(len(fields[tag])), fields[tag])
    return b"".join(parts)


# The key of most record types is a group id and at most one more string.


def key_of(record_type: int, *words: str) -> bytes:
    return _INT16.pack(record_type) + b"".join(map(string, words))


def key_type(key: bytes) -> int:
    if len(key) < 2:
        raise UnreadableRecord(f"a key of {len(key)} bytes")
    return int(_INT16.unpack_from(key)[0])


def key_words(key: bytes, count: int) -> list[str]:
    reader = Reader(key, 2)
    return [reader.string() for _ in range(count)]
