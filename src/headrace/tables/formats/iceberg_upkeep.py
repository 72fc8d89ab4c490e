"""Upkeep of Iceberg tables: joins small files, and removes files that no snapshot needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from typing import Final

import pyarrow as pa
from pyarrow.fs import FileSelector, FileType
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from headrace.tables.formats.file_set import FileFacts, dataset_of
from headrace.tables.formats.table_files import file_system

_REMOVABLE: Final = (".parquet", ".avro")


def join_small_files(
    table: Table, columns: pa.Schema, target_size_bytes: int
) -> Iterator[tuple[list[DataFile], pa.Table]]:
    """Groups of files of one partition with their rows. A file of half the target size or more stays as it is."""
    groups: dict[str, list[DataFile]] = defaultdict(list)
    for task in table.scan().plan_files():
        if task.file.file_size_in_bytes < target_size_bytes // 2 and not task.delete_files:
            groups[str(task.file.partition)].append(task.file)
    for small in groups.values():
        for group in _bins(small, target_size_bytes):
            facts = [FileFacts(file.file_path.removeprefix("file://"), {}) for file in group]
            yield group, dataset_of(facts, columns).to_table()


def _bins(files: list[DataFile], target_size_bytes: int) -> Iterator[list[DataFile]]:
    chosen: list[DataFile] = []
    size = 0
    for file in files:
        if chosen and size + file.file_size_in_bytes > target_size_bytes:
            if len(chosen) > 1:
                yield chosen
            chosen, size = [], 0
        chosen.append(file)
        size += file.file_size_in_bytes
    if len(chosen) > 1:
        yield chosen


def remove_unused_files(table: Table, path: str, before: datetime) -> int:
    """Deletes files below the table that no snapshot names and that were written before the given time: a running
    writer may have newer ones that it has not committed yet."""
    used = set[str]()
    for snapshot in table.snapshots():
        used.add(_name(snapshot.manifest_list))
        for manifest in snapshot.manifests(table.io):
            used.add(_name(manifest.manifest_path))
            used |= {_name(entry.data_file.file_path) for entry in manifest.fetch_manifest_entry(table.io, True)}
    system, root = file_system(path)
    removed = 0
    for info in system.get_file_info(FileSelector(root, recursive=True)):
        is_old = info.mtime is not None and info.mtime < before
        if info.type is FileType.File and info.path.endswith(_REMOVABLE) and is_old and _name(info.path) not in used:
            system.delete_file(info.path)
            removed += 1
    return removed


def _name(path: str) -> str:
    """Names of files are unique in a table; the spelling of its location is not."""
    return path.rsplit("/", 1)[-1]
