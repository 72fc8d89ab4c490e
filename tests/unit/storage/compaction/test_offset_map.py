"""The map from key to newest offset agrees with a dictionary, also for keys whose first hashes are equal."""

from __future__ import annotations

import random

import numpy as np
import pytest

from headrace.storage.compaction.key_hashes import KeyHasher, KeyHashes
from headrace.storage.compaction.offset_map import BYTES_PER_KEY, OffsetMap

LARGE = 1 << 24


def hashed(first: list[int], second: list[int]) -> KeyHashes:
    return KeyHashes(np.array(first, np.uint64), np.array(second, np.uint64))


@pytest.mark.parametrize("first_hashes", [3, 1 << 64])
def test_the_map_agrees_with_a_dictionary(first_hashes: int) -> None:
    """With three first hashes for all keys, every look-up meets other keys with its first hash."""
    chance = random.Random(1)
    keys = [(chance.randrange(first_hashes), chance.randrange(1 << 64)) for _ in range(300)]
    known: dict[tuple[int, int], int] = {}
    offsets, at = OffsetMap(LARGE), 0
    for _ in range(40):
        noted = chance.choices(keys[:200], k=chance.randrange(1, 60))
        places = list(range(at, at + len(noted)))
        at += len(noted)
        offsets.note(hashed([a for a, _ in noted], [b for _, b in noted]), np.array(places))
        known.update(zip(noted, places, strict=True))
        asked = chance.choices(keys, k=50)
        found = offsets.are_known(hashed([a for a, _ in asked], [b for _, b in asked]))
        assert found.tolist() == [key in known for key in asked]
        newest = set(known.values())
        assert offsets.are_newest(np.arange(at + 5)).tolist() == [offset in newest for offset in range(at + 5)]
    assert len(offsets) == len(known)


def test_smallest_and_largest_hashes_are_found() -> None:
    edges = [0, 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
    offsets = OffsetMap(LARGE)
    offsets.note(hashed(edges, edges), np.arange(5))
    assert offsets.are_known(hashed(edges, edges)).all()
    others = [second ^ 5 for second in edges]
    assert not offsets.are_known(hashed(edges, others)).any()


def test_an_empty_map_knows_no_key() -> None:
    assert not OffsetMap(LARGE).are_known(hashed([1], [2])).any()
    assert not OffsetMap(LARGE).are_newest(np.array([0, 9])).any()


def test_repeated_keys_do_not_fill_the_map() -> None:
    offsets = OffsetMap(2000 * BYTES_PER_KEY)
    for n in range(10):
        assert offsets.room() > 0
        offsets.note(hashed(list(range(1500)), [0] * 1500), np.arange(1500) + 1500 * n)
    assert offsets.room() == 500
    offsets.note(hashed(list(range(1500, 2000)), [0] * 500), np.arange(500))
    assert offsets.room() == 0


def test_equal_keys_have_equal_hashes_wherever_they_are() -> None:
    chance = random.Random(2)
    keys = [chance.randbytes(chance.choice([0, 1, 3, 7, 8, 9, 16, 20, 63, 64, 65, 200])) for _ in range(300)]
    hasher = KeyHasher()

    def hashes_of(order: list[bytes], between: bytes) -> dict[bytes, tuple[int, int]]:
        data, at = b"", []
        for key in order:
            data += between
            at.append(len(data))
            data += key
        found = hasher.hashes(
            np.frombuffer(data, np.uint8), np.array(at), np.array([len(key) for key in order], np.int64)
        )
        return dict(zip(order, zip(found.first.tolist(), found.second.tolist(), strict=True), strict=True))

    once, again = hashes_of(keys, b""), hashes_of(keys[::-1], b"\xff\x00\xff")
    assert once == again
    assert len(set(once.values())) == len(set(keys))


def test_keys_that_differ_only_in_zeros_at_the_end_differ() -> None:
    keys = [b"\0" * n for n in range(80)]
    data = np.zeros(80, np.uint8)
    found = KeyHasher().hashes(data, np.zeros(80, np.int64), np.array([len(key) for key in keys]))
    assert len(set(zip(found.first.tolist(), found.second.tolist(), strict=True))) == 80
