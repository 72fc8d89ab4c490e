"""Rows written to topics by the very tasks that make them, in append and in update mode.

    written_by_tasks(counts, {"topic": "word-counts", ...}).outputMode("update").option("checkpointLocation", …).start()

A sink written in Python costs every micro-batch two more trips to Python, one that makes its writer and one that
commits it, although here the tasks themselves have committed by then; and Spark offers it no update mode.
`foreachBatch` gives update mode, for a call into the driver's Python, a second plan and a collect per batch. So the
rows are written in the query's own plan: `mapInArrow` with the stream writer of `sink.writer`, whose one line per
task ends in Spark's sink that keeps nothing. Slots, ledger and fencing are those of `format("headrace")`: its ledger
is continued, whichever way a query wrote before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import DataStreamWriter

    from headrace.pipelines.sink.writer import Written

WRITTEN: Final = "slot int, rows bigint, skipped boolean"


class SlotWriter(Protocol):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written: ...


def written_by_tasks(frame: DataFrame, options: Mapping[str, str]) -> DataStreamWriter:
    """What is left to say about the query: its output mode, its checkpoint, its trigger. `options` are the sink's."""
    from headrace.pipelines.sink.writer import HeadraceStreamWriter

    return frame.mapInArrow(writing(HeadraceStreamWriter(options, frame.schema)), WRITTEN).writeStream.format("noop")


def writing(writer: SlotWriter) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow`: writes a task's rows and says what became of them, in the columns of `WRITTEN`."""

    def write(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        done = writer.write(rows)
        columns = {"slot": pa.array([done.slot], pa.int32()), "rows": [done.rows], "skipped": [done.skipped]}
        yield pa.RecordBatch.from_pydict(columns)

    return write
