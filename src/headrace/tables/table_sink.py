"""The rows of a topic for its table, and the sink that commits them. Definition files of tables import this module.

Executors write Parquet files; the driver commits them together with the offsets (`delta_log`). The stream begins at the
offsets in the table, so Spark's checkpoint may be lost at any time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.pipelines.graph_element_registry import get_active_graph_element_registry
from pyspark.pipelines.source_code_location import SourceCodeLocation
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema

from headrace.client.blocking.client import BlockingClient
from headrace.pipelines.brokers import broker_options, kafka_settings, security_of
from headrace.pipelines.errors import PipelineError
from headrace.pipelines.flows.graph import BatchSink
from headrace.tables.delta_log import DataFile, DeltaLog
from headrace.tables.lake_table import DAY, DAY_COLUMN, UPSERT, LakeTable
from headrace.tables.table_files import WRITTEN_TYPE, ends_of, file_writer, new_rows
from headrace.tables.topic_relation import KAFKA_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_POSITION = ("_partition", "_offset")


def log_of(table: LakeTable) -> DeltaLog:
    return DeltaLog(table.path, table.topic, table.topic_id)


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
    log = DeltaLog(table.path, table.topic, str(topic.topic_id))
    known = log.offsets(log.check())
    # -2: a partition that the topic got later begins at its first record.
    return {index: known.get(index, -2) for index in topic.partitions}


def table_columns(records: DataFrame, table: LakeTable) -> DataFrame:
    """The columns of the table, and the position of each record for the sink."""
    expressions = [table.columns] if table.columns else list(KAFKA_COLUMNS)
    position = ["partition AS _partition", "offset AS _offset"]
    if table.columns:
        records.createOrReplaceTempView("records")
    chosen = (
        records.sparkSession.sql(f"SELECT {table.columns}, {', '.join(position)}, timestamp AS _time FROM records")
        if table.columns
        else records.selectExpr(*expressions, *position, "timestamp AS _time")
    )
    if table.partition_by == DAY:
        chosen = chosen.withColumn(DAY_COLUMN, f.to_date("_time"))
    return chosen.drop("_time")


def empty_records(spark: SparkSession) -> DataFrame:
    """No records, with the columns of a topic."""
    columns = "key binary, value binary, headers array<struct<key: string, value: binary>>, topic string"
    return spark.createDataFrame([], f"{columns}, partition int, offset bigint, timestamp timestamp")


def arrow_columns(frame: DataFrame) -> pa.Schema:
    """The Arrow schema of the table: the frame without the position."""
    schema = to_arrow_schema(frame.drop(*_POSITION).schema, timezone="UTC")
    return pa.schema([pa.field(field.name, field.type, True) for field in schema])


def create_table_sink(name: str, table: LakeTable) -> None:
    """Registers the table as a target of the pipeline."""
    at = SourceCodeLocation(filename=f"{name}.py", line_number=None)
    get_active_graph_element_registry().register_output(BatchSink(name, None, at, batch_writer(table)))


def batch_writer(table: LakeTable) -> Callable[[DataFrame, int], None]:
    return _upserter(table) if table.mode == UPSERT else _appender(table)


def _appender(table: LakeTable) -> Callable[[DataFrame, int], None]:
    def write(frame: DataFrame, _batch: int) -> None:
        log = log_of(table)
        before, schema = log.offsets(log.check()), arrow_columns(frame)
        by = table.partition_columns[0] if table.partition_columns else None
        written = frame.mapInArrow(file_writer(table.path, by, before, schema), WRITTEN_TYPE).collect()
        if not written:
            return
        files = [DataFile(row.path, row.size, row.rows, json.loads(row.keys), row.stats) for row in written]
        ends: dict[int, int] = {}
        for row in written:
            for index, end in json.loads(row.ends).items():
                ends[int(index)] = max(ends.get(int(index), 0), end)
        log.append(files, ends, before, int(time.time() * 1000))

    return write


def _upserter(table: LakeTable) -> Callable[[DataFrame, int], None]:
    def write(frame: DataFrame, _batch: int) -> None:
        log = log_of(table)
        before, schema = log.offsets(log.check()), arrow_columns(frame)
        batch = frame.toArrow()
        rows = pa.Table.from_batches([new_rows(part, before) for part in batch.to_batches()], batch.schema)
        if rows.num_rows:
            log.upsert(latest_of_each_key(rows).select(schema.names).cast(schema), ends_of(rows), before)

    return write


def latest_of_each_key(rows: pa.Table) -> pa.Table:
    """The last record of each key. A key is always in one partition, so offsets order its records. A record without a
    key has no place in a map of keys, as in a compacted topic."""
    keyed = rows.filter(pc.is_valid(rows.column("key")))
    ordered = keyed.sort_by([("_partition", "ascending"), ("_offset", "ascending")])
    numbered = ordered.append_column("_row", pa.array(range(ordered.num_rows), pa.int64()))
    last = numbered.group_by("key").aggregate([("_row", "max")]).column("_row_max")
    return ordered.take(last)
