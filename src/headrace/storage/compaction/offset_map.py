"""Key → newest offset, bounded in memory: what the dirty part of a log says about the rest.

Short keys stand for themselves; long ones are kept as digests, which are longer than any short key, so that the two are
never taken for each other, and long keys cost no more than others. Two keys with the same digest would be a find for a
journal. A map that is full ends the round at that offset, and the next round goes on from there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final, cast

# A key of ordinary length, an integer and their place in the dictionary, measured on CPython 3.11.
BYTES_PER_KEY: Final = 180
_SHORT_BYTES: Final = 32
_DIGEST_BYTES: Final = _SHORT_BYTES + 1


class OffsetMap:
    def __init__(self, memory_bytes: int) -> None:
        self._capacity = max(1024, memory_bytes // BYTES_PER_KEY)
        self._offsets: dict[bytes, int] = {}
        self.end_offset = -1

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        return len(self._offsets) >= self._capacity

    def note(self, keys: Sequence[bytes], offsets: Sequence[int]) -> None:
        """Takes over keys in the order of their offsets."""
        self._offsets.update(zip(_names(keys), offsets, strict=True))

    def current(self, keys: Sequence[bytes | None], offsets: Sequence[int]) -> list[int]:
        """The numbers of the records that nothing newer is known of.

        A record without a key can never be superseded; it has no place in a compacted topic and goes.
        """
        if None in keys:
            return [
                number
                for number, (key, offset) in enumerate(zip(keys, offsets, strict=True))
                if offset >= self.end_offset or (key is not None and self.current([key], [offset]))
            ]
        newest = map(self._offsets.get, _names(cast("Sequence[bytes]", keys)), offsets)
        return [number for number, (at, known) in enumerate(zip(offsets, newest, strict=True)) if at >= known]


def _names(keys: Sequence[bytes]) -> Sequence[bytes]:
    if max(map(len, keys), default=0) <= _SHORT_BYTES:
        return keys
    return [
        key if len(key) <= _SHORT_BYTES else hashlib.blake2b(key, digest_size=_DIGEST_BYTES).digest() for key in keys
    ]
