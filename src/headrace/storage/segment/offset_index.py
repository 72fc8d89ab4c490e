"""The sparse offset index of a segment: one (offset, position) entry about every `index.interval.bytes`.

An entry is eight bytes: the offset relative to the segment's base (u32) and the byte position of the batch that ends
with it (i32). A lookup gives the last entry at or below an offset; the reader walks batch headers from there.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from operator import lt
from pathlib import Path
from typing import Final

from headrace.storage.segment.index_file import IndexFile

_ENTRY: Final = struct.Struct(">Ii")
_U32: Final = struct.Struct(">I")
_I32: Final = struct.Struct(">i")
ENTRY_BYTES: Final = 8


class OffsetIndex:
    def __init__(self, path: Path, base_offset: int) -> None:
        self.file = IndexFile(path, ENTRY_BYTES)
        self.base_offset = base_offset

    @property
    def is_full(self) -> bool:
        return self.file.count >= self.file.max_entries

    def append(self, offset: int, position: int) -> None:
        self.file.append(_ENTRY.pack(offset - self.base_offset, position))

    def entry(self, at: int) -> tuple[int, int]:
        relative, position = _ENTRY.unpack_from(self.file.buffer, at * ENTRY_BYTES)
        return self.base_offset + relative, position

    def entries(self) -> Iterator[tuple[int, int]]:
        return (self.entry(at) for at in range(self.file.count))

    def position_at_or_below(self, offset: int) -> int:
        """The position from which to walk to find `offset`."""
        count = self.file.count
        if count == 0:
            return 0
        buffer = self.file.buffer
        at = bisect_right(
            range(count), offset - self.base_offset, key=lambda entry: _U32.unpack_from(buffer, entry * ENTRY_BYTES)[0]
        )
        return 0 if at == 0 else int(_I32.unpack_from(buffer, at * ENTRY_BYTES - 4)[0])

    def greatest_position_at_or_below(self, position: int) -> int:
        """The last indexed batch boundary that is not after the byte `position`."""
        count = self.file.count
        if count == 0:
            return 0
        buffer = self.file.buffer
        at = bisect_right(
            range(count), position, key=lambda entry: _I32.unpack_from(buffer, entry * ENTRY_BYTES + 4)[0]
        )
        return 0 if at == 0 else int(_I32.unpack_from(buffer, at * ENTRY_BYTES - 4)[0])

    def truncate_to(self, offset: int) -> None:
        """Removes entries at or above `offset`."""
        buffer = self.file.buffer
        relative = offset - self.base_offset - 1
        self.file.keep_first(
            bisect_right(
                range(self.file.count), relative, key=lambda entry: _U32.unpack_from(buffer, entry * ENTRY_BYTES)[0]
            )
        )

    def looks_sound(self, log_bytes: int) -> bool:
        """Whether the last entry is valid for a data file of that size; zeros after a crash are not."""
        if self.file.count == 0:
            return True
        offset, position = self.entry(self.file.count - 1)
        return offset > self.base_offset and 0 < position < log_bytes

    def is_rising(self) -> bool:
        """Whether offsets and positions both rise; in a corrupt file they do not."""
        data = memoryview(self.file.buffer)[: self.file.count * ENTRY_BYTES]
        numbers = struct.unpack(f">{self.file.count * 2}I", data)
        offsets, positions = numbers[::2], numbers[1::2]
        return all(map(lt, offsets, offsets[1:])) and all(map(lt, positions, positions[1:]))
