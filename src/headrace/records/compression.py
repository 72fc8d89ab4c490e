"""Compression of a batch's record section: which codec, and where its library is loaded.

The library takes almost two megabytes of memory. A broker stores compressed batches as they are, so `native_codecs`
loads with the first batch that must be compressed or decompressed.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

Buffer = bytes | bytearray | memoryview

# A batch has at most `message.max.bytes` (default 1 MiB); real data compresses by a factor below 100.
MAX_DECOMPRESSED_BYTES: Final = 128 * 1024 * 1024


class Codec(IntEnum):
    """The three low bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def from_name(cls, name: str) -> Codec:
        """From a `compression.type` other than "producer"; "uncompressed" is Kafka's topic-level word for none."""
        return cls.NONE if name == "uncompressed" else cls[name.upper()]


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    if codec is Codec.NONE:
        return bytes(data)
    from headrace.records import native_codecs

    return native_codecs.compress(codec, data, level)


def decompress(codec: Codec, data: Buffer, limit: int = MAX_DECOMPRESSED_BYTES) -> bytes | memoryview:
    """The decompressed bytes. Raises CorruptBatch if they are damaged or exceed `limit`."""
    if codec is Codec.NONE:
        return data if isinstance(data, memoryview) else memoryview(data)
    from headrace.records import native_codecs

    return native_codecs.decompress(codec, data, limit)
