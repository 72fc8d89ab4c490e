"""Two connectors: `counter` gives the numbers up to a limit, `folder` writes every batch as a file."""

from __future__ import annotations

import json
from pathlib import Path

from headrace.pipelines.plugins.api import Batch, Chunk, Ledger, Offset, Settings, Sink, Source


class Counter(Source):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings.only("limit"))
        self.limit = int(settings.text("limit", "100"))

    def columns(self) -> str:
        return "number bigint, square bigint"

    def read(self, offset: Offset | None) -> Chunk:
        """The next ten numbers. The offset is the first number that was not given yet."""
        first = int(offset or 0)
        last = min(first + 10, self.limit)
        return Chunk([{"number": n, "square": n * n} for n in range(first, last)], last)


class Folder(Sink):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings.only("path"))
        self.path = Path(settings.text("path"))

    def write(self, batch: Batch, ledger: Ledger) -> None:
        """One file per batch. A repeated batch has the same key, so it replaces its file."""
        self.path.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(dict(row)) for row in batch]
        fresh = self.path / f".{ledger.key}"
        fresh.write_text("".join(f"{line}\n" for line in lines))
        fresh.replace(self.path / f"{ledger.key}.json")
