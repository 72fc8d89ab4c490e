"""Bounds checks for lengths, counts and strings in a request, for the hand-written codecs."""

from __future__ import annotations

import struct
from typing import Final

from headrace.wire.codec import MalformedRequest, read_uvarint

_I16: Final = struct.Struct(">h")


def checked_end(data: bytes | memoryview, at: int, length: int) -> int:
    """The end of `length` bytes at `at`. Raises if the data is shorter, where a slice would silently be shorter too, or
    if the length is -1 (null).
    """
    end = at + length
    if length < 0 or end > len(data):
        raise MalformedRequest(f"a field of {length} bytes where {len(data) - at} are left")
    return end


def checked_count(data: bytes | memoryview, at: int, count: int, smallest: int) -> int:
    """`count`, if that many elements of at least `smallest` bytes each fit behind `at`. Raises otherwise."""
    if count < 0 or count * smallest > len(data) - at:
        raise MalformedRequest(f"a list of {count} where {len(data) - at} bytes are left")
    return count


def legacy_text(data: bytes | memoryview, at: int) -> tuple[str, int]:
    """A string of a version before the flexible ones, and the position after it."""
    (length,) = _I16.unpack_from(data, at)
    end = checked_end(data, at + 2, length)
    return str(data[at + 2 : end], "utf-8"), end


def compact_text(data: bytes | memoryview, at: int) -> tuple[str, int]:
    """A string of a flexible version, and the position after it."""
    length = data[at]
    if length < 0x80:
        at += 1
    else:
        length, at = read_uvarint(data, at)
    end = checked_end(data, at, length - 1)
    return str(data[at:end], "utf-8"), end
