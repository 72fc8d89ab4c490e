"""Delayed deletion of files and directories: renamed at once, removed after `file.delete.delay.ms`.

The delay protects readers that open a file by name; readers that have it open do not need it. A timer of the broker
calls `purge`. After a stop, the next start finds the remaining files by their names.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path


class DelayedDeletions:
    def __init__(self) -> None:
        self._waiting: list[tuple[int, Path]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, paths: Iterable[Path], due_ms: int) -> None:
        self._waiting += [(due_ms, path) for path in paths]

    def take_due(self, now_ms: int) -> list[Path]:
        """Takes the paths that are due off the list. The caller deletes them, in a thread if there are many."""
        due = [path for at_ms, path in self._waiting if at_ms <= now_ms]
        self._waiting = [entry for entry in self._waiting if entry[0] > now_ms]
        return due

    def purge(self, now_ms: int) -> int:
        """Deletes what is due. Returns the number of files and directories."""
        due = self.take_due(now_ms)
        for path in due:
            remove(path)
        return len(due)


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
