"""Entries of Delta's log that Headrace writes itself: the same facts as `deltalake`'s, and only where they suffice."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.table import ProtocolVersions

from headrace.tables.formats.delta_append import append_entry, may_append
from headrace.tables.formats.delta_log import DeltaLog
from headrace.tables.formats.table_log import CommitTaken, DataFile, TableConflict
from headrace.tables.lake_table import DELTA
from headrace.tables.table_logs import log_of
from tests.tables.test_table_logs import SCHEMA, batch, table_of, write

PATHS = [
    "part-1.zstd.parquet",
    "day=2024-02-29/part.parquet",
    "a b/c.parquet",
    "100%/%20.parquet",
    "ü/ключ/鍵.parquet",
    '?#[]{}|\\^`"<>.parquet',
    "~!@$&'()*+,;=:-_.parquet",
]
VALUES = ["", "a b", "ü", "2024-02-29", "%20"]


def a_delta_log(directory: Path) -> DeltaLog:
    log = log_of(table_of(directory, DELTA))
    assert isinstance(log, DeltaLog)
    return log


def facts_of(path: str, version: int) -> list[dict[str, Any]]:
    """The actions of an entry without times, writers' names and values that say nothing."""
    facts = []
    for line in (Path(path) / "_delta_log" / f"{version:020}.json").read_text().splitlines():
        ((kind, action),) = json.loads(line).items()
        ignored = {"timestamp", "engineInfo", "clientVersion"}
        empty = {"tags", "baseRowId", "defaultRowCommitVersion", "clusteringProvider"}
        facts.append({"kind": kind, **{k: v for k, v in action.items() if k not in ignored | empty}})
    return facts


def test_entries_hold_what_deltalake_writes(tmp_path: Path) -> None:
    logs = [a_delta_log(tmp_path / name) for name in ("ours", "theirs")]
    files = [DataFile(path, 7, 3, {"key": value}, '{"numRecords": 3}') for path in PATHS for value in VALUES]
    for log, is_ours in zip(logs, (True, False), strict=True):
        log.create(SCHEMA, ["key"], {0: 0, 1: 0})
        log._append(replace(log.open(), takes_entries=is_ours), files, {0: 5, 1: 7}, 99)
    ours, theirs = (facts_of(log.path, 2) for log in logs)
    assert ours == theirs
    names = [sorted(log.open().table.file_uris()) for log in logs]
    assert [n.removeprefix(logs[0].path) for n in names[0]] == [n.removeprefix(logs[1].path) for n in names[1]]
    assert [log.offsets() for log in logs] == [{0: 5, 1: 7}] * 2


@pytest.mark.parametrize(
    ("protocol", "settings", "expected"),
    [
        (ProtocolVersions(1, 1, None, None), {}, True),
        (ProtocolVersions(1, 2, None, None), {"delta.appendOnly": "true"}, True),
        (ProtocolVersions(1, 2, None, None), {"delta.constraints.positive": "a > 0"}, False),
        (ProtocolVersions(1, 3, None, None), {}, False),
        (ProtocolVersions(1, 4, None, None), {}, False),
        (ProtocolVersions(2, 5, None, None), {}, False),
        (ProtocolVersions(1, 7, [], None), {}, True),
        (ProtocolVersions(3, 7, ["timestampNtz"], ["timestampNtz"]), {}, True),
        (ProtocolVersions(1, 7, ["inCommitTimestamp"], None), {}, False),
        (ProtocolVersions(1, 7, ["rowTracking", "domainMetadata"], None), {}, False),
        (ProtocolVersions(1, 7, ["appendOnly", "changeDataFeed"], None), {}, False),
        (ProtocolVersions(3, 7, ["v2Checkpoint"], ["v2Checkpoint"]), {}, False),
        (ProtocolVersions(3, 8, [], []), {}, False),
    ],
)
def test_tables_with_other_features_are_left_to_deltalake(
    protocol: ProtocolVersions, settings: dict[str, str], expected: bool
) -> None:
    assert may_append(protocol, settings) == expected


def test_a_feature_that_another_program_adds_is_noticed(tmp_path: Path) -> None:
    log = a_delta_log(tmp_path)
    log.create(SCHEMA, [], {0: 0})
    assert log.open().takes_entries
    DeltaTable(log.path).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    assert not log.open().takes_entries
    log.append([], {0: 1}, {0: 0}, 1)
    assert "delta-rs" in (Path(log.path) / "_delta_log" / f"{log.open().version:020}.json").read_text()
    assert a_delta_log(tmp_path).offsets() == {0: 1}


def test_of_two_writers_of_a_version_one_succeeds(tmp_path: Path) -> None:
    log = a_delta_log(tmp_path)
    log.create(SCHEMA, [], {0: 0})
    place, results = Path(log.path) / "_delta_log", list[str]()
    start = threading.Barrier(8)

    def attempt(number: int) -> None:
        start.wait()
        try:
            append_entry(place, 2, [], {"writer": number}, {}, [], 1)
            results.append("committed")
        except CommitTaken:
            results.append("taken")

    threads = [threading.Thread(target=attempt, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == ["committed", *["taken"] * 7]
    assert not list(place.glob("*.tmp"))
    assert DeltaTable(log.path).version() == 2


def test_a_second_writer_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    first, second = a_delta_log(tmp_path), a_delta_log(tmp_path)
    first.create(SCHEMA, [], {0: 0})
    assert second.offsets() == {0: 0}
    first.append([], {0: 1}, {0: 0}, 1)
    with pytest.raises(TableConflict, match="another writer moved the table"):
        second.append([], {0: 2}, {0: 0}, 1)
    assert first.offsets() == second.offsets() == {0: 1}
    second.append([], {0: 2}, {0: 1}, 1)
    assert first.offsets() == a_delta_log(tmp_path).offsets() == {0: 2}


@pytest.mark.parametrize("fails", [False, True])
def test_every_hundredth_commit_writes_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """A commit stands whether its checkpoint succeeds or not."""
    table = table_of(tmp_path, DELTA)
    log = log_of(table)
    log.create(SCHEMA, [], {1: 0})
    if fails:

        def disk_does_not_answer(table: DeltaTable) -> None:
            raise OSError("the disk does not answer")

        monkeypatch.setattr(DeltaTable, "create_checkpoint", disk_does_not_answer)
    write(table, batch(1, 0, 3))
    for end in range(4, 203):
        log.append([], {1: end}, log.offsets(), 1)
    found = [file.name for file in (Path(table.path) / "_delta_log").glob("*.checkpoint.parquet")]
    assert sorted(found) == ([] if fails else [f"{100:020}.checkpoint.parquet", f"{200:020}.checkpoint.parquet"])
    fresh = log_of(table)
    assert fresh.offsets() == {0: 0, 1: 202}
    assert fresh.open().rows() == log.open().rows() == 3
    assert fresh.open().version == log.open().version


def test_a_snapshot_keeps_its_version_while_its_writer_goes_on(tmp_path: Path) -> None:
    table = table_of(tmp_path, DELTA)
    log = log_of(table)
    log.create(SCHEMA, [], {1: 0})
    log.append([], {1: 1}, {0: 0, 1: 0}, 1)
    older = log.open()
    write(table, batch(1, 1, 4))
    assert log.open().rows() == 4
    assert (older.rows(), older.offsets) == (0, {0: 0, 1: 1})
    assert pa.table(older.dataset().to_table()).num_rows == 0
