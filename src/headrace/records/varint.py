"""Zigzag variable-length integers, as used in the records of a batch."""

from __future__ import annotations

from headrace.kernel.errors import CorruptBatch

# Ten groups of seven bits hold any 64-bit number; a longer run is corrupt.
_MAX_SHIFT = 63


def write_varint(out: bytearray, value: int) -> None:
    folded = (value << 1) ^ (value >> 63)
    while folded > 0x7F:
        out.append(folded & 0x7F | 0x80)
        folded >>= 7
    out.append(folded)


def read_varint(buffer: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """The number at `position` and the position after it. Raises CorruptBatch if it is cut off or too long."""
    folded = shift = 0
    try:
        while True:
            byte = buffer[position]
            position += 1
            folded |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (folded >> 1) ^ -(folded & 1), position
            shift += 7
            if shift > _MAX_SHIFT:
                break
    except IndexError:
        raise CorruptBatch(f"record data ends inside a number at byte {position}") from None
    raise CorruptBatch(f"record data holds a number of more than ten bytes at byte {position}")
