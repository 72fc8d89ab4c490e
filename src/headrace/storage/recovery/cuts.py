"""Keeps what recovery cuts from a log as a stray: bytes behind a bad batch, and all later segments.

A torn last batch is not kept: its write did not finish, and it has no readable record. All other bytes may contain
acknowledged records, so recovery moves or copies (and syncs) them before it truncates the log. If the disk has no space
for the copy, recovery does not truncate the log and takes its directory offline.

Runs in the recovery thread of its log.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Final

from headrace.kernel.errors import StorageFault
from headrace.kernel.ids import TopicPartition
from headrace.storage.core.salvage import is_torn_batch
from headrace.storage.dirs.strays import CUT_SUFFIX, NOTE_FILE, StrayKind, StrayNote, cluster_id_of, write_note
from headrace.storage.files import STRAY_DIR_SUFFIX, is_no_space, marked_directory_name, sync_directory, write_fully
from headrace.storage.segment.segment import Segment

_BLOCK_BYTES: Final = 64 * 1024


class RecoveryCuts:
    """The cuts of one log. `directory` is the stray, None while nothing was kept."""

    def __init__(self, directory: Path, partition: TopicPartition, topic_id: uuid.UUID | None, now_ms: int) -> None:
        """`directory` is the directory of the log."""
        self._log_dir = directory.parent
        self._partition = partition
        self._topic_id = topic_id
        self._now_ms = now_ms
        self._note: StrayNote | None = None
        self.directory: Path | None = None

    def keep_tail(self, segment: Segment, position: int, reason: str, *, is_end: bool) -> Path | None:
        """Copies the bytes of the segment from `position` on, unless they are a torn last batch at the log's end."""
        if segment.size_bytes <= position or (is_end and _is_torn(segment, position)):
            return None
        target = self._place_for(segment, position, reason)
        try:
            _copy(segment, position, target)
        except OSError as error:
            with contextlib.suppress(OSError):
                self._give_back(target)
            if not is_no_space(error):
                raise
            size = segment.size_bytes - position
            raise StorageFault(
                f"{segment.path} is damaged at byte {position}, and there is no space to keep the {size} bytes from "
                "there on before they are cut: free some and start again"
            ) from error
        return self.directory

    def keep_segment(self, segment: Segment, reason: str) -> Path | None:
        """Moves the data of a segment that follows a bad batch."""
        if segment.size_bytes == 0:
            return None
        segment.path.rename(self._place_for(segment, 0, reason))
        return self.directory

    def _give_back(self, unfinished: Path) -> None:
        unfinished.unlink()
        if not any(unfinished.parent.glob("*" + CUT_SUFFIX)):
            (unfinished.parent / NOTE_FILE).unlink()
            unfinished.parent.rmdir()
            self.directory = self._note = None

    def finish(self, log_end: int) -> None:
        """Writes the note of the stray. The log now ends at `log_end`, where the cut begins."""
        if self.directory is not None and self._note is not None:
            write_note(self.directory, replace(self._note, first_offset=log_end))
            sync_directory(self.directory.parent)

    def _place_for(self, segment: Segment, position: int, reason: str) -> Path:
        if self.directory is None:
            self._note = StrayNote(
                StrayKind.CUT,
                *self._partition,
                self._topic_id,
                cluster_id_of(self._log_dir),
                self._now_ms,
                f"recovery cut it from {segment.path.name}: {reason}",
                segment.base_offset,
                None,
            )
            directory = self._log_dir / marked_directory_name(self._partition, STRAY_DIR_SUFFIX)
            directory.mkdir()
            write_note(directory, self._note)
            self.directory = directory
        return self.directory / f"{segment.path.name}.{position:010d}{CUT_SUFFIX}"


def _is_torn(segment: Segment, position: int) -> bool:
    with (
        mmap.mmap(segment.file.fileno(), segment.size_bytes, access=mmap.ACCESS_READ) as data,
        memoryview(data) as view,
    ):
        tail = view[position:]
        try:
            return is_torn_batch(tail)
        finally:
            tail.release()


def _copy(segment: Segment, position: int, target: Path) -> None:
    """Copies the file and keeps blocks of zeros as holes, because a preallocated file has many."""
    source = segment.file.fileno()
    size = segment.size_bytes - position
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        os.ftruncate(fd, size)
        for at in range(0, size, _BLOCK_BYTES):
            block = os.pread(source, min(_BLOCK_BYTES, size - at), position + at)
            if block.count(0) != len(block):
                write_fully(fd, memoryview(block), at)
        os.fsync(fd)
    finally:
        os.close(fd)
