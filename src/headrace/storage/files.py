"""File primitives: names inside a partition's directory, small files that are whole or absent, and shared descriptors.

A small file is written under a temporary name, synced and renamed, and the directory is synced. After a crash a reader
finds the old file or the new one, never a part.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from headrace.kernel.ids import TopicPartition

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
DELETED_DIR_SUFFIX: Final = "-delete"
STRAY_DIR_SUFFIX: Final = "-stray"
FUTURE_DIR_SUFFIX: Final = "-future"
HINT_SUFFIXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)

_MARKED: Final = re.compile(r"(?P<topic>\S+)-(?P<index>\d+)\.[0-9a-f]{32}(?P<suffix>-delete|-stray|-future)")
_LONGEST_NAME: Final = 255

# A full disk is a temporary state; every other disk error is permanent.
_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def is_no_space(error: OSError) -> bool:
    return error.errno in _NO_SPACE


def no_space(path: Path) -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


@contextlib.contextmanager
def tolerated_no_space() -> Iterator[None]:
    """Ignores a full disk, for writes that only save work later."""
    try:
        yield
    except OSError as error:
        if not is_no_space(error):
            raise


@contextlib.contextmanager
def sync_of_records() -> Iterator[None]:
    """A full disk that an fsync reports, as on thin volumes and network file systems, is permanent as every error of an
    fsync: the kernel may have dropped records, and the next fsync would succeed."""
    try:
        yield
    except OSError as error:
        if is_no_space(error):
            raise OSError(errno.EIO, f"{error.strerror} during an fsync", error.filename) from error
        raise


def file_stem(offset: int) -> str:
    return f"{offset:020d}"


def offset_of_file(name: str) -> int | None:
    """The offset in a file's name, or None if the file is not part of a log."""
    stem = name.partition(".")[0]
    return int(stem) if len(stem) == 20 and stem.isascii() and stem.isdigit() else None


def partition_of_directory(name: str) -> TopicPartition | None:
    topic, dash, index = name.rpartition("-")
    if not dash or not topic or not index.isascii() or not index.isdigit():
        return None
    return TopicPartition(topic, int(index))


def marked_directory_name(partition: TopicPartition, suffix: str) -> str:
    """Kafka's name for a partition's directory that no reader uses: `topic-0.<32 hex digits>-delete`, `…-stray` or
    `…-future`.

    A topic name is shortened if the file name would be too long.
    """
    rest = f"-{partition.partition}.{uuid.uuid4().hex}{suffix}"
    return partition.topic[: _LONGEST_NAME - len(rest)] + rest


def partition_of_marked_directory(name: str, suffix: str) -> TopicPartition | None:
    found = _MARKED.fullmatch(name)
    return None if found is None or found["suffix"] != suffix else TopicPartition(found["topic"], int(found["index"]))


def sync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_file(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def draft_of(path: Path) -> Path:
    """The file that a crash during `write_small_file` leaves."""
    return path.with_name(path.name + ".tmp")


def write_small_file(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Replaces `path` atomically."""
    beside = draft_of(path)
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        write_fully(fd, memoryview(data), 0)
        if durable:
            os.fsync(fd)
    except OSError:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    finally:
        os.close(fd)
    beside.replace(path)
    if durable:
        sync_directory(path.parent)


def write_fully(fd: int, data: memoryview, position: int) -> None:
    """Writes all of `data`. After a short write it continues until the write completes or raises."""
    while data:
        written = os.pwrite(fd, data, position)
        data = data[written:]
        position += written


class SharedFile:
    """An open file descriptor that closes with its last reference.

    A read returns the file with a position. The segment may be deleted or sealed while the bytes are being sent to a
    socket, so no code closes the file explicitly.
    """

    __slots__ = ("_fd", "path")

    def __init__(self, path: Path, flags: int = os.O_RDWR) -> None:
        self.path = path
        self._fd = -1
        self._fd = os.open(path, flags | os.O_CLOEXEC, 0o644)

    def fileno(self) -> int:
        return self._fd

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
