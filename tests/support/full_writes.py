"""A disk that is full at chosen writes: counts the writes of this process below a directory and fails some of them.

with FullWrites(directory) as writes:                    # counts
    ...
with FullWrites(directory, first=7, count=3) as writes:  # writes 7, 8 and 9 fail with ENOSPC
    ...
"""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from types import TracebackType
from unittest import mock


class FullWrites:
    """`failed` names the files of the writes that failed."""

    def __init__(self, below: Path, first: int | None = None, count: int = 1) -> None:
        self.count = 0
        self.failed: list[str] = []
        self._below = f"{below.resolve()}{os.sep}"
        self._failing = range(0) if first is None else range(first, first + count)
        self._lock = threading.Lock()
        self._write, self._pwrite = os.write, os.pwrite
        self._patches = mock.patch.multiple(os, write=self.write, pwrite=self.pwrite)

    def __enter__(self) -> FullWrites:
        self._patches.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._patches.stop()

    def write(self, fd: int, data: bytes, /) -> int:
        self._check(fd)
        return self._write(fd, data)

    def pwrite(self, fd: int, data: bytes, offset: int, /) -> int:
        self._check(fd)
        return self._pwrite(fd, data, offset)

    def _check(self, fd: int) -> None:
        path = str(Path(f"/proc/self/fd/{fd}").readlink())
        if not path.startswith(self._below):
            return
        with self._lock:
            self.count += 1
            fails = self.count in self._failing
            if fails:
                self.failed.append(path.removeprefix(self._below))
        if fails:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
