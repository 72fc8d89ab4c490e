"""Up to which offset compaction has cleaned each log of a directory: the file `cleaner-offset-checkpoint`.

A round does not map the records below that offset, because each of their keys is there once. If the offset is higher
than what is clean, the older values of a key may survive its tombstone, and the deleted key is back. A lower offset
only makes the next round longer. So the file may name a lower offset than is clean, but never a higher one: it is
written before a log is cut, and removed if the disk is too full for that. Kafka writes it after the cut.

The event loop owns it; a thread that opens or copies a log lowers an offset.
"""

from __future__ import annotations

import threading
from pathlib import Path

from headrace.kernel.ids import TopicPartition
from headrace.storage.dirs.checkpoints import CLEANER_FILE, CorruptFile, read_offsets, write_offsets
from headrace.storage.files import is_no_space, sync_directory


class CleanOffsets:
    def __init__(self, directory: Path) -> None:
        self._path = directory / CLEANER_FILE
        self._offsets: dict[TopicPartition, int] = {}
        self._is_saved = True
        # Whether the file may name a higher offset than is clean.
        self._is_lowered = False
        self._lock = threading.Lock()

    def read(self) -> None:
        """Without the file every log is dirty."""
        try:
            self._offsets = read_offsets(self._path)
        except (OSError, CorruptFile):
            self._offsets, self._is_saved, self._is_lowered = {}, False, True

    def partitions(self) -> list[TopicPartition]:
        return list(self._offsets)

    def get(self, partition: TopicPartition) -> int | None:
        """None: the whole log is dirty."""
        return self._offsets.get(partition)

    def put(self, partition: TopicPartition, offset: int | None) -> None:
        """In memory only; the caller saves it."""
        with self._lock:
            self._put(partition, offset)

    def lower(self, partition: TopicPartition, offset: int) -> None:
        """Before the log is cut at `offset`: records from there on are new. Raises OSError."""
        with self._lock:
            if self._offsets.get(partition, 0) > offset:
                self._put(partition, offset)
                self._save()

    def save(self) -> None:
        """Raises OSError, but not if the disk is full: then the caller tries again later."""
        with self._lock:
            self._save()

    def _put(self, partition: TopicPartition, offset: int | None) -> None:
        known = self._offsets.pop(partition, None)
        if offset is not None:
            self._offsets[partition] = offset
        if known != offset:
            self._is_saved = False
            self._is_lowered |= known is not None and (offset is None or offset < known)

    def _save(self) -> None:
        if self._is_saved:
            return
        try:
            write_offsets(self._path, self._offsets)
            self._is_saved = True
        except OSError as error:
            if not is_no_space(error):
                raise
            if not self._is_lowered:
                return
            self._path.unlink(missing_ok=True)
            sync_directory(self._path.parent)
        self._is_lowered = False
