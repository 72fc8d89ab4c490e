"""A batch that Spark repeats after a kill has the same rows in the same slots. The readers are called directly, as
Spark calls them: each new reader is a restart of the query, which knows only the journal."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from headrace.pipelines.errors import DataLossError
from headrace.pipelines.lite.topic_rows import TopicRows, plain_columns, plain_row
from headrace.pipelines.options import SourceOptions
from headrace.pipelines.source.reader import HeadraceStreamReader, RangePartition
from headrace.pipelines.spark.running_batch import RunningBatch
from tests.pipelines.conftest import Cluster, records
from tests.support.names import unique

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
    assert all(first == last for *_, first, last in slots(reader, reader.initialOffset(), end))
    assert slots(reader, end, reader.latestOffset(end, ALL)) == [(topic, 0, 10, 16)]

    # Killed in batch 0.
    reader = reader_of(headrace, topic, **given)
    assert all(first == last for *_, first, last in slots(reader, reader.initialOffset(), end))
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


def lite_slots(cluster: Cluster, start: dict[str, Any] | None, end: dict[str, Any], **options: str) -> list[list[int]]:
    """The offsets that a connector without Spark reads in each slot of a batch that Spark has begun."""
    rows = TopicRows(SourceOptions.parse(cluster.options(**options), streaming=True), plain_columns(), plain_row)
    try:
        begun = rows.initial() if start is None else start
        readers = rows.slots(begun, end, RunningBatch(unique("query"), 0))
        return [[int(str(row["offset"])) for row in read()] for read in readers]
    finally:
        rows.close()


def three_topics(cluster: Cluster) -> tuple[list[str], str]:
    """Three topics with four records each, and a pattern for them."""
    topics = [cluster.topic() for _ in range(3)]
    for topic in topics:
        cluster.write(topic, records(4))
    return topics, "|".join(topics)


def test_topic_that_a_stream_meets_has_its_start_in_the_journal(headrace: Cluster) -> None:
    (one, two, three), pattern = three_topics(headrace)
    given = {"subscribePattern": pattern, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "8"}
    reader = reader_of(headrace, one, **given)
    limit = reader.getDefaultReadLimit()
    start = {one: {"0": 0}, three: {"0": 0}}
    middle = reader.latestOffset(start, limit)
    assert middle == {one: {"0": 4}, two: {"0": 0}, three: {"0": 4}}
    planned = slots(reader, start, middle)
    assert planned == [(one, 0, 0, 4), (three, 0, 0, 4)]
    end = reader.latestOffset(middle, limit)
    assert slots(reader, middle, end) == [(two, 0, 0, 4)]

    headrace.delete_records(two, 0, 4)
    assert slots(reader_of(headrace, one, **given), start, middle) == planned
    assert slots(reader_of(headrace, one, **given), middle, end) == [(two, 0, 0, 4)]


def test_topic_that_appears_before_the_last_batch_of_available_now_is_read(headrace: Cluster) -> None:
    (one, two, three), pattern = three_topics(headrace)
    reader = reader_of(headrace, one, subscribePattern=pattern)
    limit = reader.getDefaultReadLimit()
    reader.prepareForTriggerAvailableNow()
    taken = [{one: {"0": 4}, two: {"0": 1}}]
    while (until := reader.latestOffset(taken[-1], limit)) != taken[-1]:
        reader.partitions(taken[-1], until)
        taken.append(until)
    assert taken[1:] == [{one: {"0": 4}, two: {"0": 4}, three: {"0": n}} for n in (0, 4)]


def test_lite_enters_a_new_topic_as_spark_does(headrace: Cluster) -> None:
    (one, two, three), pattern = three_topics(headrace)
    options = SourceOptions.parse(headrace.options(subscribePattern=pattern), streaming=True)
    rows = TopicRows(options, plain_columns(), plain_row)
    try:
        middle = rows.latest({one: {"0": 0}, three: {"0": 2}}, rows.end())
        assert middle == {one: {"0": 4}, two: {"0": 0}, three: {"0": 4}}
        assert rows.latest(middle, rows.end()) == {one: {"0": 4}, two: {"0": 4}, three: {"0": 4}}
    finally:
        rows.close()


def test_first_batch_keeps_its_slots_if_retention_empties_a_partition(headrace: Cluster) -> None:
    (one, two, three), pattern = three_topics(headrace)
    given = {"subscribePattern": pattern, "startingOffsets": "earliest"}
    reader = reader_of(headrace, one, **given)
    end = first_batch(reader)
    assert slots(reader, reader.initialOffset(), end) == [(one, 0, 0, 4), (two, 0, 0, 4), (three, 0, 0, 4)]
    headrace.delete_records(two, 0, 4)
    headrace.delete_records(three, 0, 1)
    repeated = reader_of(headrace, one, **given)
    assert slots(repeated, repeated.initialOffset(), end) == [(one, 0, 0, 4), (two, 0, 4, 4), (three, 0, 1, 4)]
    assert lite_slots(headrace, None, end, **given) == [[0, 1, 2, 3], [], [1, 2, 3]]


@pytest.mark.parametrize("split", ["minPartitions", "maxRecordsPerPartition"])
def test_split_ranges_keep_their_slots_if_retention_removes_records(headrace: Cluster, split: str) -> None:
    topic = headrace.topic()
    headrace.write(topic, records(9))
    given = {"startingOffsets": "earliest", split: "3"}
    reader = reader_of(headrace, topic, **given)
    middle = first_batch(reader)
    first = slots(reader, reader.initialOffset(), middle)
    end = reader.latestOffset(middle, ALL)
    second = slots(reader, middle, end)
    assert [*first, *second] == [(topic, 0, 0, 3), (topic, 0, 3, 6), (topic, 0, 6, 9)]
    headrace.delete_records(topic, 0, 2)
    repeated = reader_of(headrace, topic, **given)
    assert slots(repeated, repeated.initialOffset(), middle) == first
    assert slots(reader_of(headrace, topic, **given), middle, end) == second


def test_partition_without_records_takes_no_slot(headrace: Cluster) -> None:
    topic = headrace.topic(3)
    headrace.write(topic, records(4), partition=1)
    reader = reader_of(headrace, topic, startingOffsets="earliest")
    end = first_batch(reader)
    assert slots(reader, reader.initialOffset(), end) == [(topic, 1, 0, 4)]


def test_topic_that_became_shorter_has_the_same_slots_in_a_repeated_batch(headrace: Cluster) -> None:
    topic = headrace.topic(2)
    for partition in range(2):
        headrace.write(topic, records(4), partition=partition)
    given = {"startingOffsets": "earliest", "failOnDataLoss": "false"}
    start, end = {topic: {"0": 9, "1": 1}}, {topic: {"0": 4, "1": 4}}
    assert slots(reader_of(headrace, topic, **given), start, end) == [(topic, 0, 0, 4), (topic, 1, 1, 4)]
    headrace.delete_records(topic, 0, 4)
    assert slots(reader_of(headrace, topic, **given), start, end) == [(topic, 0, 4, 4), (topic, 1, 1, 4)]
    assert lite_slots(headrace, start, end, subscribe=topic) == [[], [1, 2, 3]]


def test_lite_counts_the_records_of_a_log_that_became_shorter_as_spark_does(headrace: Cluster) -> None:
    topic = headrace.topic()
    headrace.write(topic, records(10))
    given = {"subscribe": topic, "kafkaConsumer.pollTimeoutMs": "300"}
    end = {topic: {"0": 15}}
    for first, left in ((6, [6, 7, 8, 9]), (12, [])):
        start = {topic: {"0": first}}
        assert lite_slots(headrace, start, end, failOnDataLoss="false", **given) == [left]
        with pytest.raises(DataLossError, match=f"{topic}-0 now ends at 10; set failOnDataLoss=false"):
            lite_slots(headrace, start, end, **given)
