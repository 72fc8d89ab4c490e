"""Upkeep of Iceberg tables: joins small files, and removes snapshots and files that no reader needs.

Every commit of Iceberg writes the list of all snapshots again, so a table must not keep one per commit. A table keeps
the newest snapshots, and one per interval (a 24th of the time that readers have). A file that a commit replaced is in
the last kept snapshot before this commit, or was written after it. So it lives for the promised time if snapshots and
files live two intervals longer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

import pyarrow as pa
from pyarrow.fs import FileSelector, FileType
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from headrace.tables.formats.file_set import FileFacts, dataset_of
from headrace.tables.formats.table_files import file_system
from headrace.tables.formats.table_log import OFFSETS

_REMOVABLE: Final = (".parquet", ".avro")
_INTERVALS: Final = 24
_NEWEST: Final = 10
# A commit that finds more snapshots than this removes the unneeded ones. Up to 37 are needed.
MOST_SNAPSHOTS: Final = 60


def unneeded_snapshots(table: Table, keep_ms: int, now_ms: int) -> list[int]:
    found = sorted(table.snapshots(), key=lambda snapshot: snapshot.timestamp_ms, reverse=True)
    interval_ms = keep_ms // _INTERVALS
    needed = {ref.snapshot_id for ref in table.refs().values()} | _way_to_offsets(table)
    intervals = set[int]()
    for number, snapshot in enumerate(found):
        if not interval_ms or snapshot.timestamp_ms < now_ms - keep_ms - 2 * interval_ms:
            break
        interval = snapshot.timestamp_ms // interval_ms
        if number < _NEWEST or interval not in intervals:
            needed.add(snapshot.snapshot_id)
        intervals.add(interval)
    return [snapshot.snapshot_id for snapshot in found if snapshot.snapshot_id not in needed]


def _way_to_offsets(table: Table) -> set[int]:
    """The newest snapshot and its ancestors up to the one with the offsets: other programs write snapshots without."""
    way, found = set[int](), table.current_snapshot()
    while found is not None:
        way.add(found.snapshot_id)
        if found.summary is not None and found.summary.get(OFFSETS):
            break
        found = table.snapshot_by_id(found.parent_snapshot_id) if found.parent_snapshot_id else None
    return way


def unneeded_before(keep_hours: int, now: datetime) -> datetime:
    """Files that no snapshot names and that were written before are not needed by any reader."""
    keep = timedelta(hours=keep_hours)
    return now - keep - 2 * keep / _INTERVALS


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
