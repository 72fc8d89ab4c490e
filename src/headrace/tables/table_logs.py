"""The log and the files of a table, by its format."""

from __future__ import annotations

import pyarrow as pa

from headrace.tables.formats.table_files import Layout
from headrace.tables.formats.table_log import TableLog
from headrace.tables.lake_table import DAY, DAY_COLUMN, ICEBERG, PARQUET, LakeTable


def log_of(table: LakeTable, topic_id: str | None = None) -> TableLog:
    """`topic_id`: the id that the topic has now, to compare it with the table's."""
    name = (table.path, table.topic, topic_id or table.topic_id)
    if table.format == ICEBERG:
        from headrace.tables.formats.iceberg_log import IcebergLog

        return IcebergLog(*name, table.catalog, table.keep_hours)
    if table.format == PARQUET:
        from headrace.tables.formats.parquet_log import ParquetLog

        return ParquetLog(*name)
    from headrace.tables.formats.delta_log import DeltaLog

    return DeltaLog(*name)


def layout_of(table: LakeTable, columns: pa.Schema) -> Layout:
    folder_by = table.partition_columns[0] if table.partition_columns else None
    if table.format == ICEBERG:
        return Layout(table.path, columns, folder_by, keeps_folder_column=True)
    if table.format == PARQUET:
        from headrace.tables.formats.parquet_log import FILES

        return Layout(table.path, columns, folder_by, staging=FILES)
    return Layout(table.path, columns, folder_by)


def stored_columns(table: LakeTable, frame_columns: pa.Schema) -> pa.Schema:
    """The columns that the format keeps. Iceberg has the day of a record as a partition, not as a column."""
    if table.format == ICEBERG and table.partition_by == DAY:
        return pa.schema([field for field in frame_columns if field.name != DAY_COLUMN])
    return frame_columns


def record_columns(table: LakeTable, columns: pa.Schema) -> pa.Schema:
    """The columns that the records of a typed table have. The column of the folders of `partition-by day(timestamp)` is
    not one of them. In every other table, a column with this name is a field of the schema."""
    if table.format == ICEBERG or DAY_COLUMN not in table.partition_columns:
        return columns
    return pa.schema([field for field in columns if field.name != DAY_COLUMN])
