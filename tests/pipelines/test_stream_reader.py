"""What the stream reader answers Spark, asked directly: limits, new partitions, records and topics that are gone."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows

from headrace.pipelines.errors import DataLossError, PipelineError
from headrace.pipelines.options import SourceOptions
from headrace.pipelines.planning import Planner
from headrace.pipelines.source import HeadraceStreamReader, Position, RangePartition
from tests.pipelines.conftest import Cluster, records


def reader_of(
    cluster: Cluster, topic: str, clock: Callable[[], float] = time.monotonic, **options: str
) -> HeadraceStreamReader:
    given = cluster.options(subscribe=topic, startingOffsets="earliest", **options)
    return HeadraceStreamReader(SourceOptions.parse(given, streaming=True), clock)


def ends(offset: dict[str, Any], topic: str) -> dict[str, int]:
    return dict(offset[topic])


def ranges(reader: HeadraceStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[int, int, int]]:
    parts = reader.partitions(start, end)
    assert all(isinstance(part, RangePartition) for part in parts)
    return [(part.partition, part.start, part.end) for part in parts]


def create_again(cluster: Cluster, topic: str) -> None:
    cluster.delete_topic(topic)
    while topic in cluster.client.topics([topic]):
        pass
    cluster.client.create_topic(topic, 1)


def test_a_batch_waits_for_enough_records_but_not_for_ever(headrace: Cluster) -> None:
    topic = headrace.topic()
    headrace.write(topic, records(3))
    seconds = itertools.count(1000.0, 10.0)
    reader = reader_of(headrace, topic, minOffsetsPerTrigger="10", maxTriggerDelay="30s", clock=lambda: next(seconds))
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMinRows(10)
    first = reader.latestOffset(reader.initialOffset(), limit)
    # As in Spark's connector the first batch is taken as it is.
    assert ends(first, topic) == {"0": 3}
    headrace.write(topic, records(4, start=3))
    assert reader.latestOffset(first, limit) == first
    headrace.write(topic, records(6, start=7))
    second = reader.latestOffset(first, limit)
    assert ends(second, topic) == {"0": 13}
    headrace.write(topic, records(1, start=13))
    answers = [ends(reader.latestOffset(second, limit), topic)["0"] for _ in range(3)]
    assert answers == [13, 13, 14]


def test_least_and_most_go_together(headrace: Cluster) -> None:
    topic = headrace.topic(2)
    for partition in range(2):
        headrace.write(topic, records(50), partition=partition)
    reader = reader_of(headrace, topic, minOffsetsPerTrigger="10", maxOffsetsPerTrigger="30")
    limit: ReadLimit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(30)
    at = reader.initialOffset()
    taken = []
    while (until := reader.latestOffset(at, limit)) != at:
        taken.append(sum(ends(until, topic).values()) - sum(ends(at, topic).values()))
        at = until
    assert taken == [30, 30, 30, 10]


def test_pieces_are_cut_by_records_and_by_count(headrace: Cluster) -> None:
    topic = headrace.topic()
    headrace.write(topic, records(10))
    reader = reader_of(headrace, topic, maxRecordsPerPartition="4")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert ranges(reader, start, end) == [(0, 0, 3), (0, 3, 6), (0, 6, 10)]
    assert len(ranges(reader_of(headrace, topic, minPartitions="5"), start, end)) == 5


def test_a_partition_added_while_the_stream_runs_is_read_from_its_beginning(headrace: Cluster) -> None:
    topic = headrace.topic()
    headrace.write(topic, records(5))
    reader = reader_of(headrace, topic)
    start = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    body = {"topics": [{"name": topic, "count": 2, "assignments": None}], "timeout": 10_000, "validate_only": False}
    headrace.client.refresh()
    headrace.client.broker(headrace.client._map.controller).call("create_partitions", body)
    headrace.client.retrying("grow", lambda: headrace.client.refresh([topic]) and headrace.client.leader_of((topic, 1)))
    headrace.write(topic, records(2), partition=1)
    end = reader.latestOffset(start, ReadAllAvailable())
    assert ranges(reader, start, end) == [(1, 0, 2)]
    assert reader.reportLatestOffset() == {topic: {"0": 5, "1": 2}}


def test_what_retention_took_is_an_error_or_a_count(headrace: Cluster) -> None:
    topic = headrace.topic()
    headrace.write(topic, records(10))
    strict, lenient = reader_of(headrace, topic), reader_of(headrace, topic, failOnDataLoss="false")
    start = {topic: {"0": 2}}
    headrace.delete_records(topic, 0, 7)
    with pytest.raises(
        DataLossError, match=f"{topic}-0 begins at 7 and has lost 5 records from 2 on; set failOnDataLoss"
    ):
        strict.latestOffset(start, ReadAllAvailable())
    end = lenient.latestOffset(start, ReadAllAvailable())
    assert Position.from_json(end).missed == {(topic, 0): 5}
    assert ranges(lenient, start, end) == [(0, 7, 10)]


def test_a_topic_created_again_is_an_error_or_read_from_its_beginning(headrace: Cluster) -> None:
    topic = headrace.topic()
    headrace.write(topic, records(3))
    strict, lenient = reader_of(headrace, topic), reader_of(headrace, topic, failOnDataLoss="false")
    start = strict.latestOffset(strict.initialOffset(), ReadAllAvailable())
    create_again(headrace, topic)
    headrace.write(topic, records(9))
    with pytest.raises(DataLossError, match="was deleted and created again"):
        strict.latestOffset(start, ReadAllAvailable())
    end = lenient.latestOffset(start, ReadAllAvailable())
    assert ranges(lenient, start, end) == [(0, 0, 9)]


def test_a_time_after_the_last_record_is_refused_or_the_end(headrace: Cluster) -> None:
    topic = headrace.topic()
    headrace.write(topic, records(4))
    late = {"startingOffsetsByTimestamp": f'{{"{topic}":{{"0":9999999999999}}}}'}
    with pytest.raises(PipelineError, match="holds no record at or after 9999999999999 ms: choose an earlier time, or"):
        reader_of(headrace, topic, **late).initialOffset()  # type: ignore[arg-type]
    at_end = reader_of(headrace, topic, **late, startingOffsetsByTimestampStrategy="latest").initialOffset()  # type: ignore[arg-type]
    assert ends(at_end, topic) == {"0": 4}


def test_a_checkpoint_of_another_source_is_refused() -> None:
    for other in ({"logOffset": 3}, {"t": [1, 2]}, {"t": {"0": "x"}}):
        with pytest.raises(PipelineError, match="belongs to a query of another format; use a new checkpointLocation"):
            Position.from_json(other)


def test_assigned_partitions_must_exist(headrace: Cluster) -> None:
    topic = headrace.topic()
    options = SourceOptions.parse(headrace.options(assign=f'{{"{topic}":[0,7]}}'), streaming=True)
    with pytest.raises(PipelineError, match=f"assign: partition {topic}-7 does not exist"):
        Planner(options, headrace.client).find()
