"""The codecs of a batch's record section: gzip, snappy (Xerial framing), lz4 (frames), zstd.

Decompression is bounded: the output never exceeds `limit`, so a few kilobytes from a client cannot become gigabytes.
The native calls write into a buffer of fixed size. The code guesses the size and doubles it while it is too small; all
attempts together cost about twice the last one.

Two properties of other clients determine what is written. Java reads only lz4 frames with independent blocks, which
the library's frame call cannot write, so this module builds frames from single blocks. Java expects snappy with the
Xerial header, so it is written; reading accepts snappy with or without it, because librdkafka sends it without.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import Final

import cramjam

from headrace.kernel.errors import CorruptBatch
from headrace.records.compression import Buffer, Codec

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
# Frame magic; flags: version 1, independent blocks, no checksums; block size 64 KiB; header checksum.
_LZ4_HEADER: Final = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK_BYTES: Final = 64 * 1024
_LZ4_STORED: Final = 0x80000000
_TOO_SMALL: Final = "failed to write whole buffer"
_GUESS_FACTOR: Final = 4
_SMALLEST_GUESS: Final = 4096
_LZ4_DEFAULT_LEVEL: Final = 9
_LZ4_FRAME_HEAD_BYTES: Final = 7
_LZ4_CONTENT_SIZE_FLAG: Final = 0x08


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    if codec is Codec.GZIP:
        return bytes(cramjam.gzip.compress(data, level=6 if level is None or level < 0 else level))
    if codec is Codec.SNAPPY:
        return _compress_xerial(data)
    if codec is Codec.LZ4:
        return _compress_lz4(data, level)
    return bytes(cramjam.zstd.compress(data, level=3 if level is None else level))


def decompress(codec: Codec, data: Buffer, limit: int) -> bytes | memoryview:
    """The decompressed bytes. Raises CorruptBatch if they are damaged or exceed `limit`."""
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
        # When Java appends to an existing stream, it repeats the header between blocks.
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
    # As in Kafka, the default level selects the fast compressor and every other level the high compressor.
    block_of = (
        _fast_lz4_block if level in (None, _LZ4_DEFAULT_LEVEL) else partial(_high_compression_lz4_block, level=level)
    )
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


def _high_compression_lz4_block(plain: memoryview, level: int) -> bytes:
    """The library accepts a level for whole frames only. This compresses a frame of one block and extracts the block,
    so that blocks stay independent, as Java requires.
    """
    frame = bytes(cramjam.lz4.compress(plain, level=level))
    at = _LZ4_FRAME_HEAD_BYTES + (8 if frame[4] & _LZ4_CONTENT_SIZE_FLAG else 0)
    size = int.from_bytes(frame[at : at + 4], "little")
    return bytes(plain) if size & _LZ4_STORED else frame[at + 4 : at + 4 + size]
