"""The sink writes topics exactly once by default, or at least once, and rejects wrong options."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from headrace.client.blocking.client import LATEST, READ_COMMITTED, READ_UNCOMMITTED
from headrace.kernel.ids import partition_for_key
from headrace.pipelines.foreach_batch import to_topic
from headrace.pipelines.options import SinkOptions
from headrace.pipelines.sink.writer import write_slot
from headrace.pipelines.task_sink import written_by_tasks
from tests.pipelines.conftest import Cluster, apache_when_long, records
from tests.support.clock import wait_for


def wait_for_markers(cluster: Cluster, topics: str) -> None:
    """Apache Kafka answers a commit before it has written the markers, so readers see the rows a moment later."""
    names = topics.split(",")
    partitions = [(name, index) for name, topic in cluster.client.topics(names).items() for index in topic.partitions]

    def ends(isolation: int) -> dict[tuple[str, int], int]:
        return cluster.client.list_offsets(dict.fromkeys(partitions, LATEST), isolation=isolation)

    wait_for(lambda: ends(READ_COMMITTED) == ends(READ_UNCOMMITTED), f"the end of the transactions in {topics}")


def read(spark: Any, cluster: Cluster, topic: str, **options: str) -> Any:
    wait_for_markers(cluster, topic)
    given = cluster.options(
        subscribe=topic, includeHeaders="true", **{"kafka.isolation.level": "read_committed"}, **options
    )
    return spark.read.format("headrace").options(**given).load()


@pytest.mark.parametrize(
    ("mode", "codec"), [("exactly-once", "none"), ("exactly-once", "zstd"), ("at-least-once", "lz4")]
)
def test_rows_arrive_complete_on_the_partitions_of_javas_producer(
    spark: Any, cluster: Cluster, mode: str, codec: str
) -> None:
    topic = cluster.topic(3)
    frame = spark.range(2000).select(
        f.when(f.col("id") % 5 > 0, f.col("id").cast("string")).alias("key"),
        f.when(f.col("id") % 7 > 0, f.concat(f.lit("value "), "id")).cast("binary").alias("value"),
        f.array(f.struct(f.lit("n").alias("key"), f.col("id").cast("string").cast("binary").alias("value"))).alias(
            "headers"
        ),
    )
    given = cluster.options(topic=topic, mode=mode, **{"kafka.compression.type": codec})
    frame.write.format("headrace").options(**given).mode("append").save()
    rows = read(spark, cluster, topic).collect()
    assert len(rows) == 2000
    for row in rows:
        number = int(row.headers[0].value)
        assert row.headers[0].key == "n"
        assert row.key == (None if number % 5 == 0 else str(number).encode())
        assert row.value == (None if number % 7 == 0 else f"value {number}".encode())
        if row.key is not None:
            assert row.partition == partition_for_key(bytes(row.key), 3)


def test_topic_and_partition_come_from_columns(spark: Any, cluster: Cluster) -> None:
    one, two = cluster.topic(2), cluster.topic(2)
    frame = spark.range(10).select(
        f.when(f.col("id") < 4, one).otherwise(two).alias("topic"),
        (f.col("id") % 2).cast("int").alias("partition"),
        f.col("id").cast("string").alias("value"),
    )
    frame.write.format("headrace").options(**cluster.options()).mode("append").save()
    found = read(spark, cluster, f"{one},{two}").select("topic", "partition", "value").collect()
    assert sorted((r.topic, r.partition, int(r.value)) for r in found) == sorted(
        (one if i < 4 else two, i % 2, i) for i in range(10)
    )


def test_a_repeated_batch_is_written_once(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    """The last commits are removed from the journal, so Spark runs these batches again, as after a crash. The query has
    a shuffle and a different number of cores, but its tasks must be the same. `sink` and `task_sink` share one ledger,
    so a query may change between them; each broker tests one order."""
    by_tasks_first = cluster.kind == "apache"
    source, target = cluster.topic(2), cluster.topic(2)
    for partition in range(2):
        cluster.write(source, records(50), partition=partition)
    given = cluster.options(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="40")

    def run(cores: int, *, by_tasks: bool) -> int:
        spark.conf.set("spark.sql.adaptive.coalescePartitions.minPartitionNum", cores)
        rows = spark.readStream.format("headrace").options(**given).load().select("key", "value")
        stream = rows.repartition("value")
        sink = cluster.options(topic=target)
        writer = written_by_tasks(stream, sink) if by_tasks else stream.writeStream.format("headrace").options(**sink)
        query = writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start()
        query.awaitTermination()
        return len([event for event in query.recentProgress if event.numInputRows])

    assert run(cores=1, by_tasks=by_tasks_first) == 3
    for batch in (1, 2):
        for name in (f"{batch}", f".{batch}.crc"):
            (tmp_path / "c" / "commits" / name).unlink(missing_ok=True)
    (tmp_path / "c" / "offsets" / "2").unlink()
    (tmp_path / "c" / "offsets" / ".2.crc").unlink(missing_ok=True)
    assert run(cores=2, by_tasks=not by_tasks_first) >= 1
    spark.conf.unset("spark.sql.adaptive.coalescePartitions.minPartitionNum")
    written = read(spark, cluster, target).groupBy("key", "value").count().collect()
    read_back = Counter({(row.key, row.value): row["count"] for row in written})
    assert read_back == Counter((record.key, record.value) for record in [*records(50), *records(50)])


def counted_by_thirds(spark: Any, cluster: Cluster, source: str) -> Any:
    given = cluster.options(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="10")
    return (
        spark.readStream.format("headrace")
        .options(**given)
        .load()
        .groupBy((f.col("offset") % 3).cast("string").alias("key"))
        .agg(f.count("*").cast("string").alias("value"))
    )


def latest_values(spark: Any, cluster: Cluster, writer: Any, target: str, checkpoint: Path) -> dict[bytes, bytes]:
    query = writer.outputMode("update").option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    return {bytes(row.key): bytes(row.value) for row in read(spark, cluster, target).orderBy("offset").collect()}


@apache_when_long
def test_task_sink_in_update_mode_keeps_the_latest_value(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    source, target = cluster.topic(1), cluster.topic(1)
    cluster.write(source, records(30))
    writer = written_by_tasks(counted_by_thirds(spark, cluster, source), cluster.options(topic=target))
    assert latest_values(spark, cluster, writer, target, tmp_path) == {b"0": b"10", b"1": b"10", b"2": b"10"}


def test_update_mode_through_foreach_batch_keeps_the_latest_value(
    spark: Any, headrace: Cluster, tmp_path: Path
) -> None:
    source, target = headrace.topic(1), headrace.topic(1)
    headrace.write(source, records(30))
    write = to_topic("counts", headrace.options(topic=target))
    writer = counted_by_thirds(spark, headrace, source).writeStream.foreachBatch(write)
    assert latest_values(spark, headrace, writer, target, tmp_path) == {b"0": b"10", b"1": b"10", b"2": b"10"}


def test_slot_skips_batches_in_its_ledger_and_a_stale_attempt_is_fenced(cluster: Cluster) -> None:
    import pyarrow as pa

    topic = cluster.topic(1)
    options = SinkOptions.parse(cluster.options(topic=topic))

    def rows(*values: bytes) -> Any:
        return iter([pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], names=["value"])])

    assert not write_slot(options, rows(b"a", b"b"), "slots", 0, 4).skipped
    assert write_slot(options, rows(b"a", b"b"), "slots", 0, 4).skipped
    assert write_slot(options, rows(b"old"), "slots", 0, 3).skipped
    assert not write_slot(options, rows(b"c"), "slots", 0, 5).skipped
    # A newer attempt runs in another worker with its own connections.
    others = SinkOptions.parse(cluster.options(topic=topic) | {"kafka.client.id": "another worker"})
    won: list[bool] = []

    def overtaken() -> Any:
        yield next(rows(b"first half"))
        won.append(not write_slot(others, rows(b"winner"), "slots", 0, 6).skipped)
        yield next(rows(b"second half"))

    with pytest.raises(Exception, match="taken over by a newer attempt"):
        write_slot(options, overtaken(), "slots", 0, 6)
    assert won == [True]
    assert values_of(cluster, topic) == Counter([b"a", b"b", b"c", b"winner"])


def values_of(cluster: Cluster, topic: str) -> Counter[bytes]:
    from headrace.client.blocking.fetch import FetchSettings, FetchStream
    from headrace.serialization.arrow_records import Decoder

    wait_for_markers(cluster, topic)
    end = cluster.client.list_offsets({(topic, 0): LATEST})[(topic, 0)]
    found: Counter[bytes] = Counter()
    settings = FetchSettings(isolation=READ_COMMITTED, stall_timeout_s=20)
    for chunk in FetchStream(cluster.client, (topic, 0), 0, end, settings):
        for batch in Decoder(topic, 0).decode(chunk.records, 0, end, chunk.aborted):
            found.update(batch.column("value").to_pylist())
    return found


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        (["id"], {"topic": "T"}, 'needs a column "value"'),
        (["id as value"], {"topic": "T"}, 'column "value" is bigint: must be string or binary'),
        (["string(id) as value"], {}, "say where to write"),
        (["string(id) as value", "id as partition"], {"topic": "T"}, 'column "partition" is bigint: must be int'),
        (["string(id) as value", "array('a') as headers"], {"topic": "T"}, "array<string>: must be array<struct<key"),
        (
            ["string(id) as value", "array(named_struct('key', string(null), 'value', binary('a'))) as headers"],
            {"topic": "T"},
            "has no key",
        ),
        (["string(id) as value", "9 as partition"], {"topic": "T"}, "holds 9, but topic"),
        (["string(id) as value"], {"topic": "T", "mode": "once"}, "exactly-once"),
        (["string(id) as value"], {"topic": "not a name"}, "not a name"),
    ],
)
def test_error_messages_of_the_sink(
    spark: Any, headrace: Cluster, columns: list[str], options: dict[str, str], words: str
) -> None:
    topic = headrace.topic(2)
    given = headrace.options(**{name: value.replace("T", topic) for name, value in options.items()})
    with pytest.raises(PySparkException) as caught:
        spark.range(2).selectExpr(*columns).write.format("headrace").options(**given).mode("append").save()
    assert words in str(caught.value)
