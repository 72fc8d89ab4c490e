"""The columns that a new table gets: Kafka's, those of the registry, or those of SQL expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.pipelines.errors import OptionError
from headrace.tables.lake_table import DAY_COLUMN, ICEBERG, LakeTable
from headrace.tables.relations.topic_relation import kafka_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def first_columns(table: LakeTable, spark: Callable[[], SparkSession]) -> pa.Schema:
    """Only SQL expressions need Spark, which knows their types."""
    if table.columns and not table.has_registry_columns:
        from headrace.tables.table_logs import stored_columns
        from headrace.tables.table_sink import arrow_columns, empty_records, table_columns

        return stored_columns(table, arrow_columns(table_columns(empty_records(spark()), table)))
    if table.has_registry_columns:
        from headrace.tables.typed_rows import TypedRows

        columns = TypedRows.latest(table.topic, table.registry).columns
    else:
        columns = kafka_schema(binary=True)
    if DAY_COLUMN in table.partition_columns and DAY_COLUMN in columns.names:
        raise OptionError(
            f"topic {table.topic!r}: its schema has a field {DAY_COLUMN!r}, which is the name of the folders of "
            f"partition-by {table.partition_by}: choose partition-by partition"
        )
    if DAY_COLUMN in table.partition_columns and table.format != ICEBERG:
        columns = columns.append(pa.field(DAY_COLUMN, pa.date32()))
    return columns
