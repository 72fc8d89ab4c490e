"""The source returns the same rows as Spark's own connector, from Headrace and from Apache Kafka."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from headrace.client.blocking.produce import Transaction
from headrace.pipelines.source.stream_state import StreamNotes
from headrace.records.compression import Codec
from tests.pipelines.conftest import Cluster, apache_when_long, records

_T0 = 1_700_000_000_000


def rows(spark: Any, format: str, options: dict[str, str]) -> list[Any]:
    frame = spark.read.format(format).options(**options).load()
    return sorted(frame.collect(), key=lambda row: (row["topic"], row["partition"], row["offset"]))


@pytest.fixture(scope="module")
def filled() -> dict[str, tuple[str, str]]:
    return {}


def mixed_topics(cluster: Cluster, filled: dict[str, tuple[str, str]]) -> tuple[str, str]:
    """Two topics with every codec, headers, nulls, and committed and aborted transactions; made once per broker."""
    if cluster.kind not in filled:
        one, two = cluster.topic(3), cluster.topic(1)
        for number, codec in enumerate(Codec):
            for partition in range(3):
                cluster.write(one, records(20, start=number * 20), partition=partition, codec=codec)
        for number in range(4):
            transaction = Transaction(cluster.client, f"mixed-{one}-{number}", timeout_ms=30_000)
            transaction.begin()
            cluster.write(two, records(10, start=number * 10), transaction=transaction)
            if number % 2:
                transaction.abort()
            else:
                transaction.commit("", {})
        filled[cluster.kind] = one, two
    return filled[cluster.kind]


def options_of_every_kind(one: str, two: str) -> dict[str, dict[str, str]]:
    some = f'{{"{one}":{{"0":5,"1":-2,"2":90}}}}'
    until = f'{{"{one}":{{"0":50,"1":-1,"2":95}}}}'
    times = f'{{"{one}":{{"0":{_T0 + 30},"1":{_T0},"2":{_T0 + 99}}}}}'
    return {
        # Spark's connector also reads records of open and aborted transactions by default. Ours does not.
        "all": {"subscribe": f"{one},{two}", "kafka.isolation.level": "read_uncommitted"},
        "headers": {"subscribe": one, "includeHeaders": "true"},
        "pattern": {"subscribePattern": f"{one}|nothing"},
        "assign": {"assign": f'{{"{one}":[0,2]}}'},
        "offsets": {"subscribe": one, "startingOffsets": some, "endingOffsets": until},
        "timestamps": {"subscribe": one, "startingOffsetsByTimestamp": times},
        "too late": {
            "subscribe": one,
            "startingOffsetsByTimestamp": times.replace(str(_T0 + 99), str(_T0 + 9999)),
            "startingOffsetsByTimestampStrategy": "latest",
        },
        "timestamp": {"subscribe": one, "startingTimestamp": str(_T0 + 40), "endingTimestamp": str(_T0 + 70)},
        "committed": {"subscribe": two, "kafka.isolation.level": "read_committed"},
        "uncommitted": {"subscribe": two, "kafka.isolation.level": "read_uncommitted"},
        "split": {"subscribe": one, "minPartitions": "8"},
        "small tasks": {"subscribe": one, "maxRecordsPerPartition": "7"},
    }


@pytest.mark.parametrize("kind", list(options_of_every_kind("", "")))
@apache_when_long
def test_rows_equal_those_of_sparks_own_connector(
    spark: Any, official_jars: list[Path], cluster: Cluster, filled: dict[str, tuple[str, str]], kind: str
) -> None:
    if not official_jars:
        pytest.skip("Spark's own connector cannot be fetched here (Maven)")
    given = cluster.options(**options_of_every_kind(*mixed_topics(cluster, filled))[kind])
    ours, theirs = rows(spark, "headrace", given), rows(spark, "kafka", given)
    assert ours == theirs
    assert ours
    schemas = [spark.read.format(name).options(**given).load().schema for name in ("headrace", "kafka")]
    assert [(f.name, f.dataType.simpleString()) for f in schemas[0]] == [
        (f.name, f.dataType.simpleString()) for f in schemas[1]
    ]


def run_available(spark: Any, given: dict[str, str], checkpoint: Path, table: str) -> list[Any]:
    """Reads the existing records into a table in memory. Returns the progress events."""
    stream = spark.readStream.format("headrace").options(**given).load()
    query = (
        stream.writeStream.format("memory")
        .queryName(table)
        .option("checkpointLocation", str(checkpoint))
        .outputMode("append")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [event for event in query.recentProgress if event.numInputRows]


@apache_when_long
def test_stream_reads_limited_batches_and_continues_after_a_restart(
    spark: Any, cluster: Cluster, tmp_path: Path
) -> None:
    topic = cluster.topic(2)
    for partition in range(2):
        cluster.write(topic, records(100), partition=partition)
    given = cluster.options(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="60")
    sink = spark.readStream.format("headrace").options(**given).load().writeStream.format("parquet")

    def run() -> list[int]:
        query = (
            sink.option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [event.numInputRows for event in query.recentProgress if event.numInputRows]

    assert run() == [60, 60, 60, 20]
    cluster.write(topic, records(10, start=100), partition=1)
    assert run() == [10]
    read = spark.read.parquet(str(tmp_path / "out")).select("partition", "offset").collect()
    assert sorted((r.partition, r.offset) for r in read) == [(0, i) for i in range(100)] + [(1, i) for i in range(110)]


@apache_when_long
def test_new_partitions_are_read_from_their_beginning(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.topic(1)
    cluster.write(topic, records(5))
    given = cluster.options(subscribe=topic, startingOffsets="latest")
    checkpoint = tmp_path / "c"
    sink = spark.readStream.format("headrace").options(**given).load().writeStream.format("parquet")
    start = (
        sink.option("path", str(tmp_path / "o"))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
    )
    start.start().awaitTermination()
    cluster.write(topic, records(2, start=5))
    body = {"topics": [{"name": topic, "count": 2, "assignments": None}], "timeout": 10_000, "validate_only": False}
    cluster.client.refresh()
    cluster.client.broker(cluster.client._map.controller).call("create_partitions", body)
    cluster.client.retrying("growing", lambda: cluster.client.refresh([topic]) and cluster.client.leader_of((topic, 1)))
    cluster.write(topic, records(3), partition=1)
    start.start().awaitTermination()
    read = spark.read.parquet(str(tmp_path / "o")).select("partition", "offset").collect()
    assert sorted(map(tuple, read)) == [(0, 5), (0, 6), (1, 0), (1, 1), (1, 2)]


def test_stream_from_the_latest_offset_keeps_its_start_if_it_fails_in_its_first_batch(
    spark: Any, headrace: Cluster, tmp_path: Path
) -> None:
    topic = headrace.topic(1)
    headrace.write(topic, records(5))
    rows = spark.readStream.format("headrace").options(**headrace.options(subscribe=topic)).load()
    taken: list[int] = []
    fails = [True]

    def take(frame: Any, batch: int) -> None:
        if fails:
            raise OSError(f"batch {batch} fails")
        taken.extend(row.offset for row in frame.select("offset").collect())

    def start() -> Any:
        return rows.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "c")).start()

    assert "batch 0 fails" in failing(lambda: start().awaitTermination())
    headrace.write(topic, records(3, start=5))
    fails.clear()
    query = start()
    try:
        query.processAllAvailable()
        assert sorted(taken) == [5, 6, 7]
        headrace.write(topic, records(1, start=8))
        query.processAllAvailable()
        assert sorted(taken) == [5, 6, 7, 8]
    finally:
        query.stop()


def failing(action: Any) -> str:
    with pytest.raises(PySparkException) as caught:
        action()
    return str(caught.value)


@apache_when_long
def test_records_lost_to_retention_stop_the_query_or_are_counted(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.topic(1)
    cluster.write(topic, records(10))
    given = cluster.options(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="4")

    def start(**more: str) -> Any:
        stream = spark.readStream.format("headrace").options(**given, **more).load().writeStream.format("noop")
        return stream.option("checkpointLocation", str(tmp_path / "c"))

    query = start().trigger(processingTime="1 hour").start()
    try:
        while not query.recentProgress:
            query.awaitTermination(1)
    finally:
        query.stop()
    cluster.delete_records(topic, 0, 7)
    assert "has lost 3 records from 4 on" in failing(
        lambda: start().trigger(availableNow=True).start().awaitTermination()
    )
    query = start(failOnDataLoss="false").trigger(availableNow=True).start()
    query.awaitTermination()
    last = [event for event in query.recentProgress if event.numInputRows]
    assert sum(event.numInputRows for event in last) == 3
    assert StreamNotes(cluster.client).missed(str(query.id)) == 3


@apache_when_long
def test_recreated_topic_is_detected(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.topic(1)
    cluster.write(topic, records(3))
    given = cluster.options(subscribe=topic, startingOffsets="earliest")
    run_available(spark, given, tmp_path / "c", f"again_{cluster.kind}")
    cluster.delete_topic(topic)
    cluster.client.retrying("deleting", lambda: None)
    while topic in cluster.client.topics([topic]):
        pass
    cluster.client.create_topic(topic, 1)
    cluster.write(topic, records(9))
    stream = spark.readStream.format("headrace").options(**given).load().writeStream.format("noop")
    start = stream.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
    assert "was deleted and created again" in failing(lambda: start.start().awaitTermination())


def test_offsets_in_progress_events_are_those_of_sparks_own_connector(
    spark: Any, official_jars: list[Path], headrace: Cluster, tmp_path: Path
) -> None:
    topic = headrace.topic(2)
    for partition in range(2):
        headrace.write(topic, records(10), partition=partition)
    given = headrace.options(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="8")

    def offsets(format_: str) -> list[Any]:
        stream = spark.readStream.format(format_).options(**given).load().writeStream.format("noop")
        query = stream.option("checkpointLocation", str(tmp_path / format_)).trigger(availableNow=True).start()
        query.awaitTermination()
        events = [event.sources[0] for event in query.recentProgress if event.numInputRows]
        return [[json.loads(text) for text in (e.startOffset, e.endOffset, e.latestOffset)] for e in events]

    end = {topic: {"0": 10, "1": 10}}
    edges = [None, {topic: {"0": 4, "1": 4}}, {topic: {"0": 8, "1": 8}}, end]
    ours = offsets("headrace")
    assert ours == [[before, after, end] for before, after in itertools.pairwise(edges)]
    if official_jars:
        assert ours == offsets("kafka")


def test_a_checkpoint_of_another_topic_is_refused(spark: Any, headrace: Cluster, tmp_path: Path) -> None:
    one, two = headrace.topic(), headrace.topic()
    for topic in (one, two):
        headrace.write(topic, records(2))

    def start(topic: str) -> Any:
        given = headrace.options(subscribe=topic, startingOffsets="earliest")
        stream = spark.readStream.format("headrace").options(**given).load().writeStream.format("noop")
        return stream.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start()

    start(one).awaitTermination()
    assert f"the checkpoint belongs to topic {one}" in failing(lambda: start(two).awaitTermination())


def test_error_messages_of_the_source(spark: Any, headrace: Cluster) -> None:
    def read(**options: str) -> str:
        return failing(lambda: spark.read.format("headrace").options(**headrace.options(**options)).load().count())

    assert "topic 'no-such-topic' does not exist" in read(subscribe="no-such-topic")
    assert 'option "subscribee" is unknown (did you mean "subscribe"?)' in read(subscribee="t")
    gone = {"subscribe": "t", "kafka.bootstrap.servers": "127.0.0.1:1"}
    message = failing(lambda: spark.read.format("headrace").options(**gone).load().count())
    assert "nothing listens on 127.0.0.1:1 (connection refused)" in message


def test_python_processes_import_the_installed_pyspark(spark: Any) -> None:
    """Python keeps no compiled files of a zip, so every process would compile PySpark again."""
    (file,) = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("pyspark").__file__).collect()
    assert ".zip" not in file
