"""Bounds of what a request claims to hold, for the requests that are read by hand."""

from __future__ import annotations

from headrace.wire.codec import MalformedRequest


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
