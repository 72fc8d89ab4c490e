"""Small rows on their way from Spark to the tasks that write files.

Spark limits the bytes of the Arrow batches that it sends to Python. To know them it measures a batch after each row,
which is half of the time that the JVM needs for a table with Kafka's columns. Without a limit it does not measure.
Small rows need no limit of bytes: one of ten thousand rows does. So rows first go without one, and Spark checks that
each is small. A large row fails the job: the sink repeats it, and sends all later batches, with the limit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DateType,
    NumericType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

# A batch of such rows has at most 160 MB.
LARGEST_BYTES: Final = 16 << 10
_MOST_ROWS: Final = 10_000
_MARK: Final = "headrace: a large row"
BYTES_LIMIT: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
ROWS_LIMIT: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_FIXED: Final = NumericType | BooleanType | DateType | TimestampType | TimestampNTZType
_VARIABLE: Final = BinaryType | StringType
# Spark's number for "no limit".
_NONE: Final = str(2**31 - 1)


def checked(rows: DataFrame, by: str) -> DataFrame | None:
    """The rows, or an error if one is large. `by` is the column that raises it. None if a column has no simple size."""
    kinds = {field.name: field.dataType for field in rows.schema}
    if not all(isinstance(kind, _FIXED | _VARIABLE) for kind in kinds.values()):
        return None
    sizes = [_bytes_of(name) for name, kind in kinds.items() if isinstance(kind, _VARIABLE)]
    if not sizes:
        return rows
    total = sizes[0]
    for size in sizes[1:]:
        total = total + size
    error = f.raise_error(f.lit(_MARK)).cast(kinds[by])
    return rows.withColumn(by, f.when(total <= LARGEST_BYTES, f.col(by)).otherwise(error))


def _bytes_of(name: str) -> Column:
    return f.coalesce(f.octet_length(f"`{name}`"), f.lit(0))


def is_large_row(error: Exception) -> bool:
    return _MARK in str(error)


@contextlib.contextmanager
def without_limit(spark: SparkSession) -> Iterator[None]:
    """Jobs of this session send Arrow batches without measuring them. A streaming query has a session of its own."""
    before = {name: str(spark.conf.get(name)) for name in (BYTES_LIMIT, ROWS_LIMIT)}
    spark.conf.set(BYTES_LIMIT, _NONE)
    # A person may have taken this limit away.
    spark.conf.set(ROWS_LIMIT, str(_MOST_ROWS))
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
