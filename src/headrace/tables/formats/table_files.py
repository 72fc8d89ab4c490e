"""Parquet files of a table, written by the tasks of a batch. A file is visible only when the driver commits it, so a
failed task leaves at most a file that no version names; `headrace tables compact` removes it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem, PyFileSystem

from headrace.pipelines.errors import PipelineError
from headrace.tables.formats.hadoop_uris import is_hadoop, split_uri
from headrace.tables.formats.packed_headers import unpacked

WRITTEN_TYPE: Final = "path string, size bigint, rows bigint, keys string, stats string, ends string, failed bigint"
# The position of each record, beside the columns of the table.
PARTITION: Final = "__partition"
OFFSET: Final = "__offset"
# Columns whose bounds are in the log: readers skip files by them.
PRUNED: Final = ("partition", "offset", "timestamp", "_partition", "_offset", "_timestamp")
# A task writes a row group when it has this many bytes of rows.
_ROW_GROUP_BYTES: Final = 64 << 20


def file_system(path: str) -> tuple[FileSystem, str]:
    """The file system of a path or URI, and the path in it. Arrow reads HDFS only with Hadoop's native library, which
    few machines have, so `hdfs://` has a file system of ours."""
    if is_hadoop(path):
        from headrace.tables.formats.hadoop_client import HadoopHandler

        root, inside = split_uri(path)
        return PyFileSystem(HadoopHandler(root)), inside
    if "://" in path:
        found: tuple[FileSystem, str] = FileSystem.from_uri(path)
        return found
    return LocalFileSystem(), path


def refuse_used_path(path: str) -> None:
    """A new table needs an empty place: it must not mix its files with those of another table."""
    files, root = file_system(path)
    if files.get_file_info(FileSelector(root, allow_not_found=True)):
        raise PipelineError(f"{path} is not empty and holds no table of Headrace: choose another path")


@dataclass(frozen=True)
class Layout:
    """Where the files of a table are and what is in them. Sent to executors."""

    path: str
    columns: pa.Schema
    # The column whose values are folders, and whether the files have this column too.
    folder_by: str | None = None
    keeps_folder_column: bool = False
    # The folder of files that are not committed yet.
    staging: str = ""

    @property
    def file_columns(self) -> pa.Schema:
        names = [n for n in self.columns.names if self.keeps_folder_column or n != self.folder_by]
        return pa.schema([self.columns.field(name) for name in names])


Typed = Callable[[pa.RecordBatch], tuple[pa.RecordBatch, int]]
FileWriter = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def file_writer(
    layout: Layout, offsets: dict[int, int], typed: Typed | None = None, *, has_packed_headers: bool = False
) -> FileWriter:
    """The function of `mapInArrow`: writes the rows of one task that the table does not hold yet. `typed` makes the
    columns of the table from a batch, and returns how many rows it could not decode. A task whose rows all failed
    returns its offsets without a file."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        ends: dict[int, int] = {}
        files: dict[str, _OpenFile] = {}
        failed = 0
        for batch in batches:
            fresh = new_rows(batch, offsets)
            if not fresh.num_rows:
                continue
            if has_packed_headers:
                fresh = unpacked(fresh)
            for index, end in ends_of(pa.Table.from_batches([fresh])).items():
                ends[index] = max(end, ends.get(index, 0))
            if typed is not None:
                fresh, without_columns = typed(fresh)
                failed += without_columns
            for value, part in _parts(pa.Table.from_batches([fresh]), layout.folder_by):
                if part.num_rows:
                    if value not in files:
                        files[value] = _OpenFile(layout, value)
                    files[value].add(part)
        if ends:
            nothing: dict[str, object] = {"path": "", "size": 0, "rows": 0, "keys": "{}", "stats": "{}"}
            written = [file.close() for file in files.values()] or [nothing]
            yield pa.RecordBatch.from_pylist([{**row, "ends": json.dumps(ends), "failed": failed} for row in written])

    return write


def new_rows(batch: pa.RecordBatch, offsets: dict[int, int]) -> pa.RecordBatch:
    """The rows whose offset is not below the table's offset of their partition."""
    if not offsets:
        return batch
    partitions, position = batch.column(PARTITION).to_numpy(), batch.column(OFFSET).to_numpy()
    firsts = np.zeros(max([*offsets, int(partitions.max(initial=0))]) + 1, np.int64)
    for index, offset in offsets.items():
        firsts[index] = offset
    return batch.filter(pa.array(position >= firsts[partitions]))


