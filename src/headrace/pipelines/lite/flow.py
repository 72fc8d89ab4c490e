"""One flow of a connector: batches from its source through its changes to its target, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headrace.pipelines.errors import PipelineError
from headrace.pipelines.lite.batch_log import BatchLog
from headrace.pipelines.lite.rows import JsonOffset, LiteBatch, LiteRow, LiteSource, LiteTarget, SlotReader
from headrace.pipelines.plugins.columns import Column
from headrace.pipelines.spark.running_batch import RunningBatch


@dataclass
class LiteFlow:
    name: str
    source: LiteSource
    # Changes the rows of one slot. Must be deterministic, because a batch may be repeated.
    change: Callable[[Iterator[LiteRow]], Iterator[LiteRow]]
    columns: tuple[Column, ...]
    target: LiteTarget
    log: BatchLog
    # Whether a batch that Spark began has the same slots here.
    has_sparks_slots: bool = True
    read_rows: int = 0
    written_rows: int = 0
    batch: int = -1
    end: JsonOffset | None = None
    stop_at: JsonOffset | None = None

    def prepare(self) -> None:
        """Before the first step: a new checkpoint begins with an empty batch at the initial offset. If the process dies
        in its first real batch, the batch then still has the same start."""
        self.log.check(self.name)
        self.log.query_id()
        if self.log.last() < 0:
            self.log.finish(self.log.begin(self.source.initial()))

    def step(self) -> bool:
        """Runs the next batch. Returns False if there is none."""
        left = self.log.open_batch()
        if left is not None:
            if not left.is_lite and not self.has_sparks_slots:
                raise PipelineError(
                    f"flow {self.name!r}: Spark began batch {left.number} and did not finish it: "
                    "run it once without --lite (--once is enough)"
                )
            start = self.source.initial() if left.start is None else left.start
            self._run(left.number, start, left.end)
            return True
        start = self.end if self.end is not None else self.log.end_of(self.log.last())
        self.end = start
        end = self.source.latest(start, self.stop_at)
        if end == start:
            return False
        self._run(self.log.begin(end), start, end)
        return True

    def _run(self, number: int, start: JsonOffset, end: JsonOffset) -> None:
        query_id = self.log.query_id()
        slots = [self._changed(read) for read in self.source.slots(start, end, RunningBatch(query_id, number))]
        batch = LiteBatch(f"{self.name}-{query_id}", query_id, number, self.columns, slots)
        self.written_rows += self.target.write(batch)
        self.log.finish(number)
        self.source.committed(end)
        self.batch, self.end = number, end

    def _changed(self, read: SlotReader) -> SlotReader:
        def rows() -> Iterator[LiteRow]:
            return self.change(self._counted(read()))

        return rows

    def _counted(self, rows: Iterator[LiteRow]) -> Iterator[LiteRow]:
        for row in rows:
            self.read_rows += 1
            yield row

    def close(self) -> None:
        self.source.close()
        self.target.close()
