"""The aborted-transaction index of a segment: which producer's records between which offsets are to be skipped.

An entry is 34 bytes: version i16 (0), producer id, first offset, last offset (of the abort marker), last stable offset
at that moment (four i64). Entries stand in the order of their markers. Most segments never have the file at all.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from headrace.storage.files import sync_file, write_fully

_ENTRY: Final = struct.Struct(">hqqqq")
ENTRY_BYTES: Final = 34


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TxnIndex:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._entries: list[AbortedTransaction] | None = None

    @property
    def entries(self) -> list[AbortedTransaction]:
        if self._entries is None:
            self._entries = list(self._read())
        return self._entries

    def _read(self) -> Iterator[AbortedTransaction]:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return
        for at in range(0, len(data) - ENTRY_BYTES + 1, ENTRY_BYTES):
            version, *fields = _ENTRY.unpack_from(data, at)
            if version == 0:
                yield AbortedTransaction(*fields)

    def looks_sound(self, base_offset: int) -> bool:
        """Whole entries whose offsets lie at or above the segment's base, in rising order."""
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            return True
        entries = self.entries
        rising = all(one.last_offset < two.last_offset for one, two in pairwise(entries))
        return size == len(entries) * ENTRY_BYTES and rising and all(e.last_offset >= base_offset for e in entries)

    def append(self, aborted: AbortedTransaction) -> None:
        entries = self.entries
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fields = (aborted.producer_id, aborted.first_offset, aborted.last_offset, aborted.last_stable_offset)
            write_fully(fd, memoryview(_ENTRY.pack(0, *fields)), len(entries) * ENTRY_BYTES)
        finally:
            os.close(fd)
        entries.append(aborted)

    def overlapping(self, start: int, end_exclusive: int) -> tuple[list[AbortedTransaction], bool]:
        """Aborted transactions that touch the range, and whether no later segment can hold another one."""
        found = []
        for entry in self.entries:
            if entry.last_offset >= start and entry.first_offset < end_exclusive:
                found.append(entry)
            if entry.last_stable_offset >= end_exclusive:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Forgets transactions whose marker is at or above `offset`."""
        entries = self.entries
        kept = [entry for entry in entries if entry.last_offset < offset]
        if len(kept) != len(entries):
            os.truncate(self.path, len(kept) * ENTRY_BYTES)
            self._entries = kept

    def reset(self) -> None:
        self.path.unlink(missing_ok=True)
        self._entries = []

    def sync(self) -> None:
        if self.path.exists():
            sync_file(self.path)
