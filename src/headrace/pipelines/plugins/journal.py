"""Rows that a source has read, on disk until the target has them.

Many systems give a message once. Spark asks for the rows of a batch again after a crash. So every chunk is stored with
the offset after it in a file of its own, `<number>.json`, written under another name, synced and renamed. A batch is a
range of these numbers. Entries that the target has are removed; the last one stays, because it has the offset.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.pipelines.plugins.api import Offset
from headrace.pipelines.plugins.columns import Json


@dataclass(frozen=True)
class Journal:
    folder: Path

    def _file(self, number: int) -> Path:
        return self.folder / f"{number:020d}.json"

    def _numbers(self) -> list[int]:
        return sorted(int(file.stem) for file in self.folder.glob("*.json") if file.stem.isdigit())

    def last(self) -> int:
        """Number of the last entry; 0 if there is none."""
        return max(self._numbers(), default=0)

    def offset(self) -> Offset | None:
        """The offset after the last entry; None if there is none."""
        if not (last := self.last()):
            return None
        with self._file(last).open() as file:
            return json.loads(file.readline())["offset"]

    def append(self, rows: Sequence[Sequence[Json]], offset: Offset) -> int:
        """Stores a chunk. It is on disk when this returns."""
        self.folder.mkdir(parents=True, exist_ok=True)
        number = self.last() + 1
        fresh = self.folder / f".{number}.new"
        with fresh.open("w") as file:
            file.write(json.dumps({"offset": offset, "rows": len(rows)}) + "\n")
            file.writelines(json.dumps(row) + "\n" for row in rows)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._file(number))
        _sync(self.folder)
        return number

    def rows(self, after: int, until: int) -> Iterator[list[Json]]:
        """The rows of the entries after `after` up to `until`."""
        for number in range(after + 1, until + 1):
            with self._file(number).open() as file:
                next(file)
                yield from map(json.loads, file)

    def forget(self, until: int) -> None:
        """Removes entries before `until`."""
        for number in self._numbers():
            if number < until:
                self._file(number).unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
