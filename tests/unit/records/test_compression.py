"""Codecs return what they compressed, respect the size limit, and refuse damaged data."""

from __future__ import annotations

import random

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.kernel.errors import CorruptBatch
from headrace.records.compression import Codec, compress, decompress

COMPRESSED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


@given(st.binary(max_size=300), st.integers(1, 2000), st.sampled_from(COMPRESSED))
def test_decompress_returns_the_compressed_bytes(piece: bytes, times: int, codec: Codec) -> None:
    data = piece * times
    assert bytes(decompress(codec, compress(codec, data))) == data


@pytest.mark.parametrize("codec", COMPRESSED)
def test_cve_2023_34455_and_2023_43642_decompression_is_bounded_by_the_limit(codec: Codec) -> None:
    bomb = compress(codec, bytes(8 * 1024 * 1024))
    with pytest.raises(CorruptBatch, match="more than"):
        decompress(codec, bomb, limit=1024 * 1024)
    assert len(decompress(codec, bomb, limit=8 * 1024 * 1024)) == 8 * 1024 * 1024


@pytest.mark.parametrize("codec", COMPRESSED)
@given(data=st.data())
def test_damaged_data_raises_only_corrupt_batch(codec: Codec, data: st.DataObject) -> None:
    sound = bytearray(compress(codec, b"some words, some words again, " * 40))
    position = data.draw(st.integers(0, len(sound) - 1))
    sound[position] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(sound)))
    try:
        decompress(codec, bytes(sound[:cut]), limit=1024 * 1024)
    except CorruptBatch:
        pass


def test_snappy_without_the_java_header_is_read_too() -> None:
    assert bytes(decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(b"plain" * 10)))) == b"plain" * 10


def test_lz4_frames_have_independent_blocks_as_java_requires() -> None:
    frame = compress(Codec.LZ4, b"0123456789" * 20_000)
    assert frame[:4] == b"\x04\x22\x4d\x18" and frame[4] & 0x20


@pytest.mark.parametrize(("codec", "low", "high"), [(Codec.GZIP, 1, 9), (Codec.LZ4, 9, 17), (Codec.ZSTD, -7, 19)])
def test_higher_level_compresses_better_and_decompresses_to_the_same(codec: Codec, low: int, high: int) -> None:
    """The lowest and highest level of Kafka's ranges; for lz4 the default (the fast compressor) and the highest."""
    chance = random.Random(2)
    words = [chance.randbytes(chance.randint(2, 9)) for _ in range(300)]
    data = b" ".join(chance.choices(words, k=20_000)) + chance.randbytes(70_000)
    loose, tight = (compress(codec, data, level) for level in (low, high))
    assert len(tight) < len(loose) and bytes(decompress(codec, tight)) == bytes(decompress(codec, loose)) == data
