"""The log of a Delta table as the checkpoint of its topic: rows and offsets in one commit."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from headrace.pipelines.errors import PipelineError
from headrace.tables.delta_log import DataFile, DeltaLog, TableConflict
from headrace.tables.table_files import file_writer
from headrace.tables.table_sink import latest_of_each_key
from headrace.tables.topic_relation import kafka_schema

SCHEMA = kafka_schema(binary=True)


def batch(partition: int, first: int, count: int) -> pa.RecordBatch:
    offsets = list(range(first, first + count))
    rows = pa.table(
        {
            "key": [b"k%d" % (o % 3) for o in offsets],
            "value": [None if o % 7 == 0 else b"v%d" % o for o in offsets],
            "headers": pa.nulls(count, SCHEMA.field("headers").type),
            "topic": ["orders"] * count,
            "partition": pa.array([partition] * count, pa.int32()),
            "offset": offsets,
            "timestamp": pa.array([o * 1000 for o in offsets], pa.timestamp("us", tz="UTC")),
        },
        schema=SCHEMA,
    )
    return rows.append_column("_partition", rows["partition"]).append_column("_offset", rows["offset"]).to_batches()[0]


def write(log: DeltaLog, *batches: pa.RecordBatch) -> None:
    """What a batch of Spark does: tasks write files, the driver commits."""
    before = log.offsets()
    files: list[DataFile] = []
    ends: dict[int, int] = {}
    for written in file_writer(log.path, None, before, SCHEMA)(iter(batches)):
        for row in written.to_pylist():
            files.append(DataFile(row["path"], row["size"], row["rows"], json.loads(row["keys"]), row["stats"]))
            ends |= {int(index): end for index, end in json.loads(row["ends"]).items()}
    if files:
        log.append(files, ends, before, 1)


def positions(log: DeltaLog) -> list[tuple[int, int]]:
    rows = DeltaTable(log.path).to_pyarrow_table(columns=["partition", "offset"]).to_pylist()
    return sorted((row["partition"], row["offset"]) for row in rows)


@pytest.fixture
def log(tmp_path: Path) -> DeltaLog:
    return DeltaLog.create(str(tmp_path / "orders"), "orders", "id-1", SCHEMA, [], {0: 5, 1: 0})


def test_a_repeated_batch_adds_nothing(log: DeltaLog) -> None:
    assert log.offsets() == {0: 5, 1: 0}
    for _ in range(3):
        write(log, batch(0, 0, 10), batch(1, 0, 4))
    # Partition 0 begins at 5: the backfill of the table.
    assert positions(log) == [*((0, o) for o in range(5, 10)), *((1, o) for o in range(4))]
    write(log, batch(0, 8, 5), batch(3, 0, 2))
    assert positions(log)[-2:] == [(3, 0), (3, 1)]
    assert log.offsets() == {0: 13, 1: 4, 2: 0, 3: 2}


def test_a_second_writer_is_refused_and_the_table_is_as_before(log: DeltaLog) -> None:
    write(log, batch(0, 5, 5))
    stale = {0: 5, 1: 0}
    with pytest.raises(TableConflict, match="another writer moved the table of topic 'orders'"):
        log.append([], {0: 20}, stale, 1)
    with pytest.raises(TableConflict):
        log.upsert(pa.Table.from_batches([batch(0, 5, 3)]).select(SCHEMA.names), {0: 20}, stale)
    assert log.offsets() == {0: 10, 1: 0}
    assert len(positions(log)) == 5


def test_a_commit_between_plan_and_commit_is_not_lost(log: DeltaLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compaction takes the version that a writer planned on: the writer tries again. A writer does: it stops."""
    write(log, batch(0, 5, 5))
    original, others = DeltaTable.create_write_transaction, [lambda: log.compact(1 << 20, 168)]

    def late(table: DeltaTable, *given: object, **named: object) -> None:
        if others:
            others.pop()()
        original(table, *given, **named)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", late)
    write(log, batch(1, 0, 3))
    assert log.offsets() == {0: 10, 1: 3}
    others.append(lambda: write(log, batch(1, 3, 2)))  # type: ignore[arg-type, return-value]
    with pytest.raises(TableConflict):
        write(log, batch(1, 3, 2))
    assert positions(log) == [*((0, o) for o in range(5, 10)), *((1, o) for o in range(5))]


def test_compaction_keeps_rows_and_offsets(log: DeltaLog) -> None:
    for number in range(20):
        write(log, batch(1, number, 1))
    before = positions(log)
    done = log.compact(1 << 20, 0)
    assert (done["files_joined"], done["files_written"]) == (20, 1)
    assert len(DeltaTable(log.path).file_uris()) == 1
    assert positions(log) == before
    assert log.offsets() == {0: 5, 1: 20}
    assert len(list(Path(log.path).glob("*.parquet"))) == 1


def test_upsert_keeps_the_latest_value_of_each_key(log: DeltaLog) -> None:
    expected: dict[bytes, bytes] = {}
    for first in (5, 12, 15):
        rows = pa.Table.from_batches([batch(0, first, 9)])
        for row in rows.to_pylist():
            expected.pop(row["key"], None)
            if row["value"] is not None:
                expected[row["key"]] = row["value"]
        log.upsert(latest_of_each_key(rows).select(SCHEMA.names), {0: first + 9}, log.offsets())
    found = {row["key"]: row["value"] for row in DeltaTable(log.path).to_pyarrow_table().to_pylist()}
    assert found == expected
    assert log.offsets()[0] == 24


@pytest.mark.parametrize(
    ("topic", "topic_id", "message"),
    [
        ("orders", "id-2", "topic 'orders' was deleted and created again"),
        ("clicks", "id-1", "holds the table of topic 'orders'"),
    ],
)
def test_path_of_another_topic_is_refused(log: DeltaLog, topic: str, topic_id: str, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        DeltaLog.create(log.path, topic, topic_id, SCHEMA, [], {0: 0})
    assert DeltaTable(log.path).version() == 1


def test_path_of_a_foreign_table_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "foreign")
    write_deltalake(path, pa.table({"a": [1]}))
    with pytest.raises(PipelineError, match="holds another table"):
        DeltaLog.create(path, "orders", "id-1", SCHEMA, [], {0: 0})
    with pytest.raises(PipelineError, match="holds no Delta table"):
        DeltaLog(str(tmp_path / "nothing"), "orders", "id-1").check()


def test_creating_a_table_again_attaches_to_it(log: DeltaLog) -> None:
    write(log, batch(0, 5, 5))
    again = DeltaLog.create(log.path, "orders", "id-1", SCHEMA, [], {0: 0, 1: 0})
    assert again.offsets() == {0: 10, 1: 0}
    with pytest.raises(PipelineError, match="partitioned by nothing, which cannot change"):
        DeltaLog.create(log.path, "orders", "id-1", SCHEMA, ["partition"], {0: 0})
    with pytest.raises(PipelineError, match="the table has the columns"):
        DeltaLog.create(log.path, "orders", "id-1", pa.schema([("a", pa.int64())]), [], {0: 0})


def test_readers_of_other_engines_see_the_rows(log: DeltaLog) -> None:
    import duckdb
    import polars

    write(log, batch(0, 5, 5), batch(1, 0, 5))
    assert polars.read_delta(log.path).height == 10
    with duckdb.connect() as database:
        database.register("table_rows", DeltaTable(log.path).to_pyarrow_dataset())
        assert database.execute('SELECT count(*), max("offset") FROM table_rows').fetchall() == [(10, 9)]
