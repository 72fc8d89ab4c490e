"""Batches of a flow in its checkpoint, in the format of Spark's journals.

`offsets/N` has the end of batch N, `commits/N` says that the target has it, `metadata` has the id of the query. A file
beside them names the last batch that this runner began. If that batch is not finished when Spark's runner starts, it is
finished here first (see `run.finish_open_batches`), because Spark may divide a batch of files into other tasks.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.kernel.plurals import counted
from headrace.pipelines.errors import PipelineError
from headrace.pipelines.flows.checkpoint import Checkpoint
from headrace.pipelines.lite.rows import JsonOffset
from headrace.pipelines.spark.plan_guard import stored_shape

_MARK: Final = "headrace-lite.json"
_COMMIT: Final = '{"nextBatchWatermarkMs":0}'


@dataclass(frozen=True)
class OpenBatch:
    number: int
    start: JsonOffset | None
    end: JsonOffset
    is_lite: bool


@dataclass(frozen=True)
class BatchLog:
    path: Path

    def check(self, flow: str) -> None:
        """Refuses a checkpoint that only Spark can continue."""
        shape = stored_shape(self.path) or {}
        sources = shape.get("sources")
        if isinstance(sources, list) and "kafka" in sources:
            raise PipelineError(
                f"flow {flow!r}: Spark's own connector made the checkpoint (backend jvm), which stores offsets "
                "differently: run it without --lite"
            )
        if (self.path / "state").is_dir():
            raise PipelineError(f"flow {flow!r} keeps state, which needs Spark: run it without --lite")

    def query_id(self) -> str:
        """The id of the query, made at the first call."""
        found = Checkpoint(self.path).query_id()
        if found is None:
            found = str(uuid.uuid4())
            self.path.mkdir(parents=True, exist_ok=True)
            _write(self.path / "metadata", json.dumps({"id": found}))
        return found

    def last(self) -> int:
        """Number of the last batch that began; -1 before the first."""
        return Checkpoint(self.path).last_batch()

    def end_of(self, number: int) -> JsonOffset:
        lines = (self.path / "offsets" / str(number)).read_text().splitlines()
        if len(lines) != 3:
            raise PipelineError(
                f"{self.path}: the checkpoint has {counted(len(lines) - 2, 'source')}, a connector has one"
            )
        found: JsonOffset = json.loads(lines[2])
        return found

    def is_committed(self, number: int) -> bool:
        return (self.path / "commits" / str(number)).exists()

    def open_batch(self) -> OpenBatch | None:
        """The batch that began and is not finished."""
        number = self.last()
        if number < 0 or self.is_committed(number):
            return None
        start = self.end_of(number - 1) if number else None
        return OpenBatch(number, start, self.end_of(number), is_lite=self._marked() == number)

    def was_left(self) -> bool:
        """Whether this runner began the last batch and did not finish it."""
        number = self.last()
        return number >= 0 and self._marked() == number and not self.is_committed(number)

    def _marked(self) -> int:
        file = self.path / _MARK
        return int(json.loads(file.read_text())["batch"]) if file.exists() else -1

    def begin(self, end: JsonOffset) -> int:
        """Stores the end of the next batch. From here on the batch has exactly these rows."""
        number = self.last() + 1
        _write(self.path / _MARK, json.dumps({"batch": number}))
        # Spark takes over the settings of the batch before: shuffle partitions, for example.
        conf = self._metadata(number - 1).get("conf", {}) if number else {}
        metadata = {"batchWatermarkMs": 0, "batchTimestampMs": int(time.time() * 1000), "conf": conf}
        _write(self.path / "offsets" / str(number), "\n".join(["v1", json.dumps(metadata), json.dumps(end)]))
        return number

    def _metadata(self, number: int) -> dict[str, object]:
        found: dict[str, object] = json.loads((self.path / "offsets" / str(number)).read_text().splitlines()[1])
        return found

    def finish(self, number: int) -> None:
        _write(self.path / "commits" / str(number), f"v1\n{_COMMIT}")
        self._forget_before(number - 100)

    def _forget_before(self, number: int) -> None:
        """Spark keeps a hundred batches, too."""
        for journal in ("offsets", "commits"):
            (self.path / journal / str(number)).unlink(missing_ok=True)
            (self.path / journal / f".{number}.crc").unlink(missing_ok=True)


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    # Hadoop would reject the new file because of an older checksum file with this name.
    (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
    fresh = file.with_name(f".{file.name}.new")
    with fresh.open("w") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(file)
