"""The aborted-transaction index of a segment: offset ranges of each producer that read_committed consumers skip.

An entry is 34 bytes: version i16 (0), producer id, first offset, last offset (of the abort marker), last stable offset
at that moment (four i64). Entries are in the order of their markers. Most segments never have the file, so a lost file
would look like no aborted transactions, and read_committed consumers would get aborted records. Therefore the log
directory's checkpoint has a digest of every file (see `checkpoints`), and recovery rebuilds a file that differs.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from headrace.kernel.checksum import crc32c
from headrace.kernel.dataclass import dataclass
from headrace.storage.files import sync_file, tolerated_no_space, write_fully

_ENTRY: Final = struct.Struct(">hqqqq")
ENTRY_BYTES: Final = 34
_last_offset: Final = attrgetter("last_offset")


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class Digest(NamedTuple):
    """The number of entries and the CRC-32C of their bytes."""

    entries: int
    crc: int


NO_ENTRIES: Final = Digest(0, 0)


class HasTxnIndex(Protocol):
    @property
    def txn_index(self) -> TxnIndex: ...


class TxnIndex:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._entries: list[AbortedTransaction] | None = None
        # Number of entries in the file, which lags behind while the disk is full.
        self._written = 0
        # Replaced, never mutated: the thread that writes checkpoints reads it.
        self._digest = NO_ENTRIES

    @property
    def entries(self) -> list[AbortedTransaction]:
        if self._entries is None:
            entries = list(self._read())
            self._written = len(entries)
            self._digest = Digest(len(entries), crc32c(_packed(entries)))
            self._entries = entries
        return self._entries

    @property
    def digest(self) -> Digest:
        if self._entries is None:
            _ = self.entries
        return self._digest

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
        """Whether all entries are whole and their offsets rise from the segment's base on."""
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            return True
        entries = self.entries
        rising = all(one.last_offset < two.last_offset for one, two in pairwise(entries))
        return size == len(entries) * ENTRY_BYTES and rising and all(e.last_offset >= base_offset for e in entries)

    def append(self, aborted: AbortedTransaction) -> None:
        """Adds an entry. The marker is already in the log, so the entry counts at once; if the disk is full, the file
        follows later.
        """
        self.entries.append(aborted)
        self._digest = Digest(self._digest.entries + 1, crc32c(_packed([aborted]), self._digest.crc))
        with tolerated_no_space():
            self.write_back()

    def write_back(self) -> None:
        """Writes the entries that are only in memory to the file."""
        if self._entries is None or self._written == len(self._entries):
            return
        missing = self._entries[self._written :]
        data = _packed(missing)
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            write_fully(fd, memoryview(data), self._written * ENTRY_BYTES)
        finally:
            os.close(fd)
        self._written += len(missing)

    def overlapping(self, start: int, end_exclusive: int) -> tuple[list[AbortedTransaction], bool]:
        """Aborted transactions that overlap the range, and whether later segments need not be searched."""
        found = []
        entries = self.entries
        for at in range(bisect_left(entries, start, key=_last_offset), len(entries)):
            entry = entries[at]
            if entry.first_offset < end_exclusive:
                found.append(entry)
            if entry.last_stable_offset >= end_exclusive:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Removes transactions whose marker is at or above `offset`."""
        entries = self.entries
        kept = [entry for entry in entries if entry.last_offset < offset]
        if len(kept) < self._written:
            os.truncate(self.path, len(kept) * ENTRY_BYTES)
            self._written = len(kept)
        self._entries = kept
        self._digest = Digest(len(kept), crc32c(_packed(kept)))

    def reset(self) -> None:
        self.path.unlink(missing_ok=True)
        self._entries, self._written, self._digest = [], 0, NO_ENTRIES

    def sync(self) -> None:
        self.write_back()
        if self.path.exists():
            sync_file(self.path)


def aborted_between(segments: Sequence[HasTxnIndex], start: int, end_exclusive: int) -> list[AbortedTransaction]:
    """Aborted transactions over several segments. The first segment is the one that contains `start`."""
    found: list[AbortedTransaction] = []
    for segment in segments:
        overlapping, complete = segment.txn_index.overlapping(start, end_exclusive)
        found += overlapping
        if complete:
            break
    return found


def _packed(entries: list[AbortedTransaction]) -> bytes:
    return b"".join(
        _ENTRY.pack(0, one.producer_id, one.first_offset, one.last_offset, one.last_stable_offset) for one in entries
    )
