"""Writing a changing result: update mode, which Spark does not offer to data sources written in Python.

    counts.writeStream.outputMode("update").foreachBatch(to_topic("counts", {"topic": "word-counts", ...})).start()

`foreachBatch` hands every batch over as an ordinary DataFrame; written with a name of its own
(`transactionalIdPrefix`), its tasks use the same ledger as a stream's, so a batch that Spark repeats is still written
once.

The rows go through `mapInArrow` and not through `frame.write`, which would ask Python three times per batch (for the
data source, for its writer, for the commit) what it has been told once here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from headrace.pipelines.errors import PipelineError, readable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from headrace.pipelines.sink import HeadraceWriter

_WRITTEN: Final = "slot int, rows bigint, skipped boolean"


def to_topic(name: str, options: Mapping[str, str]) -> Callable[[DataFrame, int], Any]:
    """The function for `foreachBatch`. `name` must differ between the writes of one query."""
    settled = {"transactionalIdPrefix": name, **options}
    made: list[HeadraceWriter] = []

    def write(frame: DataFrame, _batch_id: int) -> None:
        # The batch id reaches the tasks with the job's local properties, as it does for a stream writer.
        from headrace.pipelines.sink import HeadraceWriter

        if not made:
            made.append(HeadraceWriter(settled, frame.schema, overwrite=False))
        try:
            frame.mapInArrow(_writing(made[0]), _WRITTEN).collect()
        except Exception as error:
            # Spark tells a stop from a failure by this text, so that one passes unchanged. A failure is cut to its
            # sentence: Spark searches the text with a pattern that overflows the JVM's stack on a long trace.
            if "Interrupted" in str(error):
                raise
            raise PipelineError(readable(error)) from None

    return write


def _writing(writer: HeadraceWriter) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        done = writer.write(rows)
        columns = {"slot": pa.array([done.slot], pa.int32()), "rows": [done.rows], "skipped": [done.skipped]}
        yield pa.RecordBatch.from_pydict(columns)

    return write
