"""Counts the calls of this process that change files below some directories, and stops the process before one of them.

with FileCalls(tmp_path) as calls:      # counts
    ...
with FileCalls(tmp_path, stop_before=7): # the eighth call and every later one raise Killed: nothing more is written
    ...

A call after `kill -9` does not happen, while earlier ones stay: the page cache survives the process. `Killed` is no
Exception, so no code of the broker takes it for a failed disk.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final
from unittest import mock

_CALLS: Final = ("rename", "replace", "unlink", "rmdir", "mkdir", "pwrite", "ftruncate", "truncate", "fsync")


class Killed(BaseException):
    """The process was killed before this call."""


class FileCalls:
    def __init__(self, below: Path, stop_before: int | None = None) -> None:
        self.made: list[str] = []
        self._below = str(below)
        self._stop_before = stop_before
        self._lock = threading.Lock()
        self._patches = [mock.patch.object(os, name, self._counted(name, getattr(os, name))) for name in _CALLS]
        self._patches.append(mock.patch.object(os, "open", self._opened(os.open)))

    def __enter__(self) -> FileCalls:
        for patch in self._patches:
            patch.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for patch in self._patches:
            patch.stop()

    def _counted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(subject: int | str | Path, *rest: Any, **options: Any) -> Any:
            path = str(Path(f"/proc/self/fd/{subject}").readlink() if isinstance(subject, int) else subject)
            if path.startswith(self._below):
                self._note(f"{name} {path}")
            return call(subject, *rest, **options)

        return counted

    def _opened(self, call: Callable[..., int]) -> Callable[..., int]:
        def opened(path: str | Path, flags: int, *rest: Any, **options: Any) -> int:
            if flags & (os.O_CREAT | os.O_TRUNC) and str(path).startswith(self._below):
                self._note(f"open {path}")
            return call(path, flags, *rest, **options)

        return opened

    def _note(self, what: str) -> None:
        with self._lock:
            if self._stop_before is not None and len(self.made) >= self._stop_before:
                raise Killed(what)
            self.made.append(what)
