"""The ledger of a sink in a file beside its checkpoint: the last batch that the sink has, and its rows of the current
one. The file is replaced as a whole and synced, so it survives a crash at any moment."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from headrace.pipelines.plugins.api import Batch, Ledger, Sink

FILE_NAME: Final = "sink-ledger.json"


class FileLedger(Ledger):
    """The ledger of one batch. `mark` is durable when it returns."""

    def __init__(self, file: Path, name: str, batch: int) -> None:
        self._file = file
        found = _read(file)
        is_same = found.get("name") == name and found.get("batch") == batch
        self.is_done = found.get("name") == name and int(found.get("done", -1)) >= batch
        self._done = int(found.get("done", -1)) if found.get("name") == name else -1
        super().__init__(name, batch, int(found.get("rows", 0)) if is_same else 0)

    def mark(self, rows: int) -> None:
        super().mark(rows)
        self._write({"name": self.name, "batch": self.batch, "rows": rows, "done": self._done})

    def finish(self) -> None:
        self._write({"name": self.name, "batch": self.batch, "rows": self.rows_done, "done": self.batch})

    def _write(self, content: dict[str, object]) -> None:
        fresh = self._file.with_name(f".{self._file.name}.new")
        with fresh.open("w") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._file)


def _read(file: Path) -> dict[str, int | str]:
    try:
        found: dict[str, int | str] = json.loads(file.read_text())
    except FileNotFoundError:
        return {}
    return found


def write_once(sink: Sink, folder: Path, name: str, number: int, batch: Callable[[], Batch]) -> None:
    """Writes a batch unless the ledger in `folder` says that the sink has it."""
    ledger = FileLedger(folder / FILE_NAME, name, number)
    if ledger.is_done:
        return
    sink.write(batch(), ledger)
    ledger.finish()
