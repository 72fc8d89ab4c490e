"""A writer keeps its table open between commits and remembers the version that it knows."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import ModuleType

import pytest
from deltalake import DeltaTable

from headrace.tables.formats import delta_append, delta_log, new_files, parquet_log
from headrace.tables.formats.table_log import DataFile, TableConflict, WrongTable
from headrace.tables.lake_table import DELTA, FORMATS, PARQUET
from headrace.tables.table_logs import log_of
from tests.tables.test_table_logs import SCHEMA, batch, table_of, write


@pytest.mark.parametrize("form", FORMATS)
def test_commits_of_others_are_noticed(tmp_path: Path, form: str) -> None:
    table = table_of(tmp_path, form)
    log = log_of(table)
    log.create(SCHEMA, [], {0: 5, 1: 0})
    for number in range(4):
        log.append([], {1: 2 * number + 1}, {0: 5, 1: 2 * number}, 1)
        write(table, batch(1, 2 * number + 1, 1))
        assert log.offsets() == {0: 5, 1: 2 * number + 2}
        if number == 2:
            log_of(table).compact(1 << 20, 0)
    assert log.open().rows() == log_of(table).open().rows() == 4
    assert log.open().version == log_of(table).open().version


@pytest.mark.parametrize("form", [DELTA, PARQUET])
def test_a_table_created_again_is_noticed(tmp_path: Path, form: str) -> None:
    table = table_of(tmp_path, form)
    log = log_of(table)
    log.create(SCHEMA, [], {0: 0})
    for end in range(1, 4):
        log.append([], {0: end}, log.check().offsets, 1)
    shutil.rmtree(table.path)
    other = log_of(table, "id-2")
    other.create(SCHEMA, [], {0: 0})
    for end in range(1, 4):
        other.append([], {0: end}, other.check().offsets, 1)
    with pytest.raises(WrongTable, match="was deleted and created again"):
        log.check()
    assert log_of(table, "id-2").check().offsets == {0: 3}


def test_a_delta_table_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of(table_of(tmp_path, DELTA))
    log.create(SCHEMA, [], {0: 0})
    opened: list[str] = []
    monkeypatch.setattr(delta_log, "DeltaTable", lambda path: (opened.append(path), DeltaTable(path))[1])
    for end in range(1, 6):
        log.append([], {0: end}, log.check().offsets, 1)
    assert len(opened) <= 1


def test_a_commit_stands_if_its_version_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of(table_of(tmp_path, DELTA))
    log.create(SCHEMA, [], {0: 0})

    def fails(table: DeltaTable) -> None:
        raise OSError("the disk does not answer")

    monkeypatch.setattr(DeltaTable, "update_incremental", fails)
    log.append([], {0: 1}, log.check().offsets, 1)
    assert log.check().offsets == {0: 1}
    log.append([], {0: 2}, {0: 1}, 1)
    assert log.check().offsets == {0: 2}


@pytest.mark.parametrize("is_created_again", [False, True])
@pytest.mark.parametrize(("form", "module"), [(DELTA, delta_append), (PARQUET, parquet_log)])
def test_a_commit_that_follows_nothing_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, module: ModuleType, is_created_again: bool
) -> None:
    """A writer stands still before it names its commit. Others commit this version and clean the log up, or create the
    table again: the name is free, but the commit must not count."""
    table = table_of(tmp_path, form)
    log, other = log_of(table), log_of(table)
    log.create(SCHEMA, [], {0: 0})

    def after_others(file: Path, text: str) -> None:
        monkeypatch.setattr(module, "publish", new_files.publish)
        if is_created_again:
            shutil.rmtree(log.path)
            other.create(SCHEMA, [], {0: 0})
        else:
            for end in range(1, 4):
                other.append([], {0: end}, {0: end - 1}, 1)
            other.compact(1 << 20, 0)
            assert not file.exists()
        new_files.publish(file, text)

    monkeypatch.setattr(module, "publish", after_others)
    if is_created_again:
        log.append([], {0: 9}, {0: 0}, 1)
    else:
        with pytest.raises(TableConflict, match="another writer moved the table"):
            log.append([], {0: 9}, {0: 0}, 1)
    assert log_of(table).offsets() == log.offsets() == {0: 9 if is_created_again else 3}
    log.append([], {0: 10}, log.offsets(), 1)
    assert log_of(table).offsets() == {0: 10}


@pytest.mark.parametrize("form", [DELTA, PARQUET])
def test_data_files_and_their_folders_are_on_the_disk_before_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    table = table_of(tmp_path, form)
    log = log_of(table)
    log.create(SCHEMA, [], {0: 0})
    data = Path(table.path) / (parquet_log.FILES if form == PARQUET else "")
    names = ["day=2026-01-01/a.parquet", "b.parquet"]
    for name in names:
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_bytes(b"rows")
    synced: list[Path] = []

    def sync(handle: int) -> None:
        synced.append(Path(f"/proc/self/fd/{handle}").readlink())

    monkeypatch.setattr(os, "fsync", sync)
    log.append([DataFile(name, 4, 1, {}, "{}") for name in names], {0: 2}, {0: 0}, 1)
    (draft,) = [number for number, path in enumerate(synced) if path.name.endswith(".json.tmp")]
    expected = {data, data / "day=2026-01-01", *(data / name for name in names)}
    assert set(synced[:draft]) == expected
