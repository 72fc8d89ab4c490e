"""Copies a topic with Spark, as a process that tests kill.

python copy_job.py MASTER topic BOOTSTRAP SOURCE TARGET CHECKPOINT READ_FORMAT WRITE_FORMAT ROWS_PER_BATCH
python copy_job.py MASTER connector FILE        # reads the existing records, then ends
python copy_job.py MASTER follow FILE           # until it is killed
"""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.pipelines.connectors.connector import load_pipeline, pipeline_run
from headrace.pipelines.flows.session import pipeline_session
from headrace.pipelines.session import spark_session
from headrace.pipelines.spark.connector_jars import cached_jars

# Spark starts a second copy of a stalled task elsewhere; the first may resume (not in local mode).
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.minTaskRuntime": "1s",
}


def copy_topic(
    master: str, bootstrap: str, source: str, target: str, checkpoint: str, reads: str, writes: str, rows: str
) -> None:
    jars = {"spark.jars": ",".join(map(str, cached_jars()))} if "kafka" in (reads, writes) else {}
    spark = spark_session("copy", master=master, settings={**jars, **SPECULATION})
    brokers = {"kafka.bootstrap.servers": bootstrap}
    stream = spark.readStream.format(reads).options(**brokers, subscribe=source, startingOffsets="earliest")
    query = (
        stream.option("maxOffsetsPerTrigger", rows)
        .load()
        .select("key", "value")
        .writeStream.format(writes)
        .options(**brokers, topic=target, checkpointLocation=checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    print("started", flush=True)
    query.awaitTermination()


def copy_by_connector(master: str, file: Path, *, once: bool) -> None:
    spec, spark = pipeline_session(load_pipeline(file), None, master, lambda text: print(text, flush=True))
    run = pipeline_run(file, spec, spark, once=once, report=print)
    run.start()
    run.supervise()


def main(master: str, kind: str, *arguments: str) -> None:
    if kind == "topic":
        copy_topic(master, *arguments)
    else:
        copy_by_connector(master, Path(arguments[0]), once=kind == "connector")


if __name__ == "__main__":
    main(*sys.argv[1:])
