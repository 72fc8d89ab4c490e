"""Mirrors copy topics between clusters completely and once, and translate group offsets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as f
from pyspark.sql.streaming.datasource import ReadAllAvailable

from headrace.client.blocking.client import BlockingClient
from headrace.pipelines.connectors.mirror import (
    HEADER,
    is_return,
    load_mirror,
    make_topics,
    mirror_run,
    source_options,
    target_offset,
    translate_group,
)
from headrace.pipelines.errors import DataLossError, PipelineError
from headrace.pipelines.options import SourceOptions
from headrace.pipelines.source.reader import HeadraceStreamReader
from headrace.records.builder import Record
from headrace.testing.process import broker_process
from tests.pipelines.conftest import Cluster, records

_TIME_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def east() -> Any:
    with broker_process() as broker:
        yield Cluster("east", broker.bootstrap, BlockingClient(broker.bootstrap))


@pytest.fixture(scope="module")
def west() -> Any:
    with broker_process() as broker:
        yield Cluster("west", broker.bootstrap, BlockingClient(broker.bootstrap))


@pytest.fixture
def mirrored(spark: Any, tmp_path: Path) -> Callable[..., Any]:
    """Runs a mirror over the existing records. Returns its spec."""

    def run(name: str, source: Cluster, target: Cluster, topics: str, rename: str = "{topic}") -> Any:
        file = tmp_path / f"{name}.yml"
        file.write_text(
            f"name: {name}\nsource: {{bootstrap: '{source.bootstrap}'}}\ntarget: {{bootstrap: '{target.bootstrap}'}}\n"
            f"topics: '{topics}'\nrename: '{rename}'\n"
        )
        spec = load_mirror(file)
        started = mirror_run(spec, spark, once=True, report=lambda _: None)
        started.start()
        started.supervise()
        return spec

    return run


def rows(spark: Any, cluster: Cluster, topic: str) -> list[Any]:
    given = cluster.options(subscribe=topic, includeHeaders="true", **{"kafka.isolation.level": "read_committed"})
    frame = spark.read.format("headrace").options(**given).load()
    return sorted(frame.collect(), key=lambda row: (row.partition, row.offset))


def test_two_clusters_are_mirrored_into_one_and_group_offsets_are_translated(
    spark: Any, east: Cluster, west: Cluster, headrace: Cluster, mirrored: Any
) -> None:
    topic = "orders-to-mirror"
    for cluster, start in ((east, 0), (west, 1000)):
        cluster.client.create_topic(topic, 2, configs={"retention.ms": "-1"})
        for partition in range(2):
            cluster.write(topic, records(40, start=start), partition=partition)
    spec = mirrored("east", east, headrace, topic, "east.{topic}")
    mirrored("west", west, headrace, topic, "west.{topic}")
    east.write(topic, records(10, start=40), partition=1)
    mirrored("east", east, headrace, topic, "east.{topic}")
    origin, copy = rows(spark, east, topic), rows(spark, headrace, f"east.{topic}")
    assert len(copy) == 90
    for there, here in zip(origin, copy, strict=True):
        assert (here.key, here.value, here.partition, here.timestamp) == (
            there.key,
            there.value,
            there.partition,
            there.timestamp,
        )
        added = here.headers[-1]
        assert (added.key, bytes(added.value)) == (
            HEADER,
            f"{east.client.cluster_id()}:{there.partition}:{there.offset}:{topic}:east.{topic}".encode(),
        )
        assert [(h.key, h.value) for h in here.headers[:-1]] == [(h.key, h.value) for h in there.headers or []]
    assert len(rows(spark, headrace, f"west.{topic}")) == 80

    east.client.commit_offsets("readers", {(topic, 0): (17, ""), (topic, 1): (45, "")})
    moved = translate_group(spec, "readers")
    offsets = {(row.partition, int(bytes(row.headers[-1].value).split(b":")[2])): row.offset for row in copy}
    assert moved[(f"east.{topic}", 0)] == (17, offsets[(0, 17)])
    assert moved[(f"east.{topic}", 1)] == (45, offsets[(1, 45)])
    assert headrace.client.committed_offsets("readers") == {pair: (here, "") for pair, (_, here) in moved.items()}
    with pytest.raises(PipelineError, match="no committed offsets"):
        translate_group(spec, "nobody")


def test_copies_are_kept_as_long_as_their_records(east: Cluster, west: Cluster, tmp_path: Path) -> None:
    """With the retention of the target's brokers it would delete old records, and compaction would not be on."""
    kept = {"cleanup.policy": "compact", "retention.ms": "-1", "max.message.bytes": "2000000"}
    east.client.create_topic("kept", 3, configs={**kept, "segment.bytes": "2000000"})
    east.client.create_topic("plain", 1)
    file = tmp_path / "kept.yml"
    sides = f"source: {{bootstrap: '{east.bootstrap}'}}\ntarget: {{bootstrap: '{west.bootstrap}'}}\n"
    file.write_text(f"{sides}topics: 'kept|plain'\nrename: 'east.{{topic}}'\n")
    for _ in range(2):
        make_topics(load_mirror(file), east.client, west.client)
    assert west.client.topic_configs("east.kept") == kept
    assert west.client.topic_configs("east.plain") == {}


