"""A topic copied by Spark, as a process of its own: something to kill.

python copy_job.py MASTER topic BOOTSTRAP SOURCE TARGET CHECKPOINT FORMAT ROWS_PER_BATCH
python copy_job.py MASTER connector FILE
"""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.pipelines.connector_jars import cached_jars
from headrace.pipelines.connectors import run_connector
from headrace.pipelines.session import spark_session

# A task that stands still is started a second time elsewhere; it may wake up and go on (not in local mode).
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.minTaskRuntime": "1s",
}


def copy_topic(master: str, bootstrap: str, source: str, target: str, checkpoint: str, format: str, rows: str) -> None:
    jars = {"spark.jars": ",".join(map(str, cached_jars()))} if format == "kafka" else {}
    spark = spark_session("copy", master=master, settings={**jars, **SPECULATION})
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


def main(master: str, kind: str, *arguments: str) -> None:
    if kind == "topic":
        copy_topic(master, *arguments)
    else:
        run_connector(
            Path(arguments[0]), once=True, bootstrap=None, master=master, report=lambda text: print(text, flush=True)
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
