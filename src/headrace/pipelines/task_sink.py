"""Tasks of a query write their rows to topics themselves, in append and update mode.

    written_by_tasks(counts, {"topic": "word-counts", ...}).outputMode("update").option("checkpointLocation", …).start()

A Python sink costs every micro-batch two more calls to Python, to create its writer and to commit, although the tasks
have already committed by then. Spark gives it no update mode either. `foreachBatch` has update mode, but costs a call
into the driver's Python, a second plan and a collect per batch. So this module writes the rows in the query's own plan:
`mapInArrow` with the stream writer of `sink.writer`. It returns one row per task, which goes to Spark's no-op sink.
Slots, ledger and fencing are those of `format("headrace")`, so a query may change between the two ways of writing.
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
    """Returns a stream writer that still needs output mode, checkpoint and trigger. `options` are those of the sink."""
    from headrace.pipelines.sink.writer import HeadraceStreamWriter

    return frame.mapInArrow(writing(HeadraceStreamWriter(options, frame.schema)), WRITTEN).writeStream.format("noop")


def writing(writer: SlotWriter) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow`: writes a task's rows and returns the result in the columns of `WRITTEN`."""

    def write(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        done = writer.write(rows)
        columns = {"slot": pa.array([done.slot], pa.int32()), "rows": [done.rows], "skipped": [done.skipped]}
        yield pa.RecordBatch.from_pydict(columns)

    return write
