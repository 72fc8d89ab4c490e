"""A batch that Spark repeats after a kill has the same rows in the same slots. The readers are called directly, as
Spark calls them: each new reader is a restart of the query, which knows only the journal."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from headrace.pipelines.options import SourceOptions
from headrace.pipelines.source.reader import HeadraceStreamReader, RangePartition
from tests.pipelines.conftest import Cluster, records

ALL = ReadAllAvailable()


def reader_of(cluster: Cluster, topic: str, **options: str) -> HeadraceStreamReader:
    which = {} if "subscribePattern" in options else {"subscribe": topic}
    return HeadraceStreamReader(SourceOptions.parse(cluster.options(**which, **options), streaming=True))


def slots(reader: HeadraceStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[str, int, int, int]]:
    parts = reader.partitions(start, end)
    assert all(isinstance(part, RangePartition) for part in parts)
    return [(part.topic, part.partition, part.start, part.end) for part in parts]


def first_batch(reader: HeadraceStreamReader) -> dict[str, Any]:
    """As Spark begins a query: it asks for the initial offset again when it plans the batch."""
    end: dict[str, Any] = reader.latestOffset(reader.initialOffset(), ALL)
    reader.partitions(reader.initialOffset(), end)
    return end


AT_END = [
    pytest.param({}, id="default"),
    pytest.param({"startingOffsets": '{"TOPIC":{"0":-1}}'}, id="json"),
    pytest.param(
        {"startingTimestamp": "9999999999999", "startingOffsetsByTimestampStrategy": "latest"}, id="timestamp"
    ),
]


@pytest.mark.parametrize("options", AT_END)
def test_stream_that_starts_at_the_end_keeps_its_start_if_its_first_batch_is_repeated(
    headrace: Cluster, options: dict[str, str]
) -> None:
    topic = headrace.topic()
    given = {name: text.replace("TOPIC", topic) for name, text in options.items()}
    headrace.write(topic, records(10))
    reader = reader_of(headrace, topic, **given)
    initial = reader.initialOffset()
    headrace.write(topic, records(1))
    end = reader.latestOffset(initial, ALL)
    assert end == initial == {topic: {"0": 10}}
    # The progress event shows the lag.
    assert reader.reportLatestOffset() == {topic: {"0": 11}}
    headrace.write(topic, records(5))
    assert slots(reader, reader.initialOffset(), end) == []
    assert slots(reader, end, reader.latestOffset(end, ALL)) == [(topic, 0, 10, 16)]

    # Killed in batch 0.
    reader = reader_of(headrace, topic, **given)
    assert slots(reader, reader.initialOffset(), end) == []
    assert slots(reader, end, reader.latestOffset(end, ALL)) == [(topic, 0, 10, 16)]


def test_first_batch_of_the_release_before_is_not_read_from_the_beginning_of_the_topic(headrace: Cluster) -> None:
    topic = headrace.topic()
    headrace.write(topic, records(16))
    reader = reader_of(headrace, topic)
    assert slots(reader, reader.initialOffset(), {topic: {"0": 11}}) == []


def test_stream_that_starts_at_the_end_ends_with_available_now(headrace: Cluster) -> None:
    topic = headrace.topic()
    headrace.write(topic, records(10))
    reader = reader_of(headrace, topic, maxOffsetsPerTrigger="3")
    limit = reader.getDefaultReadLimit()
    reader.prepareForTriggerAvailableNow()
    headrace.write(topic, records(2))
    initial = reader.initialOffset()
    headrace.write(topic, records(2))
    end = reader.latestOffset(initial, limit)
    reader.partitions(reader.initialOffset(), end)
    assert end == {topic: {"0": 12}}
    assert reader.latestOffset(end, limit) == end

    reader = reader_of(headrace, topic, maxOffsetsPerTrigger="3")
    reader.prepareForTriggerAvailableNow()
    taken = [end]
    while (until := reader.latestOffset(taken[-1], limit)) != taken[-1]:
        reader.partitions(taken[-1], until)
        taken.append(until)
    assert taken == [{topic: {"0": 12}}, {topic: {"0": 14}}]


def test_first_batch_reads_the_partitions_with_explicit_offsets(headrace: Cluster) -> None:
    topic = headrace.topic(3)
    for partition in range(3):
        headrace.write(topic, records(8), partition=partition)
    starts = f'{{"{topic}":{{"0":-1,"1":3,"2":-2}}}}'
    reader = reader_of(headrace, topic, startingOffsets=starts, maxOffsetsPerTrigger="26")
    limit = reader.getDefaultReadLimit()
    initial = reader.initialOffset()
    headrace.write(topic, records(50))
    end = reader.latestOffset(initial, limit)
    # Rows that wait do not count for the limit.
    assert end == {topic: {"0": 8, "1": 8, "2": 8}}
    assert slots(reader, reader.initialOffset(), end) == [(topic, 1, 3, 8), (topic, 2, 0, 8)]
    assert reader.latestOffset(end, limit) == {topic: {"0": 34, "1": 8, "2": 8}}
