"""Reads an Iceberg table with Spark and its Iceberg runtime, without Headrace, by its name in a REST catalog and by its
metadata file. Prints count, sum of offsets and number of keys of both as JSON, in one line.

python iceberg_reader.py JAR CATALOG TABLE METADATA_FILE
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import DataFrame, SparkSession


def summary(frame: DataFrame) -> dict[str, int]:
    row = frame.selectExpr("count(*) AS n", "sum(offset) AS total", "count(DISTINCT key) AS keys").collect()[0]
    return {"n": row.n, "total": row.total, "keys": row.keys}


if __name__ == "__main__":
    jar, catalog, table, metadata = sys.argv[1:]
    builder = SparkSession.builder.master("local[1]").config("spark.jars", jar).config("spark.ui.enabled", "false")
    lake = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "rest", ".uri": catalog}
    for name, value in lake.items():
        builder = builder.config(f"spark.sql.catalog.lake{name}", value)
    session = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
    frames = {"catalog": session.table(f"lake.{table}"), "path": session.read.format("iceberg").load(metadata)}
    print(json.dumps({name: summary(frame) for name, frame in frames.items()}))
    session.stop()
