"""What the transformations of the demos share: JSON topics as streams, rows as JSON records."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from headrace.pipelines.brokers import broker_options


def json_stream(topics: str, schema: str, *, required: str) -> DataFrame:
    """The values of topics (`likes,comments`) as columns. Records without `required` (malformed ones too) are left out.

    The column `at` (milliseconds in the record) becomes a timestamp. With several topics the column `topic` tells them
    apart: one source for all of them needs fewer processes than a union of sources.
    """
    spark = SparkSession.active()
    rows = (
        spark.readStream.format("headrace")
        .options(**broker_options(spark))
        .option("subscribe", topics)
        .option("startingOffsets", "earliest")
        .load()
    )
    value = f.from_json(f.col("value").cast("string"), schema)
    names = ["topic"] if "," in topics else []
    columns = rows.select(*names, value.alias("v")).where(f"v.{required} is not null").select(*names, "v.*")
    return columns.withColumn("at", f.timestamp_millis("at")) if "at" in columns.columns else columns


def keyed(frame: DataFrame, key: Column, *columns: Column | str) -> DataFrame:
    """A record: the key, and the columns as a JSON object."""
    return frame.select(key.cast("string").alias("key"), f.to_json(f.struct(*columns)).alias("value"))


def millis(column: Column | str) -> Column:
    """A timestamp as milliseconds since 1970."""
    return f.unix_millis(f.col(column) if isinstance(column, str) else column)
