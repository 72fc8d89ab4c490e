"""`headrace tables repair`: lost and damaged files leave the table, and their records come from the topic again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import FileSystem, LocalFileSystem
from typer.testing import CliRunner

from headrace.cli.app import app as cli_app
from headrace.pipelines.errors import PipelineError
from headrace.tables import table_repair
from headrace.tables.definitions import Definitions, first_offsets, topic_metadata
from headrace.tables.lake_table import FORMATS, ICEBERG, LakeTable
from headrace.tables.relations.topic_relation import kafka_schema
from headrace.tables.relations.topic_scan import read_range
from headrace.tables.table_logs import log_of
from headrace.tables.table_repair import is_readable, repair_table
from tests.tables import copy_job
from tests.tables.conftest import Brokers, orders


@pytest.mark.parametrize("form", FORMATS)
def test_lost_files_are_read_again(brokers: Brokers, tmp_path: Path, form: str) -> None:
    topic = brokers.topic(2)
    table = created(brokers, tmp_path, topic, form)
    log = log_of(table)
    Definitions(tmp_path / "tables").add(table, brokers.bootstrap)
    for _ in range(3):
        brokers.write(topic, orders(10))
        brokers.write_transaction(topic, orders(5), partition=1, commit=False)
        brokers.write(topic, orders(7), partition=1)
        copy_job.copy(brokers.cluster, table)
    expected, files = brokers.independent_read(topic), log.open().files()
    assert repair_table(table, brokers.client, dry_run=False).sentence(dry_run=False) == (
        "every file is there and can be read"
    )
    Path(files[0]).unlink()
    Path(files[-1]).write_bytes(b"damaged")
    offsets = log.offsets()
    assert repair_table(table, brokers.client, dry_run=True).bad_files == 2
    done = repair_table(table, brokers.client, dry_run=False)
    assert (done.bad_files, done.lost) == (2, 0)
    assert Path(f"{files[-1]}.damaged").read_bytes() == b"damaged"
    rows = log.open().dataset().to_table().to_pylist()
    assert sorted((r["partition"], r["offset"], r["key"], r["value"]) for r in rows) == expected
    assert log.offsets() == offsets
    assert repair_table(table, brokers.client, dry_run=False).bad_files == 0
    # Records that the topic does not hold any more are named.
    before = log.open().rows()
    for file in log.open().files():
        Path(file).unlink()
    brokers.delete_records(topic, 10)
    done = repair_table(table, brokers.client, dry_run=False)
    assert done.lost == 10
    assert log.open().rows() == before - 10


def test_records_from_before_the_beginning_of_the_table_stay_out(brokers: Brokers, tmp_path: Path) -> None:
    """`headrace tables create --backfill none` begins at the end of the topic."""
    topic, directory = brokers.topic(1), tmp_path / "tables"
    brokers.write(topic, orders(10))
    create = ("create", topic, "--backfill", "none", "--path", str(tmp_path / "lake"), "-d", str(directory))
    arguments = ["tables", *create, "--bootstrap", brokers.bootstrap]
    result = CliRunner().invoke(cli_app, arguments)
    assert result.exit_code == 0, result.output
    table = Definitions(directory).of(topic).table
    assert table.begins_at == (10,)
    brokers.write(topic, orders(5))
    copy_job.copy(brokers.cluster, table)
    log = log_of(table)
    Path(log.open().files()[0]).unlink()
    done = repair_table(table, brokers.client, dry_run=False)
    assert (done.records, done.lost) == (5, 0)
    offsets = log.open().dataset().to_table(columns=["offset"]).column("offset").to_pylist()
    assert sorted(offsets) == list(range(10, 15))


class _Killed(BaseException):
    pass


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("step", ["add", "_set_aside", "forget"])
def test_a_repair_beside_a_writer_that_dies_is_repaired_again(
    brokers: Brokers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, step: str
) -> None:
    topic = brokers.topic(1)
    table = created(brokers, tmp_path, topic, form)
    for _ in range(2):
        brokers.write(topic, orders(10))
        copy_job.copy(brokers.cluster, table)
    log = log_of(table)
    Path(log.open().files()[0]).unlink()
    brokers.write(topic, orders(5))
    read = read_range

    def while_a_writer_commits(*given: Any) -> Iterator[pa.RecordBatch]:
        yield from read(*given)
        copy_job.copy(brokers.cluster, table)

    def dies(*_: object) -> None:
        raise _Killed

    with monkeypatch.context() as patch, pytest.raises(_Killed):
        patch.setattr(table_repair, "read_range", while_a_writer_commits)
        patch.setattr(table_repair if step.startswith("_") else type(log), step, dies)
        repair_table(table, brokers.client, dry_run=False)
    with monkeypatch.context() as patch:
        patch.setattr(table_repair, "read_range", while_a_writer_commits)
        brokers.write(topic, orders(5))
        done = repair_table(table, brokers.client, dry_run=False)
    assert (done.bad_files, done.records, done.lost) == (1, 10 if step == "add" else 0, 0)
    copy_job.copy(brokers.cluster, table)
    rows = log.open().dataset().to_table(columns=["offset"]).column("offset").to_pylist()
    assert sorted(rows) == list(range(30))
    assert repair_table(table, brokers.client, dry_run=False).bad_files == 0


def created(brokers: Brokers, folder: Path, topic: str, form: str) -> LakeTable:
    found = topic_metadata(brokers.client, topic)
    catalog = f"sqlite:///{folder}/catalog.db" if form == ICEBERG else ""
    table = LakeTable(topic, str(found.topic_id), str(folder / "lake"), format=form, catalog=catalog)
    log_of(table).create(kafka_schema(binary=True), [], first_offsets(brokers.client, found, "all", None))
    return table


def test_a_table_without_offsets_is_not_repaired(brokers: Brokers, tmp_path: Path) -> None:
    topic = brokers.topic(1)
    brokers.write(topic, orders(3))
    found = topic_metadata(brokers.client, topic)
    table = LakeTable(topic, str(found.topic_id), str(tmp_path / "lake"), mode="upsert-by-key")
    log_of(table).create(kafka_schema(binary=True), [], {0: 0})
    copy_job.copy(brokers.cluster, table)
    Path(log_of(table).open().files()[0]).unlink()
    with pytest.raises(PipelineError, match="drop it and create it again"):
        repair_table(table, brokers.client, dry_run=False)


def test_a_file_that_the_store_does_not_give_stops_the_repair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"offset": [1]}), file)
    assert is_readable(str(file))

    def refuse(path: str) -> tuple[FileSystem, str]:
        return FailingStore(), path

    monkeypatch.setattr(table_repair, "file_system", refuse)
    with pytest.raises(PipelineError, match=r"cannot read .*rows\.parquet: the store is away: make the file readable"):
        is_readable(str(file))
    assert file.exists()


class FailingStore(LocalFileSystem):
    def open_input_file(self, path: str) -> object:
        raise OSError("the store is away")
