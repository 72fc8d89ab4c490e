"""Moves a flow to other offsets by adding a batch to its Spark checkpoint.

Spark's checkpoint has two journals: `offsets/N` has the end offsets of batch N, `commits/N` marks it as done. `move_to`
adds an empty batch that is done: `offsets/N+1` with the new offsets, then `commits/N+1`. The query keeps its id and its
batch numbers, so the exactly-once ledger stays valid.

A flow with state cannot be moved this way, because its state depends on the records it has read. Its checkpoint can
only be deleted.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from headrace.kernel.plurals import counted
from headrace.pipelines.errors import PipelineError


@dataclass(frozen=True)
class Checkpoint:
    path: Path

    def exists(self) -> bool:
        return (self.path / "offsets").is_dir() and self.last_batch() >= 0

    def last_batch(self) -> int:
        return max((int(file.name) for file in (self.path / "offsets").glob("*") if file.name.isdigit()), default=-1)

    def query_id(self) -> str | None:
        """The query id, which Spark writes at the first start of the query."""
        file = self.path / "metadata"
        return str(json.loads(file.read_text())["id"]) if file.exists() else None

    def is_unfinished(self) -> bool:
        """Whether the last batch has begun and has no commit: its target may have none of its rows, or some."""
        return not (self.path / "commits" / str(self.last_batch())).exists()

    def is_stateful(self) -> bool:
        return (self.path / "state").is_dir()

    def offsets(self) -> list[dict[str, object]]:
        """The end offsets of the last batch, one mapping per source."""
        return self._offsets_of(self.last_batch())

    def finished_offsets(self) -> list[dict[str, object]]:
        """The same of the last finished batch: its target has the rows before them. Empty if no batch is finished."""
        batch = self.last_batch() - 1 if self.is_unfinished() else self.last_batch()
        return self._offsets_of(batch) if batch >= 0 else []

    def _offsets_of(self, batch: int) -> list[dict[str, object]]:
        return [json.loads(line) for line in self._lines("offsets", batch)[2:]]

    def _lines(self, journal: str, batch: int) -> list[str]:
        return (self.path / journal / str(batch)).read_text().splitlines()

    def move_to(self, sources: list[dict[str, object]]) -> None:
        """Makes the flow continue at these offsets, one mapping per source in the checkpoint's order."""
        if self.is_stateful():
            raise PipelineError(
                "this flow keeps state, which belongs to what it has read: it can only be reset to earliest"
            )
        last = self.last_batch()
        version, metadata, *before = self._lines("offsets", last)
        if len(before) != len(sources):
            raise PipelineError(f"the checkpoint has {counted(len(before), 'source')}, {len(sources)} given")
        done = self._last_commit()
        self._write("offsets", last + 1, [version, metadata, *[json.dumps(source) for source in sources]])
        self._write("commits", last + 1, done)

    def _last_commit(self) -> list[str]:
        batches = [int(file.name) for file in (self.path / "commits").glob("*") if file.name.isdigit()]
        return self._lines("commits", max(batches)) if batches else ["v1", '{"nextBatchWatermarkMs":0}']

    def _write(self, journal: str, batch: int, lines: list[str]) -> None:
        folder = self.path / journal
        folder.mkdir(exist_ok=True)
        # Hadoop would reject the new file because of an older checksum file with this name.
        (folder / f".{batch}.crc").unlink(missing_ok=True)
        fresh = folder / f".{batch}.new"
        fresh.write_text("\n".join(lines))
        fresh.replace(folder / str(batch))

    def remove_unfinished_start(self) -> None:
        """Spark starts a first batch only in an empty checkpoint. A query that ended while it wrote its first offsets
        leaves a temporary file there, and the flow could never start again."""
        if self.last_batch() < 0:
            for journal in ("offsets", "commits"):
                for file in (self.path / journal).glob(".*"):
                    file.unlink(missing_ok=True)

    def forget(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
