"""Hashes of many keys at once: 128 bits for each key, with a secret of the round.

Kafka compares keys by their MD5 digest. Here two 64-bit hashes stand for a key. The secret is random, so a producer
cannot choose two keys whose hashes are equal. Short keys are hashed together with numpy, eight bytes at a time. Long
keys are hashed one by one.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from headrace.records.record_columns import Bytes, Ints

Hashes = npt.NDArray[np.uint64]

# Longer keys are rare, and each eight bytes of the longest key cost a pass over all keys.
_SHORT_BYTES: Final = 64
# Odd, with about as many ones as zeros: a multiplication spreads every bit of a word upwards, the shift downwards.
_FACTORS: Final = (np.uint64(0x9FB21C651E98DF25), np.uint64(0xD6E8FEB86659FD93))
_LAST_FACTOR: Final = np.uint64(0xFF51AFD7ED558CCD)
_SHIFT: Final = np.uint64(32)


class KeyHashes(NamedTuple):
    first: Hashes
    second: Hashes


class KeyHasher:
    def __init__(self) -> None:
        self._secret = secrets.token_bytes(16)
        self._seeds = np.frombuffer(self._secret, np.uint64)

    def hashes(self, data: Bytes, at: Ints, length: Ints) -> KeyHashes:
        """Hashes of the keys at [at, at + length) of `data`. All of them are inside `data`."""
        sizes = length.astype(np.uint64)
        first = self._seeds[0] ^ sizes * _FACTORS[1]
        second = self._seeds[1] ^ sizes * _FACTORS[0]
        is_long = length > _SHORT_BYTES
        short = np.where(is_long, 0, length) if is_long.any() else length
        for step in range(0, int(short.max(initial=0)), 8):
            rows = np.flatnonzero(short > step)
            words = _words(data, at[rows] + step, short[rows] - step)
            first[rows] = _mixed(first[rows] ^ words, _FACTORS[0])
            second[rows] = _mixed(second[rows] ^ words, _FACTORS[1])
        first, second = _mixed(first, _LAST_FACTOR), _mixed(second, _LAST_FACTOR)
        for row in np.flatnonzero(is_long).tolist():
            key = data[at[row] : at[row] + length[row]].tobytes()
            digest = hashlib.blake2b(key, digest_size=16, key=self._secret).digest()
            first[row], second[row] = np.frombuffer(digest, np.uint64)
        return KeyHashes(first, second)


def _words(data: Bytes, at: Ints, length: Ints) -> Hashes:
    """The first eight bytes of each range as a number; a shorter range has zeros behind it."""
    if len(data) < 8:
        data = np.concatenate([data, np.zeros(8 - len(data), np.uint8)])
    every = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))  # the word that begins at each byte
    # Near the end of the buffer the word begins earlier. The shift removes what is before the range.
    begin = np.minimum(at, len(every) - 1)
    words = every[begin].astype(np.uint64) >> ((at - begin) * 8).astype(np.uint64)
    unused = np.maximum(8 - length, 0) * 8
    if unused.any():
        words &= np.uint64(0xFFFFFFFFFFFFFFFF) >> unused.astype(np.uint64)
    return words


def _mixed(state: Hashes, factor: np.uint64) -> Hashes:
    state = state * factor
    state ^= state >> _SHIFT
    return state