def test_mirror_reads_no_topics_of_programs_and_survives_a_deleted_one(
    east: Cluster, west: Cluster, tmp_path: Path
) -> None:
    for topic in ("kept-here", "Dropped-here", "__notes-here"):
        east.client.create_topic(topic, 1)
        east.write(topic, [Record(b"k", b"v", timestamp_ms=1)])
    file = tmp_path / "some.yml"
    text = f"source: {{bootstrap: '{east.bootstrap}'}}\ntarget: {{bootstrap: '{west.bootstrap}'}}\n"
    text += "topics: '(?i).*ed-here|.*t-here|.*notes-here'\n"

    def reader() -> HeadraceStreamReader:
        file.write_text(text)
        return HeadraceStreamReader(SourceOptions.parse(source_options(load_mirror(file)), streaming=True))

    first = reader()
    end = first.latestOffset(first.initialOffset(), ReadAllAvailable())
    assert end == {"kept-here": {"0": 1}, "Dropped-here": {"0": 1}}
    east.delete_topic("Dropped-here")
    with pytest.raises(DataLossError, match="Dropped-here-0 is no longer there"):
        reader().latestOffset(end, ReadAllAvailable())
    text += "failOnDataLoss: false\n"
    assert reader().latestOffset(end, ReadAllAvailable()) == {"kept-here": {"0": 1}}


def test_clusters_that_mirror_each_other_do_not_loop(spark: Any, east: Cluster, west: Cluster, mirrored: Any) -> None:
    topic = "shared"
    for cluster, start in ((east, 0), (west, 100)):
        cluster.client.create_topic(topic, 1, configs={"retention.ms": "-1"})
        cluster.write(topic, [r for r in records(20, start=start) if r.value is not None])
    mirrored("there", east, west, topic)
    # Reads its own records in west, and brings west's to east, which the first one then reads.
    mirrored("back", west, east, topic)
    mirrored("there", east, west, topic)
    values = [sorted(bytes(row.value) for row in rows(spark, cluster, topic)) for cluster in (east, west)]
    assert values[0] == values[1]
    assert len(values[0]) == len(set(values[0]))
    with pytest.raises(PipelineError, match="in circles"):
        mirrored("self", east, east, topic)


def test_records_made_from_copies_are_mirrored_back_once(
    spark: Any, east: Cluster, west: Cluster, mirrored: Any
) -> None:
    """An application in west copies the headers of the records that it reads into those that it writes."""
    orders, totals = "orders-of-east", "totals-of-west"
    for cluster, topic in ((east, orders), (west, totals)):
        cluster.client.create_topic(topic, 1, configs={"retention.ms": "-1"})
    sent = [record for record in records(5) if record.value is not None]
    east.write(orders, sent)
    mirrored("to-west", east, west, f"{orders}|{totals}")
    copies = rows(spark, west, orders)
    derived = [
        Record(b"total", b"of " + bytes(row.value), tuple((h.key, bytes(h.value)) for h in row.headers), _TIME_MS)
        for row in copies
        if all(h.value is not None for h in row.headers)
    ]
    # With a header of 0.1.0 it is not known whether it is a copy.
    unknown = Record(b"total", b"unknown", ((HEADER, f"{east.client.cluster_id()}:0:7".encode()),), _TIME_MS)
    west.write(totals, [*derived, unknown])
    for _ in range(2):
        mirrored("to-east", west, east, f"{orders}|{totals}")
        mirrored("to-west", east, west, f"{orders}|{totals}")
    wanted = [record.value for record in derived]
    assert [bytes(row.value) for row in rows(spark, east, totals)] == wanted
    assert [bytes(row.value) for row in rows(spark, west, totals)] == [*wanted, b"unknown"]
    assert len(rows(spark, east, orders)) == len(rows(spark, west, orders)) == len(sent)


def test_records_made_from_copies_do_not_move_the_offsets_of_groups(west: Cluster) -> None:
    topic = west.topic()
    headers = ["S:0:10", f"S:0:11:orders:{topic}", "S:0:90:orders:elsewhere", f"S:0:12:orders:{topic}"]
    west.write(topic, [Record(None, b"x", ((HEADER, text.encode()),), _TIME_MS) for text in headers])
    found = [target_offset(west.client, (topic, 0), "S", 0, wanted) for wanted in (10, 11, 12, 13)]
    assert found == [0, 1, 3, 4]


@pytest.mark.parametrize(
    ("headers", "topic", "wanted"),
    [
        (None, "t", None),
        ([], "t", False),
        (["A:0:1:t:t"], "t", True),
        (["A:0:1:t:A.t"], "A.t", True),
        (["A:0:1:t:t"], "derived", False),
        (["AB:0:1:t:t"], "t", False),
        # By way of another cluster.
        (["A:0:1:t:A.t", "C:0:1:A.t:C.A.t"], "C.A.t", True),
        (["A:0:1:t:A.t", "C:0:1:derived:C.derived"], "C.derived", False),
        (["A:0:1:t:t", "A:0:9:derived:derived"], "derived", True),
        # Headers of 0.1.0, and one that is no text.
        (["A:0:1"], "derived", True),
        (["A:0:1", "C:0:1:t:t"], "t", True),
        (["A:0:1:t:t", "C:0:1"], "t", True),
        (["A:0:1", "C:0:1:t:t"], "derived", False),
        ([None], "t", False),
    ],
)
def test_only_copies_are_returns(spark: Any, headers: list[str | None] | None, topic: str, wanted: bool | None) -> None:
    given = None if headers is None else [(HEADER, text and text.encode()) for text in headers]
    frame = spark.createDataFrame([(given, topic)], "headers array<struct<key: string, value: binary>>, topic string")
    assert frame.select(is_return(f.col("headers"), f.col("topic"), "A")).first()[0] is wanted
