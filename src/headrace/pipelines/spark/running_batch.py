"""The micro-batch that a task belongs to, from the task's local properties."""

from __future__ import annotations

from typing import NamedTuple


class RunningBatch(NamedTuple):
    # From the query's checkpoint, so it stays the same when the query restarts.
    query_id: str
    batch_id: int


def running_batch() -> RunningBatch | None:
    """The batch of the running task. None outside a task or a streaming query."""
    # Imported here, so that readers of progress and the runner without Spark do not load it.
    from pyspark import TaskContext

    task = TaskContext.get()
    if task is None:
        return None
    query, batch = task.getLocalProperty("sql.streaming.queryId"), task.getLocalProperty("streaming.sql.batchId")
    return None if query is None or batch is None else RunningBatch(query, int(batch))
