"""The rows of a topic for its table, and the sink that commits them. Definition files of tables import this module.

Executors write Parquet files; the driver commits them together with the offsets (`formats`). The stream begins at the
offsets in the table, so Spark's checkpoint may be lost at any time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.pipelines.graph_element_registry import get_active_graph_element_registry
from pyspark.pipelines.source_code_location import SourceCodeLocation
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema

from headrace.client.blocking.client import BlockingClient
from headrace.pipelines.brokers import broker_options, kafka_settings, security_of
from headrace.pipelines.decode import dead_letters
from headrace.pipelines.errors import FlowStopped, OptionError, PipelineError
from headrace.pipelines.flows.graph import BatchSink
from headrace.tables.formats.evolution import IncompatibleColumns
from headrace.tables.formats.packed_headers import has_headers, packed
from headrace.tables.formats.table_files import (
    OFFSET,
    PARTITION,
    WRITTEN_TYPE,
    FileWriter,
    ends_of,
    file_writer,
    new_rows,
    refuse_missing_files,
)
from headrace.tables.formats.table_log import DataFile, Offsets, TableConflict, TableLog, WrongTable
from headrace.tables.lake_table import DAY, DAY_COLUMN, DEAD_LETTERS, UPSERT, LakeTable
from headrace.tables.latest_rows import latest_rows
from headrace.tables.relations.topic_relation import KAFKA_COLUMNS
from headrace.tables.small_rows import checked, is_large_row, without_limit
from headrace.tables.table_logs import layout_of, log_of, record_columns, stored_columns
from headrace.tables.typed_rows import KEY, TypedRows, newest_that_fits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

_LETTER_TYPE = (
    "_error string, _source struct<key: binary, value: binary, topic: string, partition: int, offset: bigint, "
    "timestamp: timestamp, headers: array<struct<key: string, value: binary>>>"
)

# Rows of the last batch. The check of small rows takes a batch about 50 ms longer, and 1 µs less for each row.
_MANY: Final = 100_000


def topic_rows(spark: SparkSession, table: LakeTable) -> DataFrame:
    """The stream of records from the offsets in the table on. Compares the ids of topic and table first."""
    options = broker_options(spark)
    starts = starting_offsets(table, options["kafka.bootstrap.servers"], spark.conf.getAll)
    stream = (
        spark.readStream.format("headrace")
        .options(**options)
        .option("subscribe", table.topic)
        .option("includeHeaders", "true")
        .option("kafka.isolation.level", "read_committed")
        .option("maxOffsetsPerTrigger", str(table.records_per_commit))
        .option("startingOffsets", json.dumps({table.topic: starts}))
        .load()
    )
    return table_columns(stream, table)


def starting_offsets(table: LakeTable, bootstrap: str, configuration: Mapping[str, str]) -> dict[int, int]:
    with BlockingClient(bootstrap, security=security_of(kafka_settings(configuration))) as client:
        found = client.topics([table.topic])
    if table.topic not in found:
        raise PipelineError(f"topic {table.topic!r} does not exist: drop its table with 'headrace tables drop'")
    topic = found[table.topic]
    known = log_of(table, str(topic.topic_id)).check().offsets
    # -2: a partition that the topic got later begins at its first record.
    return {index: known.get(index, -2) for index in topic.partitions}


def table_columns(records: DataFrame, table: LakeTable) -> DataFrame:
    """The columns of the table, and the position of each record for the sink. Typed columns are made by the sink."""
    position = [f"partition AS {PARTITION}", f"offset AS {OFFSET}", "timestamp AS __time"]
    if table.columns and not table.has_registry_columns:
        records.createOrReplaceTempView("records")
        chosen = records.sparkSession.sql(f"SELECT {table.columns}, {', '.join(position)} FROM records")
    else:
        chosen = records.selectExpr(*KAFKA_COLUMNS, *position)
    if table.partition_by == DAY:
        chosen = chosen.withColumn(DAY_COLUMN, f.to_date("__time"))
    return chosen.drop("__time")


def empty_records(spark: SparkSession) -> DataFrame:
    """No records, with the columns of a topic."""
    columns = "key binary, value binary, headers array<struct<key: string, value: binary>>, topic string"
    return spark.createDataFrame([], f"{columns}, partition int, offset bigint, timestamp timestamp")


def arrow_columns(frame: DataFrame) -> pa.Schema:
    """The Arrow schema of the frame without the position."""
    schema = to_arrow_schema(frame.drop(PARTITION, OFFSET).schema, timezone="UTC")
    return pa.schema([pa.field(field.name, field.type, True) for field in schema])


def create_table_sink(name: str, table: LakeTable) -> None:
    """Registers the table as a target of the pipeline."""
    at = SourceCodeLocation(filename=f"{name}.py", line_number=None)
    get_active_graph_element_registry().register_output(BatchSink(name, None, at, batch_writer(table)))


def batch_writer(table: LakeTable) -> Callable[[DataFrame, int], None]:
    return TableWriter(table).write


class TableWriter:
    """Commits the batches of one table. Compacts it after every `compact_every` commits."""

    def __init__(self, table: LakeTable) -> None:
        self._table, self._commits = table, 0
        self._log = log_of(table)
        self._are_rows_small, self._are_rows_many = True, True

    def write(self, frame: DataFrame, _batch: int) -> None:
        """A store or a catalog that does not answer may come back, so the run starts the table again later. What only a
        person can mend stops the table."""
        try:
            self._write(frame)
        except (IncompatibleColumns, OptionError, TableConflict, WrongTable) as error:
            raise FlowStopped(str(error)) from error

    def _write(self, frame: DataFrame) -> None:
        log = self._log
        before = log.check().offsets
        typed = self._typed(log) if self._table.has_registry_columns else None
        write = self._upsert if self._table.mode == UPSERT else self._append
        self._commits += write(log, frame, before, typed)
        if self._table.compact_every and self._commits >= self._table.compact_every:
            self._commits = 0
            log.compact(self._table.target_size_mib << 20, self._table.keep_hours)

    def _typed(self, log: TableLog) -> TypedRows:
        """The reader's schema for this batch. The table gets the columns that it lacks first."""
        table = self._table
        if table.incompatible == DEAD_LETTERS:
            typed = newest_that_fits(table.topic, table.registry, log.columns())
        else:
            typed = TypedRows.latest(table.topic, table.registry)
        log.evolve(typed.columns)
        return typed.with_columns(record_columns(table, log.columns()))

    def _append(self, log: TableLog, frame: DataFrame, before: Offsets, typed: TypedRows | None) -> bool:
        columns = arrow_columns(frame) if typed is None else log.columns()
        layout = layout_of(self._table, stored_columns(self._table, columns))
        has_packed_headers = has_headers(frame)
        rows = packed(frame) if has_packed_headers else frame
        write = file_writer(layout, before, typed, has_packed_headers=has_packed_headers)
        written = self._write_files(rows, write)
        if not written:
            return False
        self._send_letters(frame, typed, sum(row.failed for row in written))
        files = [DataFile(row.path, row.size, row.rows, json.loads(row.keys), row.stats) for row in written if row.path]
        ends: dict[int, int] = {}
        for row in written:
            for index, end in json.loads(row.ends).items():
                ends[int(index)] = max(ends.get(int(index), 0), end)
        refuse_missing_files(layout, [file.path for file in files])
        log.append(files, ends, before, int(time.time() * 1000))
        return True

    def _write_files(self, rows: DataFrame, write: FileWriter) -> Sequence[Row]:
        written = self._collected(rows, write)
        self._are_rows_many = sum(row.rows for row in written) >= _MANY
        return written

    def _collected(self, rows: DataFrame, write: FileWriter) -> Sequence[Row]:
        if self._are_rows_small and self._are_rows_many and (small := checked(rows, PARTITION)) is not None:
            try:
                with without_limit(rows.sparkSession):
                    return list(small.mapInArrow(write, WRITTEN_TYPE).collect())
            except PySparkException as error:
                if not is_large_row(error):
                    raise
                self._are_rows_small = False
        return list(rows.mapInArrow(write, WRITTEN_TYPE).collect())

    def _upsert(self, log: TableLog, frame: DataFrame, before: Offsets, typed: TypedRows | None) -> bool:
        batch = frame.toArrow()
        rows = pa.Table.from_batches([new_rows(part, before) for part in batch.to_batches()], batch.schema)
        if not rows.num_rows:
            return False
        latest, failed = latest_rows(rows, log.columns(), typed)
        self._send_letters(frame, typed, failed)
        log.upsert(latest, ends_of(rows), before, "key" if typed is None else KEY)
        return True

    def _send_letters(self, frame: DataFrame, typed: TypedRows | None, failed: int) -> None:
        """Writes records without columns to the topic of dead letters, before the commit that passes them. A batch
        that is repeated after a crash between the two writes them again."""
        if typed is None or not failed:
            return
        letters = dead_letters(frame.mapInArrow(typed.errors, _LETTER_TYPE))
        options = {**broker_options(frame.sparkSession), "mode": "at-least-once"}
        letters.write.format("headrace").options(**options).mode("append").save()