def ends_of(rows: pa.Table) -> dict[int, int]:
    found = rows.group_by(PARTITION).aggregate([(OFFSET, "max")]).to_pylist()
    return {int(row[PARTITION]): int(row[f"{OFFSET}_max"]) + 1 for row in found}


def _parts(rows: pa.Table, folder_by: str | None) -> Iterator[tuple[str, pa.Table]]:
    if folder_by is None:
        yield "", rows
        return
    column = rows.column(folder_by)
    for value in pc.unique(column):
        yield str(value.as_py()), rows.filter(pc.equal(column, value))


class _OpenFile:
    """A file that gets rows until its task ends."""

    def __init__(self, layout: Layout, folder: str) -> None:
        self._folder_by, self._folder = layout.folder_by, folder
        self._columns, self._waiting, self._waiting_bytes, self._rows = layout.file_columns, list[pa.Table](), 0, 0
        name = f"part-{uuid.uuid4()}.zstd.parquet"
        self._name = name if layout.folder_by is None else f"{layout.folder_by}={folder}/{name}"
        self._files, root = file_system(layout.path)
        self._target = "/".join(part for part in (root, layout.staging, self._name) if part)
        self._files.create_dir(self._target.rsplit("/", 1)[0], recursive=True)
        self._writer = pq.ParquetWriter(self._target, self._columns, filesystem=self._files, compression="zstd")
        self._stats = _Stats()

    def add(self, rows: pa.Table) -> None:
        chosen = rows.select(self._columns.names).cast(self._columns)
        self._stats.add(chosen)
        self._rows += chosen.num_rows
        self._waiting.append(chosen)
        self._waiting_bytes += chosen.nbytes
        if self._waiting_bytes >= _ROW_GROUP_BYTES:
            self._write_waiting()

    def _write_waiting(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting))
            self._waiting, self._waiting_bytes = [], 0

    def close(self) -> dict[str, object]:
        self._write_waiting()
        self._writer.close()
        return {
            "path": self._name,
            "size": self._files.get_file_info(self._target).size,
            "rows": self._rows,
            "keys": json.dumps({} if self._folder_by is None else {self._folder_by: self._folder}),
            "stats": json.dumps(self._stats.plain()),
        }


def refuse_missing_files(layout: Layout, names: Sequence[str]) -> None:
    """A commit must not name a file that is gone, for example because a clean-up took it for an unused one."""
    files, root = file_system(layout.path)
    paths = ["/".join(part for part in (root, layout.staging, name) if part) for name in names]
    for info in files.get_file_info(paths):
        if info.type is FileType.NotFound:
            raise PipelineError(
                f"{info.path} was removed before it could be committed to the table: run the batch again, and let no "
                "other program clean the table's directory meanwhile"
            )


def write_file(layout: Layout, rows: pa.Table, folder: str = "") -> dict[str, object]:
    """Writes one file. Returns the same facts as a task."""
    file = _OpenFile(layout, folder)
    file.add(rows)
    return {**file.close(), "ends": "{}"}


class _Stats:
    """Smallest and largest offset and time, in the form of Delta."""

    def __init__(self) -> None:
        self._rows, self._nulls = 0, dict[str, int]()
        # Whole numbers or times.
        self._bounds: dict[str, tuple[Any, Any]] = {}

    def add(self, rows: pa.Table) -> None:
        self._rows += rows.num_rows
        for name in PRUNED:
            if name not in rows.column_names or not _has_bounds(rows.schema.field(name).type):
                continue
            found = pc.min_max(rows.column(name)).as_py()
            low, high = self._bounds.get(name, (found["min"], found["max"]))
            if found["min"] is not None:
                low = found["min"] if low is None else min(low, found["min"])
                high = found["max"] if high is None else max(high, found["max"])
            self._bounds[name] = (low, high)
            self._nulls[name] = self._nulls.get(name, 0) + rows.column(name).null_count

    def plain(self) -> dict[str, object]:
        return {
            "numRecords": self._rows,
            "minValues": {name: _plain(low) for name, (low, _) in self._bounds.items()},
            "maxValues": {name: _plain(high) for name, (_, high) in self._bounds.items()},
            "nullCount": self._nulls,
        }


def _has_bounds(kind: pa.DataType) -> bool:
    """A field of a typed table may have the name of a position and any type. Others have no order, or no JSON."""
    return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind))


def _plain(value: object) -> object:
    return value.isoformat(timespec="microseconds").replace("+00:00", "Z") if hasattr(value, "isoformat") else value
