"""Map from key to newest offset in the dirty part of a log, bounded in memory.

The map is two sorted arrays of hashes and an array of offsets. New entries are collected and merged from time to time:
one sort costs less than a dictionary entry for each record. When the map is full, the round ends at that offset and the
next round continues there.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from headrace.records.record_columns import Ints
from headrace.storage.compaction.key_hashes import Hashes, KeyHashes

Bools = npt.NDArray[np.bool_]

# Two hashes and an offset are 24 bytes. A merge holds as many new entries as the map has, and sorts copies of both.
BYTES_PER_KEY: Final = 160
_SMALLEST_CAPACITY: Final = 1024
_SMALLEST_MERGE: Final = 1 << 16


class OffsetMap:
    def __init__(self, memory_bytes: int) -> None:
        self._capacity = max(_SMALLEST_CAPACITY, memory_bytes // BYTES_PER_KEY)
        self._keys = KeyHashes(np.empty(0, np.uint64), np.empty(0, np.uint64))
        self._offsets = np.empty(0, np.int64)
        self._noted: list[tuple[KeyHashes, Ints]] = []
        self._noted_count = 0
        # Made for the first look-up after a merge: by hash, and by offset.
        self._buckets: _Buckets | None = None
        self._in_order: Ints | None = None
        self.end_offset = -1

    def __len__(self) -> int:
        self._merge()
        return len(self._offsets)

    def room(self) -> int:
        """How many records may be noted before the caller must ask again. 0: the map is full."""
        left = self._capacity - len(self._offsets) - self._noted_count
        return left if left > 0 else max(0, self._capacity - len(self))

    def note(self, keys: KeyHashes, offsets: Ints) -> None:
        self._noted.append((keys, offsets))
        self._noted_count += len(offsets)
        if self._noted_count > max(_SMALLEST_MERGE, len(self._offsets)):
            self._merge()

    def are_newest(self, offsets: Ints) -> Bools:
        """Which of these are offsets of the map: the newest of their keys."""
        self._merge()
        if not len(self._offsets):
            return np.zeros(len(offsets), bool)
        if self._in_order is None:
            self._in_order = np.sort(self._offsets)
        place = np.searchsorted(self._in_order, offsets)
        found: Bools = self._in_order[np.minimum(place, len(self._in_order) - 1)] == offsets
        return found

    def are_known(self, keys: KeyHashes) -> Bools:
        """Which of these keys are in the map."""
        self._merge()
        known = np.zeros(len(keys.first), bool)
        if not len(self._offsets):
            return known
        if self._buckets is None:
            self._buckets = _Buckets(self._keys.first)
        place, rows = self._buckets.starts_of(keys.first), np.arange(len(known))
        first, second = keys
        while True:
            there = self._keys.first[place]
            same = (there == first) & (self._keys.second[place] == second)
            known[rows[same]] = True
            # The hashes are sorted: a smaller one, or the first hash of another key, may stand before the wanted one.
            onward = (there <= first) & ~same & (place + 1 < len(self._offsets))
            if not onward.any():
                return known
            place, rows, first, second = place[onward] + 1, rows[onward], first[onward], second[onward]

    def _merge(self) -> None:
        if not self._noted:
            return
        first = np.concatenate([self._keys.first, *(keys.first for keys, _ in self._noted)])
        second = np.concatenate([self._keys.second, *(keys.second for keys, _ in self._noted)])
        offsets = np.concatenate([self._offsets, *(offsets for _, offsets in self._noted)])
        self._noted, self._noted_count, self._buckets, self._in_order = [], 0, None, None
        order = np.argsort(first)
        first, second, offsets = first[order], second[order], offsets[order]
        differs = first[1:] != first[:-1]
        if (~differs & (second[1:] != second[:-1])).any():  # different keys with one first hash: almost never
            order = np.lexsort((second, first))
            first, second, offsets = first[order], second[order], offsets[order]
            differs = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
        starts = np.concatenate([[0], np.flatnonzero(differs) + 1])
        self._keys = KeyHashes(first[starts], second[starts])
        self._offsets = np.maximum.reduceat(offsets, starts)


class _Buckets:
    """Where the hashes with the same leading bits begin in a sorted array. Hashes are spread evenly, so a bucket holds
    about one. A look-up reads its bucket instead of searching the whole array."""

    def __init__(self, hashes: Hashes) -> None:
        bits = min(max(1, len(hashes).bit_length()), 32)
        self._shift = np.uint64(64 - bits)
        edges = np.arange(1 << bits, dtype=np.uint64) << self._shift
        # The last bucket may begin behind the last hash.
        self._starts = np.minimum(np.searchsorted(hashes, edges), len(hashes) - 1)

    def starts_of(self, hashes: Hashes) -> Ints:
        starts: Ints = self._starts[(hashes >> self._shift).astype(np.int64)]
        return starts
