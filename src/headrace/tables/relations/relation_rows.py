"""The rows of the relations of a topic: `orders.live` (the topic), `orders.history` (its table) and `orders` (both).

The seam of `orders` is exact: one version of the table gives rows and offsets that belong together, and the topic is
read from these offsets on. Records that retention removed from the topic come from the table. If retention also removed
records that the table does not hold yet, the query fails instead of leaving them out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from headrace.kernel.plurals import counted
from headrace.pipelines.errors import DataLossError
from headrace.pipelines.options import Cluster
from headrace.pipelines.source.offsets import OffsetRange
from headrace.tables.formats.table_log import Offsets, Snapshot, TableLog
from headrace.tables.relations.last_rows import read_last
from headrace.tables.relations.pruning import Filter
from headrace.tables.relations.row_shapes import RowShape, in_types
from headrace.tables.relations.topic_ranges import matching_ranges, whole_topic
from headrace.tables.relations.topic_scan import TopicScan, client_of


def _part(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in columns])


@dataclass(frozen=True)
class LiveRows:
    """The records that the topic holds now. `last_rows`: how many rows from the end the query needs; None for all."""

    cluster: Cluster
    topic: str
    schema: pa.Schema
    last_rows: Callable[[], int | None]
    shape: RowShape

    def __call__(self, columns: Sequence[str], expression: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        count, schema = self.last_rows(), _part(self.schema, columns)
        with client_of(self.cluster) as client:
            wanted = Filter(expression, self.schema, self.shape.prefix)
            ranges, fetched = (
                matching_ranges(client, whole_topic(client, self.topic), wanted),
                self.shape.fetched(columns),
            )
            if count is not None:
                found = read_last(client, ranges, count, fetched)
            else:
                found = iter(TopicScan(self.cluster, ranges, fetched))
            for batch in found:
                yield self.shape.rows(batch, schema)


@dataclass(frozen=True)
class HistoryRows:
    """The rows of the newest version of the table."""

    log: TableLog
    schema: pa.Schema

    def __call__(self, columns: Sequence[str], expression: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        return self.of(self.log.check(), columns, expression)

    def of(self, table: Snapshot, columns: Sequence[str], expression: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        dataset, schema = table.dataset(), _part(self.schema, columns)
        try:
            scanner = dataset.scanner(columns=list(columns), filter=expression)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            # The condition compares text, and the table has bytes: the caller filters the rows.
            scanner = dataset.scanner(columns=list(columns))
        for batch in scanner.to_batches():
            if batch.num_rows:
                yield in_types(batch, schema)


@dataclass(frozen=True)
class WholeRows:
    """The rows of one version of the table, then the records of the topic from its offsets on."""

    history: HistoryRows
    cluster: Cluster
    shape: RowShape

    def __call__(self, columns: Sequence[str], expression: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        log, schema = self.history.log, _part(self.history.schema, columns)
        with client_of(self.cluster) as client:
            table = log.check()
            ranges = after(whole_topic(client, log.topic), table.offsets)
            wanted = matching_ranges(client, ranges, Filter(expression, self.history.schema, self.shape.prefix))
        yield from self.history.of(table, columns, expression)
        for batch in TopicScan(self.cluster, wanted, self.shape.fetched(columns), every_record=True):
            yield self.shape.rows(batch, schema)


def after(ranges: Sequence[OffsetRange], offsets: Offsets) -> list[OffsetRange]:
    """The ranges from the offsets on. Raises DataLossError if the topic lost records that the table does not hold."""
    for part in ranges:
        gone = part.start - offsets.get(part.partition, part.start)
        if gone > 0:
            raise DataLossError(
                f"{part.topic}-{part.partition}: retention removed {counted(gone, 'record')} from offset "
                f"{offsets[part.partition]} on that the table does not hold; query {part.topic}.live or "
                f"{part.topic}.history"
            )
    return [OffsetRange(r.topic, r.partition, offsets.get(r.partition, r.start), r.end) for r in ranges]
