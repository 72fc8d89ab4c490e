"""Batches with a valid checksum and unreadable records, as a broken producer sends them."""

from __future__ import annotations

import struct
from enum import Enum

from crc32c import crc32c

from headrace.records.batch import HEADER_BYTES
from headrace.records.builder import Record, build_batch
from headrace.records.compression import Codec, compress

_NOISE = b"\x10noise that is not records" * 3
_NO_COMPRESSED_DATA = b"\x07garbage that no codec wrote" * 3


class Damage(Enum):
    GARBAGE = "bytes that are not of the codec"
    NOISE = "compressed bytes that are not records"
    ENDS_EARLY = "fewer records than the header counts"
    GOES_ON = "more records than the header counts"
    CUT = "compressed data without its end"


def unreadable_batch(codec: Codec, damage: Damage, count: int = 3, *, timestamp_ms: int = 1_700_000_000_000) -> bytes:
    whole = _batch(codec, count, timestamp_ms)
    section = {
        Damage.GARBAGE: lambda: _NO_COMPRESSED_DATA,
        Damage.NOISE: lambda: compress(codec, _NOISE),
        Damage.ENDS_EARLY: lambda: _batch(codec, count - 1, timestamp_ms)[HEADER_BYTES:],
        Damage.GOES_ON: lambda: _batch(codec, count + 1, timestamp_ms)[HEADER_BYTES:],
        Damage.CUT: lambda: whole[HEADER_BYTES:-5],
    }[damage]()
    return with_section(whole, section)


def _batch(codec: Codec, count: int, timestamp_ms: int) -> bytes:
    return build_batch([Record(b"k", b"unreadable", timestamp_ms=timestamp_ms)] * count, codec=codec)


def with_section(batch: bytes, section: bytes) -> bytes:
    """The batch with other bytes for its records, with corrected length and checksum."""
    out = bytearray(batch[:HEADER_BYTES] + section)
    struct.pack_into(">i", out, 8, len(out) - 12)
    struct.pack_into(">I", out, 17, crc32c(bytes(out[21:])))
    return bytes(out)
