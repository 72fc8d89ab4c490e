"""A `Sink` as the target of a connector in Spark: batch by batch, in the driver's process, with its ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipelines.connectors.settings import End
from headrace.pipelines.plugins.api import Batch, Row, Sink
from headrace.pipelines.plugins.batch_ledger import write_once
from headrace.pipelines.plugins.catalogue import open_sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def plugin_writer(end: End, name: str, checkpoint: Path) -> tuple[Sink, Callable[[DataFrame, int], None]]:
    """The sink, and the function that gets the batches. A wrong setting is an error at once."""
    sink = open_sink(end)

    def write(frame: DataFrame, number: int) -> None:
        query = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        checkpoint.mkdir(parents=True, exist_ok=True)

        def rows() -> Iterator[Row]:
            return (row.asDict(recursive=True) for row in frame.toLocalIterator())

        write_once(sink, checkpoint, f"{name}-{query}", number, lambda: Batch(tuple(frame.columns), rows))

    return sink, write
