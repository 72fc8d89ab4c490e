"""Map from key to newest offset in the dirty part of a log, bounded in memory.

The map stores short keys as they are and long keys as digests, so that long keys cost no more memory. A digest is
longer than any short key, so the two cannot be confused; digests of different keys practically never collide. When the
map is full, the round ends at that offset and the next round continues there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final, cast

# A key of usual length, an integer and their dictionary entry, measured on CPython 3.11.
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
        """Adds keys. Their offsets must be in rising order."""
        self._offsets.update(zip(_names(keys), offsets, strict=True))

    def current(self, keys: Sequence[bytes | None], offsets: Sequence[int]) -> list[int]:
        """The indexes of the records that have no newer record with the same key.

        Records without a key are dropped: no later record could replace them.
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
