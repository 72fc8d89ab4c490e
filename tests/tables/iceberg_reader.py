"""Reads an Iceberg table with Spark's Iceberg runtime, without Headrace: prints count, sum of offsets, and days.

python iceberg_reader.py JAR METADATA_FILE
"""

from __future__ import annotations

import json
import sys

from headrace.pipelines.session import spark_session

if __name__ == "__main__":
    jar, metadata = sys.argv[1:]
    session = spark_session("iceberg-reader", master="local[1]", settings={"spark.jars": jar})
    frame = session.read.format("iceberg").load(metadata)
    row = frame.selectExpr("count(*) AS n", "sum(offset) AS total", "count(DISTINCT key) AS keys").collect()[0]
    print(json.dumps({"n": row.n, "total": row.total, "keys": row.keys}))
    session.stop()
