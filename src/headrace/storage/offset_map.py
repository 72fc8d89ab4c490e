"""Key → newest offset, bounded in memory: what the dirty part of a log says about the rest.

Keys are kept as 16-byte digests, so that long keys cost no more than short ones; two keys with the same digest would be
a find for a journal. A map that is full ends the round at that offset, and the next round goes on from there.
"""

from __future__ import annotations

import hashlib
from typing import Final

# A digest, an integer and their place in the dictionary, measured on CPython 3.11.
BYTES_PER_KEY: Final = 180


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

    @staticmethod
    def digest(key: bytes | memoryview) -> bytes:
        return hashlib.blake2b(key, digest_size=16).digest()

    def put(self, key: bytes | memoryview, offset: int) -> None:
        self._offsets[self.digest(key)] = offset

    def newest(self, key: bytes | memoryview) -> int:
        """The newest offset seen of the key, or -1."""
        return self._offsets.get(self.digest(key), -1)
