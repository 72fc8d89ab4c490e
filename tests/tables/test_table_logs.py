"""The log of a table as the checkpoint of its topic: rows and offsets in one commit, for every format."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from headrace.pipelines.errors import OptionError, PipelineError
from headrace.tables.formats import iceberg_log, iceberg_upkeep
from headrace.tables.formats.evolution import IncompatibleColumns
from headrace.tables.formats.table_log import TableConflict, TableLog
from headrace.tables.lake_table import DELTA, FORMATS, ICEBERG, PARQUET, UPSERT, LakeTable
from headrace.tables.latest_rows import latest_rows
from headrace.tables.relations.topic_relation import kafka_schema
from headrace.tables.table_logs import log_of
from tests.support.effort import is_long
from tests.tables.copy_job import write_rows

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
    return placed(rows, partition).to_batches()[0]


def placed(rows: pa.Table, partition: int = 0) -> pa.Table:
    partitions = pa.array([partition] * rows.num_rows, pa.int32())
    return rows.append_column("__partition", partitions).append_column("__offset", rows["offset"])


def table_of(directory: Path, form: str, **settings: Any) -> LakeTable:
    catalog = f"sqlite:///{directory}/catalog.db" if form == ICEBERG else ""
    return LakeTable("orders", "id-1", str(directory / "orders"), format=form, catalog=catalog, **settings)


def write(table: LakeTable, *batches: pa.RecordBatch) -> None:
    write_rows(table, pa.Table.from_batches(batches), log_of(table).offsets())


def positions(table: LakeTable) -> list[tuple[int, int]]:
    rows = log_of(table).open().dataset().to_table(columns=["partition", "offset"]).to_pylist()
    return sorted((row["partition"], row["offset"]) for row in rows)


@pytest.fixture(params=FORMATS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> LakeTable:
    made = table_of(tmp_path, request.param)
    log_of(made).create(SCHEMA, [], {0: 5, 1: 0})
    return made


@pytest.fixture
def log(table: LakeTable) -> TableLog:
    return log_of(table)


def test_a_repeated_batch_adds_nothing(table: LakeTable, log: TableLog) -> None:
    assert log.offsets() == {0: 5, 1: 0}
    for _ in range(3):
        write(table, batch(0, 0, 10), batch(1, 0, 4))
    # Partition 0 begins at 5: the backfill of the table.
    assert positions(table) == [*((0, o) for o in range(5, 10)), *((1, o) for o in range(4))]
    write(table, batch(0, 8, 5), batch(3, 0, 2))
    assert positions(table)[-2:] == [(3, 0), (3, 1)]
    assert log.offsets() == {0: 13, 1: 4, 2: 0, 3: 2}
    assert log.open().rows() == 14


def test_a_second_writer_is_refused_and_the_table_is_as_before(table: LakeTable, log: TableLog) -> None:
    write(table, batch(0, 5, 5))
    stale = {0: 5, 1: 0}
    with pytest.raises(TableConflict, match="another writer moved the table of topic 'orders'"):
        log.append([], {0: 20}, stale, 1)
    with pytest.raises(TableConflict):
        log.upsert(latest_rows(pa.Table.from_batches([batch(0, 5, 3)]), SCHEMA, None)[0], {0: 20}, stale)
    assert log.offsets() == {0: 10, 1: 0}
    assert len(positions(table)) == 5


def test_a_commit_between_plan_and_commit_is_not_lost(table: LakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compaction takes the version that a writer planned on: the writer tries again. A writer does: it stops."""
    write(table, batch(0, 5, 2))
    write(table, batch(0, 7, 3))
    kind = type(log_of(table))
    original, others = kind._append, [lambda: log_of(table).compact(1 << 20, 168)]

    def late(log: TableLog, *given: object) -> None:
        if others:
            others.pop()()
        original(log, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(kind, "_append", late)
    write(table, batch(1, 0, 3))
    assert log_of(table).offsets() == {0: 10, 1: 3}
    others.append(lambda: write(table, batch(1, 3, 2)))  # type: ignore[arg-type, return-value]
    with pytest.raises(TableConflict):
        write(table, batch(1, 3, 2))
    assert positions(table) == [*((0, o) for o in range(5, 10)), *((1, o) for o in range(5))]


def test_compaction_keeps_rows_and_offsets(table: LakeTable, log: TableLog) -> None:
    for number in range(20):
        write(table, batch(1, number, 1))
    before = positions(table)
    assert log.compact(1 << 20, 24)["files_removed"] == 0
    done = log.compact(1 << 20, 0)
    assert len(log.open().files()) == 1
    assert done["files_removed"] >= 20
    assert positions(table) == before
    assert log.offsets() == {0: 5, 1: 20}
    write(table, batch(1, 20, 1))
    assert log.open().rows() == 21


@pytest.mark.parametrize(("keep_hours", "are_gone"), [(24, False), (1, True)])
def test_entries_of_deltas_log_are_kept_as_long_as_the_files(tmp_path: Path, keep_hours: int, are_gone: bool) -> None:
    """Delta would keep them for 30 days, one for each commit."""
    table = table_of(tmp_path, DELTA)
    log = log_of(table)
    log.create(SCHEMA, [], {1: 0})
    for number in range(12):
        write(table, batch(1, number, 1))
    log.compact(1 << 20, keep_hours)
    entries, two_hours_ago = Path(table.path) / "_delta_log", time.time() - 7200
    for file in entries.iterdir():
        os.utime(file, (two_hours_ago, two_hours_ago))
    write(table, batch(1, 12, 1))
    log.compact(1 << 20, keep_hours)
    assert (len(list(entries.glob("*.json"))) < 12) == are_gone
    write(table, batch(1, 13, 1))
    assert log.offsets() == {0: 0, 1: 14}
    assert log.check().rows() == 14


def test_a_reader_of_an_older_version_keeps_its_files(table: LakeTable, log: TableLog) -> None:
    for number in range(3):
        write(table, batch(1, number, 1))
    older = log.open()
    files = older.dataset()
    log.compact(1 << 20, 24)
    write(table, batch(1, 3, 1))
    assert files.count_rows() == 3
    assert log.open().dataset().count_rows() == 4


def test_snapshots_of_iceberg_do_not_grow_with_the_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every commit writes the list of all snapshots again. A reader of an older version still keeps its files."""
    monkeypatch.setattr(iceberg_log, "MOST_SNAPSHOTS", 6)
    monkeypatch.setattr(iceberg_upkeep, "_NEWEST", 3)
    table = table_of(tmp_path, ICEBERG, keep_hours=24)
    log = log_of(table)
    assert isinstance(log, iceberg_log.IcebergLog)
    log.create(SCHEMA, [], {1: 0})
    write(table, batch(1, 0, 1))
    older = log.open().dataset()
    counts = []
    for number in range(1, 12):
        write(table, batch(1, number, 1))
        counts.append(len(log.table().metadata.snapshots))
    assert max(counts) <= 6
    log.compact(1 << 20, 24)
    assert older.count_rows() == 1
    assert positions(table) == [(1, o) for o in range(12)]


def test_offsets_survive_the_snapshots_of_other_programs(tmp_path: Path) -> None:
    table = table_of(tmp_path, ICEBERG)
    log = log_of(table)
    assert isinstance(log, iceberg_log.IcebergLog)
    log.create(SCHEMA, [], {1: 0})
    write(table, batch(1, 0, 4))
    for number in range(3):
        other = pa.Table.from_batches([batch(2, number, 1)]).select(SCHEMA.names)
        log.table().append(other)
    # No file is small enough to be joined, so no newer commit of ours has the offsets.
    log.compact(1, 0)
    assert log.offsets() == {0: 0, 1: 4}
    assert len(log.table().metadata.snapshots) == 4


@pytest.mark.parametrize("form", [DELTA, ICEBERG])
def test_upsert_keeps_the_latest_value_of_each_key(tmp_path: Path, form: str) -> None:
    table = table_of(tmp_path, form, mode=UPSERT)
    log = log_of(table)
    log.create(SCHEMA, [], {0: 5})
    expected: dict[bytes, bytes] = {}
    for first in (5, 12, 15):
        rows = pa.Table.from_batches([batch(0, first, 9)])
        for row in rows.to_pylist():
            expected.pop(row["key"], None)
            if row["value"] is not None:
                expected[row["key"]] = row["value"]
        log.upsert(latest_rows(rows, SCHEMA, None)[0], {0: first + 9}, log.offsets())
    found = log.open().dataset().to_table().to_pylist()
    assert {row["key"]: row["value"] for row in found} == expected
    assert len(found) == len(expected)
    assert log.offsets()[0] == 24


def test_newer_columns_appear_and_numbers_widen(tmp_path: Path) -> None:
    old = pa.schema([("id", pa.int32()), ("price", pa.float32()), ("offset", pa.int64())])
    new = pa.schema([("id", pa.int64()), ("price", pa.float64()), ("note", pa.string())])
    for form in FORMATS:
        table = table_of(tmp_path / form, form)
        (tmp_path / form).mkdir()
        log = log_of(table)
        log.create(old, [], {0: 0})
        rows = pa.table({"id": [1, 2], "price": [0.5, 1.5], "offset": [0, 1]}, old)
        write_rows(table, placed(rows), log.offsets(), old)
        assert log.evolve(new) == [
            "column 'id' becomes int64 (was int32)",
            "column 'price' becomes double (was float)",
            "column 'note' added (string)",
        ]
        assert log.evolve(new) == []
        # A second writer with the older schema changes nothing back.
        assert log.evolve(old) == []
        columns = log.columns()
        assert columns.field("id").type == pa.int64()
        more = pa.table({"id": [1 << 40], "price": [2.5], "offset": [2], "note": ["n"]}, columns)
        write_rows(table, placed(more), log.offsets(), columns)
        found = sorted(tuple(row.values()) for row in log.open().dataset().to_table().to_pylist())
        assert found == [(1, 0.5, 0, None), (2, 1.5, 1, None), (1 << 40, 2.5, 2, "n")], form
        assert log.offsets() == {0: 3}
        with pytest.raises(IncompatibleColumns, match="column 'note' is string and the newer schema makes it int64"):
            log.evolve(pa.schema([("note", pa.int64())]))


@pytest.mark.parametrize(
    ("topic", "topic_id", "message"),
    [
        ("orders", "id-2", "topic 'orders' was deleted and created again"),
        ("clicks", "id-1", "holds the table of topic 'orders'"),
    ],
)
def test_path_of_another_topic_is_refused(
    table: LakeTable, log: TableLog, topic: str, topic_id: str, message: str
) -> None:
    if table.format == ICEBERG and topic == "clicks":
        pytest.skip("a catalog has one name per topic")
    other = LakeTable(topic, topic_id, table.path, format=table.format, catalog=table.catalog)
    version = log.open().version
    with pytest.raises(PipelineError, match=message):
        log_of(other).create(SCHEMA, [], {0: 0})
    assert log.open().version == version


def test_path_of_a_foreign_table_is_refused(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "orders"), pa.table({"a": [1]}))
    with pytest.raises(PipelineError, match="holds another table"):
        log_of(table_of(tmp_path, DELTA)).create(SCHEMA, [], {0: 0})
    with pytest.raises(PipelineError, match="is not empty and holds no table of Headrace"):
        log_of(table_of(tmp_path, PARQUET)).create(SCHEMA, [], {0: 0})
    with pytest.raises(PipelineError, match="is not empty and holds no table of Headrace"):
        log_of(table_of(tmp_path, ICEBERG)).create(SCHEMA, [], {0: 0})
    log_of(LakeTable("orders", "id-1", str(tmp_path / "parquet"), format=PARQUET)).create(SCHEMA, [], {0: 0})
    with pytest.raises(PipelineError, match="is not empty and holds no table of Headrace"):
        log_of(LakeTable("orders", "id-1", str(tmp_path / "parquet"))).create(SCHEMA, [], {0: 0})


def test_a_table_out_of_its_catalog_can_be_created_again(tmp_path: Path) -> None:
    table = table_of(tmp_path, ICEBERG)
    log_of(table).create(SCHEMA, [], {0: 0})
    log_of(table).unregister()
    assert not log_of(table).exists()
    assert (tmp_path / "orders").exists()


@pytest.mark.parametrize("form", FORMATS)
def test_a_path_without_a_table_is_refused(tmp_path: Path, form: str) -> None:
    with pytest.raises(PipelineError, match="create it with 'headrace tables create'"):
        log_of(table_of(tmp_path, form)).check()


def test_creating_a_table_again_attaches_to_it(table: LakeTable, log: TableLog) -> None:
    write(table, batch(0, 5, 5))
    log.create(SCHEMA, [], {0: 0, 1: 0})
    assert log.offsets() == {0: 10, 1: 0}
    with pytest.raises(PipelineError, match="partitioned by nothing, which cannot change"):
        log.create(SCHEMA, ["partition"], {0: 0})
    with pytest.raises(PipelineError, match="the table has the columns"):
        log.create(pa.schema([("a", pa.int64())]), [], {0: 0})


@pytest.mark.parametrize("form", FORMATS)
def test_rows_are_in_folders_of_their_partition(tmp_path: Path, form: str) -> None:
    import pyarrow.compute as pc

    table = table_of(tmp_path, form, partition_by="partition")
    log = log_of(table)
    log.create(SCHEMA, ["partition"], {0: 0, 1: 0})
    write(table, batch(0, 0, 3), batch(1, 0, 4))
    write(table, batch(1, 4, 2))
    assert log.open().partition_columns == ["partition"]
    assert all("partition=" in file for file in log.open().files())
    assert positions(table) == [*((0, o) for o in range(3)), *((1, o) for o in range(6))]
    assert log.open().dataset().count_rows(filter=pc.field("partition") == 1) == 6
    log.compact(1 << 20, 0)
    assert positions(table) == [*((0, o) for o in range(3)), *((1, o) for o in range(6))]
    assert len(log.open().files()) == 2


def test_a_scan_skips_files_by_their_bounds(table: LakeTable, log: TableLog) -> None:
    import pyarrow.compute as pc

    for number in range(10):
        write(table, batch(1, number * 10, 10))
    dataset = log.open().dataset()
    late = pc.field("offset") >= 95
    assert len(list(dataset.get_fragments(late))) == 1
    assert dataset.count_rows(filter=late) == 5
    newest = pc.field("timestamp") >= pa.scalar(91_000, pa.timestamp("us", tz="UTC"))
    assert len(list(dataset.get_fragments(newest))) == 1


@pytest.mark.parametrize("form", FORMATS)
def test_nulls_beside_one_value_stay_nulls(tmp_path: Path, form: str) -> None:
    """A typed table may have a field with the name of a column whose bounds are in the log."""
    schema = pa.schema([("_partition", pa.int32()), ("_offset", pa.int64()), ("timestamp", pa.int64())])
    table, log = table_of(tmp_path, form), log_of(table_of(tmp_path, form))
    log.create(schema, [], {0: 0})
    for first in (0, 2):
        rows = pa.table([[0, 0], [first, first + 1], [5, None]], schema=schema)
        rows = rows.append_column("__partition", rows["_partition"]).append_column("__offset", rows["_offset"])
        write_rows(table, rows, log.offsets(), schema)
    found: list[int] = []
    for _ in range(2):
        dataset = log.open().dataset()
        assert dataset.to_table().sort_by("_offset")["timestamp"].to_pylist() == [5, None, 5, None]
        found.append(dataset.to_table(filter=pc.field("timestamp").is_null()).num_rows)
        log.compact(1 << 20, 168)
    assert found == [2, 2]


def test_readers_of_other_engines_see_the_rows(table: LakeTable, log: TableLog) -> None:
    """Polars and DuckDB read each format without Headrace."""
    import duckdb
    import polars

    write(table, batch(0, 5, 5), batch(1, 0, 5))
    write(table, batch(1, 5, 5))
    log.compact(1 << 20, 24)
    write(table, batch(1, 10, 1))
    if table.format == DELTA:
        assert polars.read_delta(table.path).height == 16
        with duckdb.connect() as database:
            database.register("table_rows", DeltaTable(table.path).to_pyarrow_dataset())
            assert database.execute('SELECT count(*), max("offset") FROM table_rows').fetchall() == [(16, 10)]
    elif table.format == PARQUET:
        assert polars.read_parquet(f"{table.path}/*.parquet").height == 16
        with duckdb.connect() as database:
            found = database.execute(f"SELECT count(*), max(\"offset\") FROM '{table.path}/*.parquet'").fetchall()
            assert found == [(16, 10)]
    else:
        from pyiceberg.catalog import load_catalog

        read = load_catalog("other", type="sql", uri=table.catalog, init_catalog_tables="false")
        read.name = "headrace"
        rows = read.load_table(("headrace", "orders")).scan(row_filter="offset >= 5").to_arrow()
        assert rows.num_rows == 11
        assert polars.scan_iceberg(read.load_table(("headrace", "orders"))).collect().height == 16


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"format": "orc"}, "format 'orc' is unknown"),
        ({"format": ICEBERG}, "needs a catalog"),
        ({"format": PARQUET, "mode": UPSERT}, "which format parquet cannot"),
        ({"columns": "registry"}, "needs the address of the schema registry"),
        ({"mode": UPSERT, "columns": "key"}, "has Kafka's columns or those of the registry"),
        ({"incompatible": "ignore"}, "must be stop or dead-letters"),
    ],
)
def test_wrong_definitions_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        LakeTable("orders", "id-1", "/lake/orders", **settings)


def test_parquet_needs_a_local_path() -> None:
    with pytest.raises(OptionError, match="format parquet needs a local path"):
        log_of(LakeTable("orders", "id-1", "s3://lake/orders", format=PARQUET))


_FULL_DISK = """
import pickle, resource, signal, sys
from headrace.pipelines.errors import PipelineError
from tests.tables.copy_job import write_rows
from headrace.tables.table_logs import log_of
table, rows = pickle.load(sys.stdin.buffer)
before = log_of(table).offsets()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (BYTES, BYTES))
try:
    write_rows(table, rows, before)
except (PipelineError, OSError) as error:
    print("refused", type(error).__name__)
"""


@pytest.mark.parametrize("limit", [100, 2500] if is_long() else [100])
def test_a_full_disk_leaves_the_table_as_it_was(table: LakeTable, log: TableLog, limit: int) -> None:
    """The limit on the size of files stops the write of rows (100 bytes) or of the commit (2,500 bytes)."""
    write(table, batch(0, 5, 5))
    rows = pa.Table.from_batches([batch(0, 10, 3)])
    done = subprocess.run(
        [sys.executable, "-c", _FULL_DISK.replace("BYTES", str(limit))],
        input=pickle.dumps((table, rows)),
        capture_output=True,
        check=False,
    )
    if not done.stdout.startswith(b"refused"):
        # A commit that fits into the limit is a whole commit.
        assert limit > 100, done.stderr[-1000:]
        assert log.offsets() == {0: 13, 1: 0}
        assert len(positions(table)) == 8
        return
    assert log.offsets() == {0: 10, 1: 0}
    assert positions(table) == [(0, o) for o in range(5, 10)]
    write(table, batch(0, 10, 3))
    assert len(positions(table)) == 8
