"""Writing a changing result: update mode, which Spark does not offer to data sources written in Python.

    counts.writeStream.outputMode("update").foreachBatch(to_topic("counts", {"topic": "word-counts", ...})).start()

`foreachBatch` hands every batch over as an ordinary DataFrame; written with a name of its own
(`transactionalIdPrefix`), its tasks use the same ledger as a stream's, so a batch that Spark repeats is still written
once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def to_topic(name: str, options: Mapping[str, str]) -> Callable[[DataFrame, int], Any]:
    """The function for `foreachBatch`. `name` must differ between the writes of one query."""
    settled = {"transactionalIdPrefix": name, **options}

    def write(frame: DataFrame, _batch_id: int) -> None:
        # The batch id reaches the tasks with the job's local properties, as it does for a stream writer.
        frame.write.format("headrace").options(**settled).mode("append").save()

    return write
