"""Exactly-once writes to a topic inside `foreachBatch`, for a query that does more with a batch than write it once.

    counts.writeStream.outputMode("update").foreachBatch(to_topic("counts", {"topic": "word-counts", ...})).start()

For a query that only writes, `task_sink` is faster. `foreachBatch` gets every batch as an ordinary DataFrame. Each
write has its own name (`transactionalIdPrefix`) and its tasks use the ledger of the stream writer, so a batch that
Spark repeats is written once.

The rows go through `mapInArrow` and not through `frame.write`, which would call Python three times per batch: for the
data source, for its writer and for the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from headrace.pipelines.errors import PipelineError
from headrace.pipelines.failure_reasons import failure_reason
from headrace.pipelines.task_sink import WRITTEN, writing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.pipelines.sink.writer import HeadraceWriter


def to_topic(name: str, options: Mapping[str, str]) -> Callable[[DataFrame, int], None]:
    """Returns the function for `foreachBatch`. Each write of a query needs its own `name`."""
    settled = {"transactionalIdPrefix": name, **options}
    made: list[HeadraceWriter] = []

    def write(frame: DataFrame, _batch_id: int) -> None:
        # Tasks get the batch id from the job's local properties, as for a stream writer.
        from headrace.pipelines.sink.writer import HeadraceWriter

        if not made:
            made.append(HeadraceWriter(settled, frame.schema, overwrite=False))
        try:
            frame.mapInArrow(writing(made[0]), WRITTEN).collect()
        except Exception as error:
            # Boundary to Spark, which recognises a stop by this text, so a stop passes unchanged. A failure is cut to
            # its message, because Spark searches the text with a pattern that overflows the JVM's stack on a long
            # traceback.
            if "Interrupted" in str(error):
                raise
            raise PipelineError(failure_reason(error)) from None

    return write
