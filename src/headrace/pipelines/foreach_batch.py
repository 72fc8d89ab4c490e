"""Writing to a topic inside `foreachBatch`: for a query that does more with its batches than to write them once.

    counts.writeStream.outputMode("update").foreachBatch(to_topic("counts", {"topic": "word-counts", ...})).start()

A query that only writes is better served by `task_sink`. `foreachBatch` hands every batch over as an ordinary
DataFrame; written with a name of its own (`transactionalIdPrefix`), its tasks use the same ledger as a stream's, so a
batch that Spark repeats is still written once.

The rows go through `mapInArrow` and not through `frame.write`, which would ask Python three times per batch (for the
data source, for its writer, for the commit) what it has been told once here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from headrace.pipelines.errors import PipelineError, readable
from headrace.pipelines.task_sink import WRITTEN, writing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.pipelines.sink.writer import HeadraceWriter


def to_topic(name: str, options: Mapping[str, str]) -> Callable[[DataFrame, int], None]:
    """The function for `foreachBatch`. `name` must differ between the writes of one query."""
    settled = {"transactionalIdPrefix": name, **options}
    made: list[HeadraceWriter] = []

    def write(frame: DataFrame, _batch_id: int) -> None:
        # The batch id reaches the tasks with the job's local properties, as it does for a stream writer.
        from headrace.pipelines.sink.writer import HeadraceWriter

        if not made:
            made.append(HeadraceWriter(settled, frame.schema, overwrite=False))
        try:
            frame.mapInArrow(writing(made[0]), WRITTEN).collect()
        except Exception as error:
            # Boundary to Spark, which tells a stop from a failure by this text, so that one passes unchanged. A failure
            # is cut to its sentence: Spark searches the text with a pattern that overflows the JVM's stack on a long
            # trace.
            if "Interrupted" in str(error):
                raise
            raise PipelineError(readable(error)) from None

    return write
