"""The micro-batch that a task belongs to, as Spark tells its tasks."""

from __future__ import annotations

from typing import NamedTuple

from pyspark import TaskContext


class RunningBatch(NamedTuple):
    # The id of the query comes from its checkpoint: it stays the same when the query is started again.
    query_id: str
    batch_id: int


def running_batch() -> RunningBatch | None:
    """None outside of a streaming query, and outside of a task."""
    task = TaskContext.get()
    if task is None:
        return None
    query, batch = task.getLocalProperty("sql.streaming.queryId"), task.getLocalProperty("streaming.sql.batchId")
    return None if query is None or batch is None else RunningBatch(query, int(batch))
