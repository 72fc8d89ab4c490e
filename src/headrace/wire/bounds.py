"""Bounds of what a request claims to hold, and texts within them, for the requests that are read by hand."""

from __future__ import annotations

import struct
from typing import Final

from headrace.wire.codec import MalformedRequest, read_uvarint

_I16: Final = struct.Struct(">h")


def checked_end(data: bytes | memoryview, at: int, length: int) -> int:
    """The end of `length` bytes at `at`; slicing alone would silently give fewer, and -1 is a null."""
    end = at + length
    if length < 0 or end > len(data):
        raise MalformedRequest(f"a field of {length} bytes where {len(data) - at} are left")
    return end


def checked_count(data: bytes | memoryview, at: int, count: int, smallest: int) -> int:
    """`count`, when so many of at least `smallest` bytes each can stand behind `at`."""
    if count < 0 or count * smallest > len(data) - at:
        raise MalformedRequest(f"a list of {count} where {len(data) - at} bytes are left")
    return count


def legacy_text(data: bytes | memoryview, at: int) -> tuple[str, int]:
    """A text of the versions before flexible ones, and where it ends."""
    (length,) = _I16.unpack_from(data, at)
    end = checked_end(data, at + 2, length)
    return str(data[at + 2 : end], "utf-8"), end


def compact_text(data: bytes | memoryview, at: int) -> tuple[str, int]:
    """A text of a flexible version, and where it ends."""
    length = data[at]
    if length < 0x80:
        at += 1
    else:
        length, at = read_uvarint(data, at)
    end = checked_end(data, at, length - 1)
    return str(data[at:end], "utf-8"), end
