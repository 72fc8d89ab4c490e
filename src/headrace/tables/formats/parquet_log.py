"""Plain Parquet: a directory that every program can read, with a small log in `_headrace` beside the files.

    orders/part-….parquet                        committed rows
    orders/_headrace/files/part-….parquet        the same files (hard links), and those of older versions
    orders/_headrace/table.json                  topic, its id, folders
    orders/_headrace/commits/0000000012.json     files added and removed, offsets, and the columns if they changed
    orders/_headrace/commits/0000000100.all.json every file of version 100, so that a reader needs few commits

Programs that list the directory leave out names that begin with `_`. Tasks write into `_headrace/files`. A commit is
one new file in `commits`, created only if it does not exist: two writers cannot both have it. Then the files of the
commit get their names in the directory. If a crash comes between, the next commit gives them their names. Readers of
ours open `_headrace/files`, where a file stays until no version of the last hours needs it. A program that lists the
directory can see a part of a commit for a moment: plain Parquet has no snapshots.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.dataset as ds

from headrace.pipelines.errors import OptionError, PipelineError
from headrace.tables.formats.file_set import FileFacts, dataset_of
from headrace.tables.formats.new_files import publish, sync_files
from headrace.tables.formats.table_files import Layout, refuse_used_path, write_file
from headrace.tables.formats.table_log import TOPIC, TOPIC_ID, CommitTaken, DataFile, Offsets, Snapshot, TableLog

PARQUET: Final = "parquet"
FILES: Final = "_headrace/files"
_COMMITS: Final = "_headrace/commits"
_WHOLE_EVERY: Final = 100


@dataclass(frozen=True)
class ParquetSnapshot:
    root: Path
    version: int
    columns: pa.Schema
    partition_columns: list[str]
    offsets: Offsets = field(default_factory=dict)
    entries: dict[str, DataFile] = field(default_factory=dict)

    def rows(self) -> int:
        return sum(file.rows for file in self.entries.values())

    def files(self) -> list[str]:
        return [str(self._place(name)) for name in self.entries]

    def _place(self, name: str) -> Path:
        return self.root / FILES / name

    def dataset(self) -> ds.Dataset:
        return dataset_of([FileFacts(str(self._place(e.path)), self._bounds(e)) for e in self.entries.values()],
                          self.columns)  # fmt: skip

    def data_files(self) -> ds.Dataset:
        return self.dataset()

    def _bounds(self, entry: DataFile) -> dict[str, tuple[object, object]]:
        stats = json.loads(entry.stats)
        bounds = {
            name: (self._value(name, low), self._value(name, stats["maxValues"][name]))
            for name, low in stats["minValues"].items()
            if not stats["nullCount"][name]
        }
        # The value of a folder is in its name only. Arrow takes the column of a scan from the same value twice.
        for name, text in entry.partition_values.items():
            value = self._folder_value(name, text)
            bounds[name] = (value, value)
        return bounds

    def _value(self, name: str, value: object) -> object:
        is_time = name in self.columns.names and pa.types.is_timestamp(self.columns.field(name).type)
        return datetime.fromisoformat(str(value)) if is_time and value is not None else value

    def _folder_value(self, name: str, text: str) -> object:
        return pa.scalar(text).cast(self.columns.field(name).type).as_py()


class ParquetLog(TableLog):
    kind = PARQUET

    def __init__(self, path: str, topic: str, topic_id: str) -> None:
        super().__init__(path, topic, topic_id)
        if "://" in path:
            raise OptionError(
                f"path {path!r}: format parquet needs a local path, because its log needs files that only one writer "
                "can create: choose the format delta or iceberg"
            )
        self._root = Path(path)
        self._newest: tuple[ParquetSnapshot, tuple[int, int]] | None = None

    @property
    def _about(self) -> Path:
        return self._root / "_headrace" / "table.json"

    def exists(self) -> bool:
        return self._about.exists()

    def _settings(self, _found: Snapshot) -> Mapping[str, str]:
        found = self._read(self._about)
        return {TOPIC: str(found["topic"]), TOPIC_ID: str(found["topic_id"])}

    def _read(self, file: Path) -> dict[str, object]:
        try:
            found = json.loads(file.read_text())
        except FileNotFoundError as error:
            raise PipelineError(
                f"{self.path} holds no Parquet table of Headrace: create it with 'headrace tables create'"
            ) from error
        except (OSError, ValueError) as error:
            raise PipelineError(f"{file}: {error}") from error
        assert isinstance(found, dict)
        return found

    def open(self) -> ParquetSnapshot:
        """The newest version. A log that was opened before reads only the commits that came since, so that a commit
        does not list all commits before it."""
        identity = self._identity()
        snapshot = self._known(identity) or self._read_all()
        while (name := _commit_name(snapshot.version + 1)) and (self._root / _COMMITS / name).exists():
            snapshot = self._apply(snapshot, name)
        self._newest = None if identity is None else (snapshot, identity)
        return snapshot

    def _known(self, identity: tuple[int, int] | None) -> ParquetSnapshot | None:
        """The version of the last call, if the table was not created again and later commits cannot be missing: the
        oldest are removed first."""
        if self._newest is None or self._newest[1] != identity:
            return None
        snapshot = self._newest[0]
        return snapshot if (self._root / _COMMITS / _commit_name(snapshot.version)).exists() else None

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = self._about.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns

    def _read_all(self) -> ParquetSnapshot:
        about = self._read(self._about)
        folders = about["partition_by"]
        assert isinstance(folders, list)
        snapshot = ParquetSnapshot(self._root, 0, _schema_of(about["columns"]), folders)
        names = sorted(file.name for file in (self._root / _COMMITS).glob("[0-9]*.json"))
        whole = max((name for name in names if name.endswith(".all.json")), default=None)
        if whole is not None:
            snapshot = self._apply(snapshot, whole)
        for name in names:
            number = int(name.partition(".")[0])
            if number > snapshot.version and not name.endswith(".all.json"):
                snapshot = self._apply(snapshot, name)
        return snapshot

    def _apply(self, before: ParquetSnapshot, name: str) -> ParquetSnapshot:
        found = self._read(self._root / _COMMITS / name)
        files = {} if name.endswith(".all.json") else dict(before.entries)
        for path in _list(found.get("removed")):
            files.pop(str(path), None)
        for entry in _list(found.get("added")):
            assert isinstance(entry, dict)
            files[entry["path"]] = DataFile(**entry)
        offsets = found["offsets"]
        assert isinstance(offsets, dict)
        return replace(
            before,
            version=int(name.partition(".")[0]),
            columns=_schema_of(found["columns"]) if "columns" in found else before.columns,
            offsets={int(index): int(end) for index, end in offsets.items()},
            entries=files,
        )

    def _create(self, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        refuse_used_path(self.path)
        about = {
            "topic": self.topic,
            "topic_id": self.topic_id,
            "partition_by": list(partition_by),
            "columns": _text_of(schema),
        }
        try:
            (self._root / _COMMITS).mkdir(parents=True, exist_ok=True)
            publish(self._about, json.dumps(about))
        except OSError as error:
            raise self.failed(error) from error

    def _commit_files(
        self,
        found: ParquetSnapshot,
        added: Sequence[DataFile],
        removed: Sequence[str],
        ends: Offsets,
        columns: pa.Schema | None = None,
    ) -> None:
        number = found.version + 1
        content: dict[str, object] = {
            "offsets": ends,
            "added": [_entry(file) for file in added],
            "removed": list(removed),
        }
        if columns is not None:
            content["columns"] = _text_of(columns)
        try:
            self._name_files(found)
            sync_files(self._root / FILES, [file.path for file in added])
            entry = self._root / _COMMITS / _commit_name(number)
            try:
                publish(entry, json.dumps(content))
            except FileExistsError as error:
                raise CommitTaken from error
            if found.version and not (self._root / _COMMITS / _commit_name(found.version)).exists():
                # Others committed this version and cleaned it up: the commit follows nothing.
                entry.unlink(missing_ok=True)
                raise CommitTaken
            after = self._apply(found, _commit_name(number))
            self._name_files(after)
            if number % _WHOLE_EVERY == 0:
                self._write_whole(after)
        except OSError as error:
            raise self.failed(error) from error

    def _write_whole(self, snapshot: ParquetSnapshot) -> None:
        content = {
            "offsets": snapshot.offsets,
            "added": [_entry(file) for file in snapshot.entries.values()],
            "columns": _text_of(snapshot.columns),
        }
        with contextlib.suppress(FileExistsError):
            publish(self._root / _COMMITS / f"{snapshot.version:010}.all.json", json.dumps(content))

    def _name_files(self, found: ParquetSnapshot) -> None:
        """Gives the files of the last commit their names in the directory, and takes away those of removed files. A
        repeated call changes nothing."""
        last = self._last_commit(found)
        for entry in _list(last.get("added")):
            assert isinstance(entry, dict)
            target = self._root / entry["path"]
            target.parent.mkdir(parents=True, exist_ok=True)
            # A file that is lost does not stop later commits: `repair` finds it.
            with contextlib.suppress(FileExistsError, FileNotFoundError):
                os.link(self._root / FILES / entry["path"], target)
        for path in _list(last.get("removed")):
            (self._root / str(path)).unlink(missing_ok=True)

    def _append(self, found: ParquetSnapshot, files: Sequence[DataFile], ends: Offsets, now_ms: int) -> None:  # type: ignore[override]
        self._commit_files(found, files, [], ends)

    def _upsert(self, found: ParquetSnapshot, latest: pa.Table, key: str, ends: Offsets) -> None:  # type: ignore[override]
        raise OptionError("format parquet cannot change rows: choose delta or iceberg for the mode upsert-by-key")

    def _evolve(self, found: ParquetSnapshot, schema: pa.Schema) -> None:  # type: ignore[override]
        self._commit_files(found, [], [], found.offsets, schema)

    def compact(self, target_size_bytes: int, keep_hours: int) -> dict[str, int]:
        found, joined, written = self.open(), 0, 0
        groups: dict[str, list[DataFile]] = {}
        for entry in found.entries.values():
            if entry.size_bytes < target_size_bytes // 2:
                groups.setdefault(json.dumps(dict(entry.partition_values)), []).append(entry)
        for keys, small in groups.items():
            values = json.loads(keys)
            column = next(iter(values), None)
            while len(small) > 1:
                group, small = _first_bin(small, target_size_bytes)
                if len(group) < 2:
                    continue
                part = replace(found, entries={entry.path: entry for entry in group})
                layout = Layout(self.path, found.columns, column, staging=FILES)
                row = write_file(layout, part.dataset().to_table(), values.get(column, "") if column else "")
                new = data_file(row)
                self._replace([new], [entry.path for entry in group])
                joined, written = joined + len(group), written + 1
        found = self.open()
        self._write_whole(found)
        return {"files_joined": joined, "files_written": written, "files_removed": self._remove_old(found, keep_hours)}

    def _remove_old(self, found: ParquetSnapshot, keep_hours: int) -> int:
        """Deletes replaced files, files of lost batches, and commits before the last whole one."""
        before, removed = time.time() - keep_hours * 3600, 0
        for file in sorted((self._root / FILES).rglob("*.parquet")):
            name = str(file.relative_to(self._root / FILES))
            if name not in found.entries and file.stat().st_ctime < before:
                file.unlink()
                removed += 1
        for file in sorted((self._root / _COMMITS).glob("[0-9]*.json")):
            if int(file.name.partition(".")[0]) >= found.version or file.stat().st_mtime >= before:
                break
            file.unlink()
        return removed

    def _last_commit(self, found: ParquetSnapshot) -> dict[str, object]:
        return self._read(self._root / _COMMITS / _commit_name(found.version)) if found.version else {}

    def forget(self, files: Sequence[str]) -> None:
        self._replace([], [name for name in self.open().entries if str(self._root / FILES / name) in set(files)])

    def _replace(self, new: Sequence[DataFile], old: Sequence[str]) -> None:
        def attempt(found: Snapshot) -> None:
            assert isinstance(found, ParquetSnapshot)
            self._commit_files(found, new, old, found.offsets)

        self._rewrite(attempt)


def data_file(row: Mapping[str, object]) -> DataFile:
    """The file of a row that a task returned."""
    size, rows = row["size"], row["rows"]
    assert isinstance(size, int)
    assert isinstance(rows, int)
    return DataFile(str(row["path"]), size, rows, json.loads(str(row["keys"])), str(row["stats"]))


def _entry(file: DataFile) -> dict[str, object]:
    return {
        "path": file.path,
        "size_bytes": file.size_bytes,
        "rows": file.rows,
        "partition_values": dict(file.partition_values),
        "stats": file.stats,
    }


def _commit_name(version: int) -> str:
    return f"{version:010}.json"


def _first_bin(files: list[DataFile], target: int) -> tuple[list[DataFile], list[DataFile]]:
    size, count = 0, 0
    for file in files:
        size += file.size_bytes
        if count and size > target:
            break
        count += 1
    return files[:count], files[count:]


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _text_of(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize()).decode()


def _schema_of(text: object) -> pa.Schema:
    return pa.ipc.read_schema(pa.BufferReader(base64.b64decode(str(text))))
