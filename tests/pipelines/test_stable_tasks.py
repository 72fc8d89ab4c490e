"""A repeated batch has the same tasks as before, on which the exactly-once ledger depends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.pipelines.output import Sink
from pyspark.sql import functions as f

from headrace.pipelines.flows.spec import FORMAT
from headrace.pipelines.sink.stable_tasks import stable_tasks
from headrace.records.builder import Record
from tests.pipelines.conftest import Cluster

_SINK = Sink("out", None, None, "headrace", {"topic": "t"})


def tasks_of(spark: Any, cluster: Cluster, topics: list[str], folder: Path, how: str) -> dict[int, set[bytes]]:
    """The values of each task in the query's only batch. `how` is a format, or "dealt": Spark's format with
    `stable_tasks`."""
    seen: dict[int, set[bytes]] = {}
    given = cluster.options(subscribe=",".join(topics), startingOffsets="earliest")
    frame = spark.readStream.format("headrace" if how == "headrace" else "kafka").options(**given).load()
    rows = frame.select("key", "value")
    if how == "dealt":
        rows = stable_tasks(rows, _SINK, {FORMAT: "kafka"})

    def note(batch: Any, _number: int) -> None:
        for task, value in batch.select(f.spark_partition_id(), "value").collect():
            seen.setdefault(task, set()).add(bytes(value))

    query = rows.writeStream.foreachBatch(note).option("checkpointLocation", str(folder)).trigger(availableNow=True)
    running = query.start()
    running.awaitTermination()
    return seen


@pytest.mark.parametrize("how", ["headrace", "dealt"])
def test_a_repeated_batch_has_the_same_tasks(
    spark: Any, headrace: Cluster, official_jars: list[Path], tmp_path: Path, how: str
) -> None:
    if not official_jars:
        pytest.skip("needs Maven: Spark's own connector cannot be had")
    topics = [headrace.topic(2), headrace.topic(2)]
    for number, topic in enumerate(topics):
        for partition in range(2):
            rows = [
                Record(None, b"%d-%d-%d" % (number, partition, i), timestamp_ms=1_700_000_000_000) for i in range(9)
            ]
            headrace.write(topic, rows, partition=partition)
    first = tasks_of(spark, headrace, topics, tmp_path, how)
    assert sum(map(len, first.values())) == 36
    # As if the driver had died before it recorded that the batch was done.
    for file in (tmp_path / "commits").iterdir():
        file.unlink()
    assert tasks_of(spark, headrace, topics, tmp_path, how) == first
