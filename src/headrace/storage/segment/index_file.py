"""The file under an index: fixed-size entries, preallocated while its segment is active, exactly filled afterwards.

Kafka maps such a file and writes through the mapping. Headrace does not: on a full disk a write into a mapped hole
kills the process, while `pwrite` returns an error. So the active index is in memory and each new entry is also written
to the file. A sealed index is mapped read-only on first use. The file is opened at its first entry, so that each of
thousands of small partitions needs one descriptor and not three.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from headrace.storage.files import SharedFile, is_no_space, sync_file, write_fully


class IndexFile:
    def __init__(self, path: Path, entry_bytes: int) -> None:
        self.path = path
        self.entry_bytes = entry_bytes
        self.count = 0
        self.max_entries = 0
        self.is_active = False
        self._file: SharedFile | None = None
        self._written_later = False
        self._buffer: bytearray | mmap.mmap | bytes | None = None

    @property
    def size_bytes(self) -> int:
        return self.count * self.entry_bytes

    @property
    def buffer(self) -> bytearray | mmap.mmap | bytes:
        """The entries: memory while the index is active, a mapping of the file when it is sealed."""
        if self._buffer is None:
            self._buffer = self._mapped()
        return self._buffer

    def _mapped(self) -> mmap.mmap | bytes:
        if self.count == 0:
            return b""
        with self.path.open("rb") as file:
            return mmap.mmap(file.fileno(), self.count * self.entry_bytes, prot=mmap.PROT_READ)

    def open_sealed(self) -> bool:
        """Opens the file as it is. Returns False if it is missing or its size is not a multiple of the entry size."""
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            return False
        self.count, rest = divmod(size, self.entry_bytes)
        return rest == 0

    def activate(self, max_bytes: int, *, keep: bool = True, written_later: bool = False) -> None:
        """Makes the index writable, with its first `count` entries or with none.

        With `written_later` new entries stay in memory until `write_back`, so that a rebuild writes its file once.
        """
        self._written_later = written_later
        kept = b""
        if keep and self.count:
            kept = self.path.read_bytes()[: self.count * self.entry_bytes]
        self._buffer = bytearray(kept)
        self.count = len(kept) // self.entry_bytes
        self.max_entries = max(1, max_bytes // self.entry_bytes)
        file = SharedFile(self.path, os.O_RDWR | os.O_CREAT)
        if not kept:
            os.ftruncate(file.fileno(), 0)
        os.ftruncate(file.fileno(), max(self.max_entries, self.count) * self.entry_bytes)
        self._file = None
        self.is_active = True

    def _open(self) -> int:
        if self._file is None:
            self._file = SharedFile(self.path, os.O_RDWR | os.O_CREAT)
        return self._file.fileno()

    def append(self, entry: bytes) -> None:
        """Adds an entry in memory and in the file. If the write fails, in neither."""
        assert self.is_active and isinstance(self._buffer, bytearray), "only an active index grows"
        if not self._written_later:
            write_fully(self._open(), memoryview(entry), self.count * self.entry_bytes)
        self._buffer += entry
        self.count += 1

    def write_back(self) -> None:
        """Writes the entries that are only in memory to the file. If the disk is full, the index becomes empty, which
        makes lookups slower.
        """
        if not self._written_later:
            return
        assert self.is_active and isinstance(self._buffer, bytearray)
        self._written_later = False
        try:
            write_fully(self._open(), memoryview(self._buffer), 0)
        except OSError as error:
            if not is_no_space(error):
                raise
            self.keep_first(0)

    def keep_first(self, count: int) -> None:
        """Removes the entries from `count` on. In an active file zeros replace them."""
        if count >= self.count:
            return
        if self.is_active:
            assert isinstance(self._buffer, bytearray)
            del self._buffer[count * self.entry_bytes :]
            os.ftruncate(self._open(), count * self.entry_bytes)
            os.ftruncate(self._open(), self.max_entries * self.entry_bytes)
        else:
            self._buffer = None
            os.truncate(self.path, count * self.entry_bytes)
        self.count = count

    def seal(self) -> None:
        """Truncates the file to its entries and releases memory and descriptor."""
        if not self.is_active:
            return
        self.write_back()
        os.ftruncate(self._open(), self.count * self.entry_bytes)
        self.drop()

    def drop(self) -> None:
        """Releases memory and descriptor without changing the file."""
        self.is_active = False
        self._file = None
        self._buffer = None

    def sync(self) -> None:
        sync_file(self.path)
