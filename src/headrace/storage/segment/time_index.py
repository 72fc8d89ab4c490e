"""The sparse time index of a segment: (timestamp, offset), "up to this offset no record is newer than this timestamp".

An entry is twelve bytes: the timestamp (i64) and the offset relative to the segment's base (u32). Timestamps and
offsets only rise. The last entry of a sealed segment is its newest record's, so that a log knows it without reading
data.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from operator import lt
from pathlib import Path
from typing import Final

from headrace.storage.segment.index_file import IndexFile

_ENTRY: Final = struct.Struct(">qI")
_I64: Final = struct.Struct(">q")
_U32: Final = struct.Struct(">I")
ENTRY_BYTES: Final = 12


class TimeIndex:
    def __init__(self, path: Path, base_offset: int) -> None:
        self.file = IndexFile(path, ENTRY_BYTES)
        self.base_offset = base_offset
        self._last_timestamp_ms: int | None = None

    @property
    def is_full(self) -> bool:
        # One entry stays free for the one that sealing adds.
        return self.file.count >= self.file.max_entries - 1

    def entry(self, at: int) -> tuple[int, int]:
        timestamp_ms, relative = _ENTRY.unpack_from(self.file.buffer, at * ENTRY_BYTES)
        return timestamp_ms, self.base_offset + relative

    def entries(self) -> Iterator[tuple[int, int]]:
        return (self.entry(at) for at in range(self.file.count))

    @property
    def last(self) -> tuple[int, int]:
        """The newest (timestamp, offset) known, (-1, base offset) for an empty index."""
        return self.entry(self.file.count - 1) if self.file.count else (-1, self.base_offset)

    def maybe_append(self, timestamp_ms: int, offset: int) -> None:
        if self._last_timestamp_ms is None:
            self._last_timestamp_ms = self.last[0]
        if timestamp_ms > self._last_timestamp_ms:
            self.file.append(_ENTRY.pack(timestamp_ms, offset - self.base_offset))
            self._last_timestamp_ms = timestamp_ms

    def offset_at_or_below(self, timestamp_ms: int) -> int:
        """An offset below which every record is older than `timestamp_ms`."""
        count = self.file.count
        if count == 0:
            return self.base_offset
        buffer = self.file.buffer
        # Strictly below: the entry's batch may have several records with its timestamp, and the first is wanted.
        at = bisect_right(
            range(count), timestamp_ms - 1, key=lambda entry: _I64.unpack_from(buffer, entry * ENTRY_BYTES)[0]
        )
        return self.base_offset if at == 0 else self.entry(at - 1)[1]

    def truncate_to(self, offset: int) -> None:
        """Removes entries at or above `offset`."""
        buffer = self.file.buffer
        relative = offset - self.base_offset - 1
        self.file.keep_first(
            bisect_right(
                range(self.file.count), relative, key=lambda entry: _U32.unpack_from(buffer, entry * ENTRY_BYTES + 8)[0]
            )
        )
        self._last_timestamp_ms = None

    def forget(self) -> None:
        """Resets the index after its file was emptied."""
        self._last_timestamp_ms = None

    def looks_sound(self) -> bool:
        if self.file.count == 0:
            return True
        last_timestamp_ms, last_offset = self.last
        return last_timestamp_ms >= self.entry(0)[0] >= 0 and last_offset >= self.base_offset

    def is_rising(self) -> bool:
        """Whether timestamps and offsets both rise; in a corrupt file they do not."""
        data = memoryview(self.file.buffer)[: self.file.count * ENTRY_BYTES]
        numbers = struct.unpack(">" + "qI" * self.file.count, data)
        timestamps, offsets = numbers[::2], numbers[1::2]
        return all(map(lt, timestamps, timestamps[1:])) and all(map(lt, offsets, offsets[1:]))
