"""`spark.read.format("headrace").option("history", "table")`: one version of the table, and the topic from its offsets.

The driver plans the cut: the files of one version of the table, and the ranges of the topic after the offsets of this
version up to the last stable offsets. Tasks then read files and ranges in parallel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSourceReader, InputPartition

from headrace.pipelines.errors import OptionError, PipelineError
from headrace.pipelines.options import SourceOptions
from headrace.pipelines.source.offsets import OffsetRange, split_ranges
from headrace.pipelines.source.reader import RangePartition
from headrace.pipelines.spark.worker_clients import client_for
from headrace.serialization.arrow_records import arrow_schema
from headrace.tables.definitions import Definitions
from headrace.tables.formats.table_files import file_system
from headrace.tables.relation_rows import after
from headrace.tables.topic_ranges import whole_topic
from headrace.tables.topic_scan import read_range


@dataclass
class FilePartition(InputPartition):  # type: ignore[misc]
    """One file of the table."""

    uri: str

    def __init__(self, uri: str) -> None:
        super().__init__(None)
        self.uri = uri


class HistoryReader(DataSourceReader):  # type: ignore[misc]
    def __init__(self, options: SourceOptions, directory: str) -> None:
        topics = options.subscription.topics
        if len(topics) != 1:
            raise OptionError('option "history" reads one topic with its table: give "subscribe" with one topic')
        self.options, self._topic, self._directory = options, topics[0], directory

    def partitions(self) -> Sequence[InputPartition]:
        definition = Definitions(Path(self._directory)).of(self._topic)
        if not definition.table.has_kafka_columns:
            raise PipelineError(f"the table of {self._topic!r} has columns of its own: read it as a Delta table")
        log, client = definition.log, client_for(self.options.cluster)
        table = log.check()
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
            yield from _rows_of_file(partition.uri, schema)
        elif isinstance(partition, RangePartition):
            piece = OffsetRange(partition.topic, partition.partition, partition.start, partition.end)
            yield from read_range(client_for(self.options.cluster), piece, schema.names, every_record=True)


def _rows_of_file(uri: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    files, path = file_system(uri)
    folder = re.search(r"/partition=(\d+)/", uri)
    with pq.ParquetFile(path, filesystem=files) as file:
        for batch in file.iter_batches():
            columns = {name: batch.column(name) for name in batch.schema.names}
            # Delta keeps the value of a folder in its name. The table does not keep the type of timestamps.
            constants = {"timestampType": 0, **({"partition": int(folder[1])} if folder else {})}
            for name, value in constants.items():
                columns[name] = pa.repeat(pa.scalar(value, pa.int32()), batch.num_rows)
            yield pa.RecordBatch.from_arrays([columns[f.name].cast(f.type) for f in schema], schema=schema)
