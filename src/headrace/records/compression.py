"""The codecs of a batch's record section: none, gzip, snappy (Xerial framing), lz4 (frames), zstd.

Opening is bounded: the output never grows past `limit`, so a few kilobytes from a client cannot become gigabytes here.
The native calls only write into a buffer of fixed size, therefore the size is guessed and doubled when it was too
small; all tries together cost about twice the last one.

Two facts of the ecosystem shape the writing side. Java's reader accepts only lz4 frames with independent blocks, which
the library's own frame call does not make, so frames are put together here from single blocks. And snappy is written
with the Xerial header that Java expects, but read with or without it, because librdkafka sends it bare.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntEnum
from functools import partial
from typing import Final

import cramjam

from headrace.kernel.errors import CorruptBatch

Buffer = bytes | bytearray | memoryview

# A batch is at most `message.max.bytes` on the wire (1 MiB unless raised); real data shrinks by a factor below 100.
MAX_DECOMPRESSED_BYTES: Final = 128 * 1024 * 1024

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
# Frame magic, version 1 with independent blocks and no checksums, blocks of 64 KiB, and the header checksum of these
# two.
_LZ4_HEADER: Final = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK_BYTES: Final = 64 * 1024
_LZ4_STORED: Final = 0x80000000
_TOO_SMALL: Final = "failed to write whole buffer"
_GUESS_FACTOR: Final = 4
_SMALLEST_GUESS: Final = 4096
_LZ4_DEFAULT_LEVEL: Final = 9
_LZ4_FRAME_HEAD_BYTES: Final = 7
_LZ4_CONTENT_SIZE_FLAG: Final = 0x08


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
    if codec is Codec.GZIP:
        return bytes(cramjam.gzip.compress(data, level=6 if level is None or level < 0 else level))
    if codec is Codec.SNAPPY:
        return _compress_xerial(data)
    if codec is Codec.LZ4:
        return _compress_lz4(data, level)
    return bytes(cramjam.zstd.compress(data, level=3 if level is None else level))


def decompress(codec: Codec, data: Buffer, limit: int = MAX_DECOMPRESSED_BYTES) -> bytes | memoryview:
    """The opened bytes; raises CorruptBatch when they are damaged or would be more than `limit`."""
    if codec is Codec.NONE:
        return data if isinstance(data, memoryview) else memoryview(data)
    try:
        if codec is Codec.SNAPPY:
            return _decompress_snappy(data, limit)
        if codec is Codec.GZIP:
            return _decompress_growing(cramjam.gzip.decompress_into, data, limit)
        if codec is Codec.LZ4:
            return _decompress_growing(cramjam.lz4.decompress_into, data, limit)
        return _decompress_growing(cramjam.zstd.decompress_into, data, limit)
    except cramjam.DecompressionError as damage:
        raise CorruptBatch(f"{codec.name.lower()} data cannot be decompressed: {damage}") from None


def _decompress_growing(into: Callable[[Buffer, bytearray], int], data: Buffer, limit: int) -> memoryview:
    size = min(limit, max(_SMALLEST_GUESS, len(data) * _GUESS_FACTOR))
    while True:
        out = bytearray(size)
        try:
            return memoryview(out)[: into(data, out)]
        except cramjam.DecompressionError as refusal:
            if _TOO_SMALL not in str(refusal):
                raise
        if size >= limit:
            raise CorruptBatch(f"batch opens to more than {limit} bytes: refused as too large to decompress")
        size = min(limit, size * 2)


def _compress_xerial(data: Buffer) -> bytes:
    source = memoryview(data)
    out = bytearray(_XERIAL_HEADER)
    for at in range(0, len(source), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(source[at : at + _XERIAL_BLOCK_BYTES]))
        out += len(block).to_bytes(4, "big")
        out += block
    return bytes(out)


def _decompress_snappy(data: Buffer, limit: int) -> bytes:
    source = memoryview(data)
    if bytes(source[:8]) != _XERIAL_MAGIC:
        return _open_snappy_block(source, limit)
    if len(source) < len(_XERIAL_HEADER):
        raise CorruptBatch("snappy data ends inside its header")
    out = bytearray()
    at = len(_XERIAL_HEADER)
    while at < len(source):
        # Java may append to an open stream, which repeats the header between blocks.
        if bytes(source[at : at + 8]) == _XERIAL_MAGIC:
            at += len(_XERIAL_HEADER)
            continue
        length = int.from_bytes(source[at : at + 4], "big")
        block = source[at + 4 : at + 4 + length]
        if len(block) != length or not length:
            raise CorruptBatch(f"snappy block at byte {at} claims {length} bytes, {len(block)} are there")
        out += _open_snappy_block(block, limit - len(out))
        at += 4 + length
    return bytes(out)


def _open_snappy_block(block: memoryview, limit: int) -> bytes:
    if len(block) == 0:
        raise CorruptBatch("snappy data is empty")
    size = cramjam.snappy.decompress_raw_len(block)
    if size > limit:
        raise CorruptBatch(
            f"batch opens to {size} bytes, more than the {limit} allowed: refused as too large to decompress"
        )
    return bytes(cramjam.snappy.decompress_raw(block))


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    source = memoryview(data)
    out = bytearray(_LZ4_HEADER)
    # As in Kafka the default level means the fast way, and every other the thorough one.
    block_of = _fast_lz4_block if level in (None, _LZ4_DEFAULT_LEVEL) else partial(_tight_lz4_block, level=level)
    for at in range(0, len(source), _LZ4_BLOCK_BYTES):
        plain = source[at : at + _LZ4_BLOCK_BYTES]
        block = block_of(plain)
        if len(block) < len(plain):
            out += len(block).to_bytes(4, "little")
            out += block
        else:
            out += (len(plain) | _LZ4_STORED).to_bytes(4, "little")
            out += plain
    out += bytes(4)
    return bytes(out)


def _fast_lz4_block(plain: memoryview) -> bytes:
    return bytes(cramjam.lz4.compress_block(plain, store_size=False))


def _tight_lz4_block(plain: memoryview, level: int) -> bytes:
    """Levels are offered for whole frames only: the one block of a frame is taken out of it, so that blocks stay
    independent of each other, as Java demands.
    """
    frame = bytes(cramjam.lz4.compress(plain, level=level))
    at = _LZ4_FRAME_HEAD_BYTES + (8 if frame[4] & _LZ4_CONTENT_SIZE_FLAG else 0)
    size = int.from_bytes(frame[at : at + 4], "little")
    return bytes(plain) if size & _LZ4_STORED else frame[at + 4 : at + 4 + size]
