"""A topic copied to a topic by Spark, as a process of its own: something to kill.

python copy_job.py BOOTSTRAP SOURCE TARGET CHECKPOINT FORMAT ROWS_PER_BATCH
"""

from __future__ import annotations

import sys

from headrace.pipelines.connector_jars import cached_jars
from headrace.pipelines.session import spark_session


def main(bootstrap: str, source: str, target: str, checkpoint: str, format: str, rows: str) -> None:
    jars = {"spark.jars": ",".join(map(str, cached_jars()))} if format == "kafka" else {}
    spark = spark_session("copy", master="local[2]", settings=jars)
    brokers = {"kafka.bootstrap.servers": bootstrap}
    stream = spark.readStream.format(format).options(**brokers, subscribe=source, startingOffsets="earliest")
    query = (
        stream.option("maxOffsetsPerTrigger", rows)
        .load()
        .select("key", "value")
        .writeStream.format(format)
        .options(**brokers, topic=target, checkpointLocation=checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    print("started", flush=True)
    query.awaitTermination()
    print("finished", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
