"""The stream reader, called directly instead of by Spark: limits, new partitions, deleted records and topics."""

from __future__ import annotations

import itertools
import json
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows

from headrace.client.blocking.client import BlockingClient
from headrace.client.blocking.produce import Transaction
from headrace.kernel.errors import ErrorCode, Refused
from headrace.pipelines.errors import DataLossError, PipelineError
from headrace.pipelines.flows.reset import reset
from headrace.pipelines.flows.spec import load_spec
from headrace.pipelines.options import SourceOptions
from headrace.pipelines.source.planning import Planner
from headrace.pipelines.source.reader import HeadraceStreamReader, Position, RangePartition, read_range
from headrace.pipelines.source.stream_state import NOTES_TOPIC, StreamNotes
from headrace.pipelines.spark import worker_clients
from headrace.pipelines.spark.running_batch import RunningBatch
from headrace.testing import broker
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


def read_by_tasks(
    reader: HeadraceStreamReader, start: dict[str, Any], end: dict[str, Any], batch: RunningBatch
) -> list[int]:
    """The offsets that the tasks of the batch read."""
    rows = (row for part in reader.partitions(start, end) for row in read_range(reader.options, part, batch))
    return [offset for row in rows for offset in row.column("offset").to_pylist()]


def create_again(cluster: Cluster, topic: str, partitions: int = 1) -> None:
    cluster.delete_topic(topic)
    while topic in cluster.client.topics([topic]):
        pass
    cluster.client.create_topic(topic, partitions)


def test_batch_waits_for_min_offsets_up_to_the_trigger_delay(headrace: Cluster) -> None:
    topic = headrace.topic()
    headrace.write(topic, records(3))
    seconds = itertools.count(1000.0, 10.0)
    reader = reader_of(headrace, topic, minOffsetsPerTrigger="10", maxTriggerDelay="30s", clock=lambda: next(seconds))
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMinRows(10)
    first = reader.latestOffset(reader.initialOffset(), limit)
    # As in Spark's connector, the first batch does not wait.
    assert ends(first, topic) == {"0": 3}
    headrace.write(topic, records(4, start=3))
    assert reader.latestOffset(first, limit) == first
    headrace.write(topic, records(6, start=7))
    second = reader.latestOffset(first, limit)
    assert ends(second, topic) == {"0": 13}
    headrace.write(topic, records(1, start=13))
    answers = [ends(reader.latestOffset(second, limit), topic)["0"] for _ in range(3)]
    assert answers == [13, 13, 14]


def test_min_and_max_offsets_work_together(headrace: Cluster) -> None:
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


def test_ranges_are_split_by_records_and_by_count(headrace: Cluster) -> None:
    topic = headrace.topic()
    headrace.write(topic, records(10))
    reader = reader_of(headrace, topic, maxRecordsPerPartition="4")
    # The journal gets its start first.
    start = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
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
    # The journal gets its start first.
    middle = reader.latestOffset(start, ReadAllAvailable())
    assert middle == {topic: {"0": 5, "1": 0}}
    assert ranges(reader, start, middle) == []
    end = reader.latestOffset(middle, ReadAllAvailable())
    assert ranges(reader, middle, end) == [(1, 0, 2)]
    assert reader.reportLatestOffset() == {topic: {"0": 5, "1": 2}}


def test_records_deleted_by_retention_are_an_error_or_counted(headrace: Cluster) -> None:
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
    assert end == {topic: {"0": 10}}
    batch = RunningBatch(uuid.uuid4().hex, 3)
    # A repeated batch counts once.
    for _ in range(2):
        assert read_by_tasks(lenient, start, end, batch) == [7, 8, 9]
    assert StreamNotes(headrace.client).missed(batch.query_id) == 5


@pytest.mark.parametrize("code", ["NOT_LEADER_OR_FOLLOWER", "KAFKA_STORAGE_ERROR"])
def test_records_of_a_leader_that_does_not_serve_are_never_skipped(code: str) -> None:
    with broker() as running, BlockingClient(running.bootstrap) as client:
        client.create_topic("t", 1)
        cluster = Cluster("headrace", running.bootstrap, client)
        cluster.write("t", records(10))
        patience = {"failOnDataLoss": "false", "kafkaConsumer.pollTimeoutMs": "300"}
        reader = reader_of(cluster, "t", **patience)  # type: ignore[arg-type]
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        running.fail("Fetch", error=code, times=None, topic="t")
        with pytest.raises(PipelineError, match=r"nothing readable at offset 0 .* No record is lost: start the query"):
            read_by_tasks(reader, start, end, RunningBatch("q", 0))
        running.heal()
        assert read_by_tasks(reader, start, end, RunningBatch("q", 0)) == list(range(10))


