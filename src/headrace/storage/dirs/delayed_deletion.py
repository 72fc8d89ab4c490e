"""Files and directories that are deleted later: renamed at once, removed when their delay is over.

The delay is for readers that look a file up by name; those that hold it open need none. Whoever owns the clock calls
`purge`. What is left in the trash at a stop is found by its name at the next start.
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
        """What is due leaves the trash; the caller removes it, in a thread if it is much."""
        due = [path for at_ms, path in self._waiting if at_ms <= now_ms]
        self._waiting = [entry for entry in self._waiting if entry[0] > now_ms]
        return due

    def purge(self, now_ms: int) -> int:
        """Removes what is due; how many files or directories that were."""
        due = self.take_due(now_ms)
        for path in due:
            remove(path)
        return len(due)


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
