"""`orders` is the table up to its offsets and the topic from exactly there: every record once."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from headrace.pipelines.datasource import HeadraceDataSource
from headrace.pipelines.errors import DataLossError, OptionError
from headrace.tables.definitions import Definitions, first_offsets, topic_metadata
from headrace.tables.formats.table_log import TableLog
from headrace.tables.lake_table import APPEND, DELTA, FORMATS, ICEBERG, PARQUET, UPSERT, LakeTable
from headrace.tables.relations.topic_relation import kafka_schema
from headrace.tables.relations.topic_scan import client_of
from headrace.tables.sql_errors import SqlError
from headrace.tables.sql_session import SqlSession
from headrace.tables.table_logs import log_of
from tests.support.effort import is_long
from tests.tables import copy_job
from tests.tables.conftest import Brokers, orders

SCHEMA = kafka_schema(binary=True)


def create(brokers: Brokers, directory: Path, topic: str, form: str = DELTA, mode: str = APPEND) -> TableLog:
    found = topic_metadata(brokers.client, topic)
    catalog = f"sqlite:///{directory}/catalog.db" if form == ICEBERG else ""
    table = LakeTable(
        topic, str(found.topic_id), str(directory / "lake" / topic), mode=mode, format=form, catalog=catalog
    )
    starts = first_offsets(brokers.client, found, "all", None)
    Definitions(directory / "tables").add(table, brokers.bootstrap)
    log_of(table).create(SCHEMA, [], starts)
    return log_of(table)


def copy(brokers: Brokers, directory: Path, topic: str) -> None:
    copy_job.copy(brokers.cluster, Definitions(directory / "tables").of(topic).table)


def rows(session: SqlSession, relation: str) -> list[tuple[object, ...]]:
    answer = session.query(f'SELECT partition, "offset", key, value FROM {relation} ORDER BY ALL')
    assert answer is not None
    return [tuple(row.values()) for row in answer.read().rows()]


@pytest.mark.parametrize("form", FORMATS)
def test_every_record_once_whatever_the_table_holds(brokers: Brokers, tmp_path: Path, form: str) -> None:
    topic = brokers.topic(2)
    log = create(brokers, tmp_path, topic, form)
    expected: dict[tuple[int, int], tuple[object, ...]] = {}
    independent: list[tuple[int, int, bytes | None, bytes | None]] = []
    chance = random.Random(7)
    with SqlSession(brokers.cluster, binary=True, tables=tmp_path / "tables") as session:
        steps = ["write", "copy", "retention", "transaction", "copy", "compact", "write"]
        if is_long():
            steps += chance.choices(["write", "transaction", "copy", "compact", "retention"], k=40)
        for number, step in enumerate(steps):
            partition = chance.randrange(2)
            match step:
                case "write":
                    brokers.write(topic, orders(chance.randrange(1, 20)), partition=partition)
                case "transaction":
                    brokers.write_transaction(topic, orders(5), partition=partition, commit=number % 2 == 0)
                case "copy":
                    copy(brokers, tmp_path, topic)
                case "compact":
                    log.compact(1 << 20, 0)
                case "retention":
                    # Never beyond what the table holds.
                    held = log.offsets()[partition]
                    if held:
                        brokers.delete_records(topic, chance.randrange(held) + 1, partition=partition)
            if step not in ("copy", "compact"):
                independent = brokers.independent_read(topic)
                expected |= {row[:2]: row for row in independent}
            assert rows(session, topic) == [expected[place] for place in sorted(expected)]
            live = rows(session, f"{topic}.live")
            assert live == independent
            held_rows = rows(session, f"{topic}.history")
            assert {row[:2] for row in held_rows} | {row[:2] for row in live} == set(expected)


@pytest.mark.parametrize("form", FORMATS)
def test_a_running_writer_and_compaction_do_not_move_the_seam(brokers: Brokers, tmp_path: Path, form: str) -> None:
    topic = brokers.topic(1)
    log = create(brokers, tmp_path, topic, form)
    stop = threading.Event()
    other = Brokers(brokers.bootstrap, client_of(brokers.cluster))

    def work() -> None:
        # A run commits at its trigger. Without a pause the compaction of a slow machine would never find its place.
        while not stop.wait(0.1):
            other.write(topic, orders(50))
            copy(other, tmp_path, topic)

    writer = threading.Thread(target=work)
    writer.start()
    try:
        with SqlSession(brokers.cluster, tables=tmp_path / "tables") as session:
            for number in range(10):
                if number % 4 == 3:
                    log.compact(1 << 20, 1)
                found = [row[1] for row in rows(session, topic)]
                assert found == list(range(len(found)))
    finally:
        stop.set()
        writer.join()


def test_records_that_neither_holds_are_an_error(brokers: Brokers, tmp_path: Path) -> None:
    topic = brokers.topic(1)
    create(brokers, tmp_path, topic)
    brokers.write(topic, orders(10))
    copy(brokers, tmp_path, topic)
    brokers.write(topic, orders(10))
    brokers.delete_records(topic, 13)
    with SqlSession(brokers.cluster, tables=tmp_path / "tables") as session:
        with pytest.raises(DataLossError, match="retention removed 3 records from offset 10 on"):
            rows(session, topic)
        assert len(rows(session, f"{topic}.history")) == 10
        assert len(rows(session, f"{topic}.live")) == 7
    with SqlSession(brokers.cluster, tables=tmp_path / "nothing") as session:
        assert len(rows(session, topic)) == 7
        with pytest.raises(SqlError, match="has no table in"):
            rows(session, f"{topic}.history")


def test_text_conditions_apply_to_history_and_live(brokers: Brokers, tmp_path: Path) -> None:
    topic = brokers.topic(1)
    create(brokers, tmp_path, topic)
    brokers.write(topic, orders(10))
    copy(brokers, tmp_path, topic)
    brokers.write(topic, orders(10))
    with SqlSession(brokers.cluster, tables=tmp_path / "tables") as session:
        answer = session.query(f"SELECT \"offset\" FROM {topic} WHERE key = 'k3' AND value LIKE '%8%' ORDER BY 1")
        assert answer is not None
        assert [row["offset"] for row in answer.read().rows()] == [8, 18]
        answer = session.query(f'SELECT "offset" FROM {topic} ORDER BY "offset" DESC LIMIT 12')
        assert answer is not None
        assert [row["offset"] for row in answer.read().rows()] == list(range(19, 7, -1))


def test_history_option_of_spark_reads_table_and_topic(brokers: Brokers, tmp_path: Path) -> None:
    """The reader of `option("history", "table")`: files of one version, then ranges of the topic."""
    topic = brokers.topic(2)
    create(brokers, tmp_path, topic)
    for partition in range(2):
        brokers.write(topic, orders(30), partition=partition)
    copy(brokers, tmp_path, topic)
    before = brokers.independent_read(topic)
    brokers.write_transaction(topic, orders(6), commit=False)
    brokers.write(topic, orders(9), partition=1)
    expected = {row[:2]: row for row in [*before, *brokers.independent_read(topic)]}
    brokers.delete_records(topic, 20)
    source = HeadraceDataSource(
        {
            "kafka.bootstrap.servers": brokers.bootstrap, "subscribe": topic, "includeHeaders": "true",
            "history": "table", "historyDirectory": str(tmp_path / "tables"),
        }
    )  # fmt: skip
    reader = source.reader(StructType([]))
    tasks = reader.partitions()
    # What is written after the plan is not in the cut.
    brokers.write(topic, orders(5))
    copy(brokers, tmp_path, topic)
    found = [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]
    places = sorted((row["partition"], row["offset"], row["key"], row["value"]) for row in found)
    assert places == [expected[place] for place in sorted(expected)]
    assert sum(row["headers"] is not None for row in found) == sum(row[1] % 30 % 3 == 0 for row in expected.values())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"history": "topic"}, 'must be "table"'),
        ({"history": "table", "startingOffsets": "earliest"}, 'option "startingOffsets" does not go with "history"'),
        ({"history": "table", "subscribe": "a,b"}, "one topic"),
    ],
)
def test_wrong_history_options_are_refused(options: dict[str, str], message: str) -> None:
    given = {"kafka.bootstrap.servers": "127.0.0.1:9", "subscribe": "a", **options}
    with pytest.raises(OptionError, match=message):
        HeadraceDataSource(given).reader(StructType([]))


# Plain Parquet has a log of our own. The long effort kills the copy of every format and mode ten times.
_KILLED = [(PARQUET, APPEND)]
_KILLED_LONG = [(DELTA, APPEND), (DELTA, UPSERT), (ICEBERG, APPEND), (ICEBERG, UPSERT)]


@pytest.mark.parametrize(("form", "mode"), _KILLED + (_KILLED_LONG if is_long() else []))
def test_killed_copies_lose_and_double_nothing(brokers: Brokers, tmp_path: Path, form: str, mode: str) -> None:
    """SIGKILL at any moment of the copy, and two copies at once."""
    topic = brokers.topic(2)
    log = create(brokers, tmp_path, topic, form, mode)
    definition = Definitions(tmp_path / "tables").of(topic)
    command = [sys.executable, copy_job.__file__, brokers.bootstrap, str(definition.file)]
    written = 0
    for kill in range(10 if is_long() else 2):
        jobs = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(2 if kill == 1 else 1)]
        try:
            version = log.open().version
            while log.open().version < version + 1 + kill % 2:
                # A key stays in one partition, as every partitioner of Kafka does it.
                rows_now, partition = orders(10, start=written), 0 if mode == UPSERT else written // 10 % 2
                brokers.write_transaction(topic, rows_now, partition=partition, commit=written % 3 == 0)
                brokers.write(topic, rows_now, partition=partition)
                written += 10
        finally:
            for job in jobs:
                job.kill()
                job.wait()
    copy(brokers, tmp_path, topic)
    expected = brokers.independent_read(topic)
    if mode == UPSERT:
        latest = {row[2]: row for row in expected}
        expected = sorted(latest.values(), key=lambda row: row[:2])
    with SqlSession(brokers.cluster, binary=True, tables=tmp_path / "tables") as session:
        assert rows(session, f"{topic}.history") == expected
