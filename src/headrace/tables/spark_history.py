"""`format("headrace").option("history", "table")`: the table up to its offsets, and the topic from exactly there on.

Batch: the driver plans one cut: the files of one version of the table, and the ranges of the topic after the offsets of
this version up to the last stable offsets. Tasks then read files and ranges in parallel.

Stream: the first batch is the table. Its end offset is that of the version of the table, and later batches are those of
the topic. A first batch that is repeated reads the newest version of the table and leaves out rows at or after the end
offset, so it has the same rows whatever happened to the table in between.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from headrace.pipelines.errors import OptionError, PipelineError
from headrace.pipelines.options import SourceOptions
from headrace.pipelines.source.offsets import JsonOffsets, OffsetRange, offsets_to_json, split_ranges
from headrace.pipelines.source.reader import HeadraceStreamReader, Position, RangePartition
from headrace.pipelines.spark.worker_clients import client_for
from headrace.serialization.arrow_records import arrow_schema
from headrace.tables.definitions import Definitions
from headrace.tables.formats.table_files import file_system
from headrace.tables.formats.table_log import Offsets, Snapshot
from headrace.tables.relations.relation_rows import after
from headrace.tables.relations.topic_ranges import whole_topic
from headrace.tables.relations.topic_scan import read_range


@dataclass
class FilePartition(InputPartition):  # type: ignore[misc]
    """One file of the table. Rows at or after `ends` are left out."""

    uri: str
    ends: dict[int, int] = field(default_factory=dict)

    def __init__(self, uri: str, ends: Offsets | None = None) -> None:
        super().__init__(None)
        self.uri, self.ends = uri, ends or {}


def _topic_of(options: SourceOptions) -> str:
    topics = options.subscription.topics
    if len(topics) != 1:
        raise OptionError('option "history" reads one topic with its table: give "subscribe" with one topic')
    return topics[0]


def _snapshot(topic: str, directory: str) -> Snapshot:
    definition = Definitions(Path(directory)).of(topic)
    if not definition.table.has_kafka_columns:
        raise PipelineError(
            f"the table of {topic!r} has columns or rows of its own: read {definition.table.path} as a "
            f"{definition.table.format} table"
        )
    return definition.log.check()


class HistoryReader(DataSourceReader):  # type: ignore[misc]
    def __init__(self, options: SourceOptions, directory: str) -> None:
        self.options, self._topic, self._directory = options, _topic_of(options), directory

    def partitions(self) -> Sequence[InputPartition]:
        client = client_for(self.options.cluster)
        table = _snapshot(self._topic, self._directory)
        ranges = after(whole_topic(client, self._topic), table.offsets)
        live = split_ranges(
            ranges,
            min_partitions=self.options.min_partitions,
            max_records=self.options.max_records_per_partition,
        )
        return [*(FilePartition(uri) for uri in table.files()), *(RangePartition(piece) for piece in live)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        schema = arrow_schema(self.options.include_headers)
        if isinstance(partition, FilePartition):
            yield from _rows_of_file(partition, schema)
        elif isinstance(partition, RangePartition):
            piece = OffsetRange(partition.topic, partition.partition, partition.start, partition.end)
            yield from read_range(client_for(self.options.cluster), piece, schema.names, every_record=True)


class HistoryStreamReader(HeadraceStreamReader):
    """An offset without partitions is the place before the table."""

    def __init__(self, options: SourceOptions, directory: str) -> None:
        super().__init__(options)
        self._topic, self._directory = _topic_of(options), directory

    def initialOffset(self) -> JsonOffsets:  # noqa: N802 (Spark's name)
        _snapshot(self._topic, self._directory)
        return {self._topic: {}}

    def latestOffset(self, start: Mapping[str, object], limit: ReadLimit) -> JsonOffsets:  # noqa: N802
        if Position.from_json(start).offsets:
            return super().latestOffset(start, limit)
        offsets = _snapshot(self._topic, self._directory).offsets
        return offsets_to_json({(self._topic, index): offset for index, offset in offsets.items()})

    def partitions(self, start: Mapping[str, object], end: Mapping[str, object]) -> Sequence[InputPartition]:
        if Position.from_json(start).offsets:
            return super().partitions(start, end)
        ends = {index: offset for (_, index), offset in Position.from_json(end).offsets.items()}
        table = _snapshot(self._topic, self._directory)
        # The table may have been restored to an older version: the topic has the records in between.
        between = [
            OffsetRange(self._topic, index, table.offsets.get(index, 0), offset)
            for index, offset in ends.items()
            if table.offsets.get(index, 0) < offset
        ]
        return [
            *(FilePartition(uri, ends) for uri in table.files()),
            *(RangePartition(piece) for piece in split_ranges(between)),
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, FilePartition):
            return _rows_of_file(partition, arrow_schema(self.options.include_headers))
        return super().read(partition)


def _rows_of_file(part: FilePartition, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    files, path = file_system(part.uri)
    folder = re.search(r"/partition=(\d+)/", part.uri)
    with pq.ParquetFile(path, filesystem=files) as file:
        for batch in file.iter_batches():
            columns = {name: batch.column(name) for name in batch.schema.names}
            # The value of a folder may be in its name only. The table does not keep the type of timestamps.
            constants = {"timestampType": 0, **({"partition": int(folder[1])} if folder else {})}
            for name, value in constants.items():
                columns[name] = pa.repeat(pa.scalar(value, pa.int32()), batch.num_rows)
            rows = pa.RecordBatch.from_arrays([columns[f.name].cast(f.type) for f in schema], schema=schema)
            yield _before(rows, part.ends)


def _before(rows: pa.RecordBatch, ends: Mapping[int, int]) -> pa.RecordBatch:
    if not ends:
        return rows
    partitions, offsets = rows.column("partition").to_numpy(), rows.column("offset").to_numpy()
    limits = np.zeros(max([*ends, int(partitions.max(initial=0))]) + 1, np.int64)
    for index, end in ends.items():
        limits[index] = end
    return rows.filter(pa.array(offsets < limits[partitions]))
