"""A full disk on request: every write below a directory fails with ENOSPC, until there is room again.

    headrace.disk_full()        # producers get KAFKA_STORAGE_ERROR, reads go on
    headrace.make_room()

A test has no right to mount a small disk, and one process has many brokers. So the two calls with which a broker
writes, `os.pwrite` and `os.write`, are replaced for this process while at least one directory is full. They look up the
file behind the descriptor and fail only below such a directory. As on a real full disk, the broker still deletes,
renames and truncates files.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_write: Final = os.write
_pwrite: Final = os.pwrite
_lock: Final = threading.Lock()
# Replaced as a whole, never changed: writers on other threads read it without the lock.
_full: tuple[str, ...] = ()


def fill(directory: Path) -> None:
    """From now on every write below `directory` fails. A second call does nothing."""
    with _lock:
        _set({*_full, _prefix(directory)})


def make_room(directory: Path) -> None:
    """Writes below `directory` succeed again. Without an earlier `fill` it does nothing."""
    with _lock:
        _set({*_full} - {_prefix(directory)})


def is_full(directory: Path) -> bool:
    return _prefix(directory) in _full


def _prefix(directory: Path) -> str:
    return f"{directory.resolve()}{os.sep}"


def _set(full: set[str]) -> None:
    global _full
    _full = tuple(full)
    os.write = _write_or_fail if full else _write
    os.pwrite = _pwrite_or_fail if full else _pwrite


def _write_or_fail(fd: int, data: ReadableBuffer, /) -> int:
    _check(fd)
    return _write(fd, data)


def _pwrite_or_fail(fd: int, data: ReadableBuffer, offset: int, /) -> int:
    _check(fd)
    return _pwrite(fd, data, offset)


def _check(fd: int) -> None:
    """Raises OSError if the file of `fd` is on a full disk."""
    path = _path_of(fd)
    if path.startswith(_full):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


def _path_of(fd: int) -> str:
    if sys.platform == "darwin":
        import fcntl

        return fcntl.fcntl(fd, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0").decode()
    return str(Path(f"/proc/self/fd/{fd}").readlink())