def test_records_after_the_end_of_a_log_that_became_shorter_are_an_error_or_counted(
    headrace: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = headrace.topic()
    headrace.write(topic, records(10))
    start, planned = {topic: {"0": 6}}, {topic: {"0": 12}}
    batch = RunningBatch(uuid.uuid4().hex, 3)
    patience = {"kafkaConsumer.pollTimeoutMs": "300"}
    lenient = reader_of(headrace, topic, failOnDataLoss="false", **patience)  # type: ignore[arg-type]
    assert read_by_tasks(lenient, start, planned, batch) == [6, 7, 8, 9]
    assert StreamNotes(headrace.client).missed(batch.query_id) == 2
    assert f"{topic}-0: lost 2 records from offset 10 to 12" in capsys.readouterr().err
    strict = reader_of(headrace, topic, **patience)  # type: ignore[arg-type]
    with pytest.raises(DataLossError, match=f"{topic}-0 now ends at 10; set failOnDataLoss=false"):
        read_by_tasks(strict, start, planned, batch)
    # The tasks whose ranges are behind its end find no place to begin.
    many = {**patience, "minPartitions": "3"}
    lenient = reader_of(headrace, topic, failOnDataLoss="false", **many)  # type: ignore[arg-type]
    batch = RunningBatch(uuid.uuid4().hex, 3)
    assert read_by_tasks(lenient, start, {topic: {"0": 15}}, batch) == [6, 7, 8, 9]
    assert StreamNotes(headrace.client).missed(batch.query_id) == 5


def test_topic_recreated_while_the_query_runs_is_an_error(headrace: Cluster) -> None:
    topic = headrace.topic()
    headrace.write(topic, records(3))
    reader = reader_of(headrace, topic)
    start = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    create_again(headrace, topic)
    headrace.write(topic, records(9))
    with pytest.raises(DataLossError, match="was deleted and created again"):
        reader.latestOffset(start, ReadAllAvailable())


def test_topic_recreated_while_the_query_is_stopped_is_an_error_or_read_from_its_beginning(
    cluster: Cluster,
) -> None:
    topic = cluster.topic()
    cluster.write(topic, records(3))
    query = uuid.uuid4().hex
    first = reader_of(cluster, topic)
    initial = first.initialOffset()
    start = first.latestOffset(initial, ReadAllAvailable())
    assert read_by_tasks(first, initial, start, RunningBatch(query, 0)) == [0, 1, 2]
    create_again(cluster, topic)
    cluster.write(topic, records(9))

    # Each reader is a restart of the query. It knows only the checkpoint and the notes.
    strict = reader_of(cluster, topic)
    end = strict.latestOffset(start, ReadAllAvailable())
    for _ in range(2):
        worker_clients._notes.clear()
        with pytest.raises(DataLossError, match=f"topic '{topic}' was deleted and created again"):
            read_by_tasks(strict, start, end, RunningBatch(query, 1))
    lenient = reader_of(cluster, topic, failOnDataLoss="false")
    assert lenient.latestOffset(start, ReadAllAvailable()) == end
    for _ in range(2):
        # Spark repeats the batch in another worker.
        worker_clients._notes.clear()
        assert read_by_tasks(lenient, start, end, RunningBatch(query, 1)) == list(range(9))
    cluster.write(topic, records(2))
    later = lenient.latestOffset(end, ReadAllAvailable())
    assert read_by_tasks(lenient, end, later, RunningBatch(query, 2)) == [9, 10]
    strict = reader_of(cluster, topic)
    assert read_by_tasks(strict, end, later, RunningBatch(query, 2)) == [9, 10]


def test_recreated_topic_is_detected_in_a_partition_that_was_never_read(headrace: Cluster) -> None:
    topic = headrace.topic(2)
    headrace.write(topic, records(3))
    query = uuid.uuid4().hex
    reader = reader_of(headrace, topic)
    initial = reader.initialOffset()
    start = reader.latestOffset(initial, ReadAllAvailable())
    read_by_tasks(reader, initial, start, RunningBatch(query, 0))
    create_again(headrace, topic, partitions=2)
    headrace.write(topic, records(5), partition=1)
    headrace.write(topic, records(3))
    strict = reader_of(headrace, topic)
    end = strict.latestOffset(start, ReadAllAvailable())
    assert ranges(strict, start, end) == [(1, 0, 5)]
    with pytest.raises(DataLossError, match="was deleted and created again"):
        read_by_tasks(strict, start, end, RunningBatch(query, 1))


def test_a_topic_that_became_shorter_is_read_from_its_beginning_without_fail_on_data_loss(headrace: Cluster) -> None:
    topic = headrace.topic()
    headrace.write(topic, records(9))
    query = uuid.uuid4().hex
    reader = reader_of(headrace, topic, failOnDataLoss="false")
    initial = reader.initialOffset()
    start = reader.latestOffset(initial, ReadAllAvailable())
    read_by_tasks(reader, initial, start, RunningBatch(query, 0))
    create_again(headrace, topic)
    headrace.write(topic, records(4))
    with pytest.raises(DataLossError, match=f"{topic}-0 ends at 4, before the query's offset 9"):
        reader_of(headrace, topic).latestOffset(start, ReadAllAvailable())
    end = reader.latestOffset(start, ReadAllAvailable())
    assert end == {topic: {"0": 4}}
    assert read_by_tasks(reader, start, end, RunningBatch(query, 1)) == [0, 1, 2, 3]


def test_flow_that_is_reset_to_latest_while_a_transaction_is_open_continues_after_the_committed_records(
    headrace: Cluster, tmp_path: Path
) -> None:
    topic = headrace.topic()
    headrace.write(topic, records(10))
    journal = tmp_path / "storage" / "checkpoints" / "copied" / "offsets"
    journal.mkdir(parents=True)
    (journal / "0").write_text(f'v1\n{{}}\n{{"{topic}":{{"0":4}}}}')

    def reset_to(where: str, level: str | None = None) -> object:
        levels = {} if level is None else {"headrace.kafka.isolation.level": level}
        configuration = {"headrace.bootstrap.servers": headrace.bootstrap, **levels}
        storage = (tmp_path / "storage").as_uri()
        spec = {"name": "p", "storage": storage, "configuration": configuration, "libraries": []}
        (tmp_path / "spark-pipeline.yml").write_text(json.dumps(spec))
        (offsets,) = reset(load_spec(tmp_path), where, flow=None, bootstrap=None)["copied"] or []
        return offsets

    transaction = Transaction(headrace.client, uuid.uuid4().hex, timeout_ms=60_000)
    transaction.begin()
    headrace.write(topic, records(2), transaction=transaction)
    start = {topic: {"0": 10}}
    assert reset_to("latest") == reset_to("9999999999999") == start
    assert reset_to("latest", "read_uncommitted") == {topic: {"0": 12}}
    reader = reader_of(headrace, topic, failOnDataLoss="false")
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    transaction.commit()
    headrace.write(topic, records(1))
    end = reader_of(headrace, topic).latestOffset(start, ReadAllAvailable())
    assert read_by_tasks(reader, start, end, RunningBatch(uuid.uuid4().hex, 1)) == [10, 11, 13]


def test_checkpoint_of_an_earlier_version_continues_and_its_topic_ids_are_used(headrace: Cluster) -> None:
    topic = headrace.topic()
    headrace.write(topic, records(5))
    (now,) = Planner(reader_of(headrace, topic).options, headrace.client).find().topic_ids.values()
    same = {topic: {"0": 2}, "#ids": {topic: now}, "#missed": {topic: {"0": 1}}}
    reader = reader_of(headrace, topic)
    end = reader.latestOffset(same, ReadAllAvailable())
    assert end == {topic: {"0": 5}}
    assert ranges(reader, same, end) == [(0, 2, 5)]

    other = {topic: {"0": 2}, "#ids": {topic: "AAAAAAAAAAAAAAAAAAAAAQ"}}
    with pytest.raises(DataLossError, match="was deleted and created again"):
        reader_of(headrace, topic).latestOffset(other, ReadAllAvailable())
    with pytest.raises(DataLossError, match="was deleted and created again"):
        reader_of(headrace, topic).partitions(other, end)
    lenient = reader_of(headrace, topic, failOnDataLoss="false")
    assert lenient.latestOffset(other, ReadAllAvailable()) == end
    assert ranges(lenient, other, end) == [(0, 0, 5)]


def test_stream_continues_if_notes_cannot_be_written(
    headrace: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = headrace.topic()
    headrace.write(topic, records(3))
    refused = Refused(ErrorCode.topic_authorization_failed, "no right to describe it")

    def refuse(*_: object) -> None:
        raise refused

    monkeypatch.setattr(StreamNotes, "_read_new", refuse)
    monkeypatch.setattr(StreamNotes, "_write", refuse)
    worker_clients._notes.clear()
    reader = reader_of(headrace, topic)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    for batch in range(2):
        assert read_by_tasks(reader, start, end, RunningBatch("query", batch)) == [0, 1, 2]
    assert capsys.readouterr().err.count("__streams cannot be used (no right to describe it)") == 1
    worker_clients._notes.clear()


def test_pattern_does_not_match_internal_topics_of_streams(headrace: Cluster) -> None:
    topic = headrace.topic()
    for own in (NOTES_TOPIC, "__pipelines", "__pipeline_commands"):
        if own not in headrace.client.topics([own]):  # the pipelines of other tests use the same brokers
            headrace.client.create_topic(own, 1)
    options = SourceOptions.parse(headrace.options(subscribePattern=f"__.*|{topic}"), streaming=True)
    assert Planner(options, headrace.client).find().partitions == ((topic, 0),)


def test_time_after_the_last_record_is_refused_or_means_the_end(headrace: Cluster) -> None:
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
