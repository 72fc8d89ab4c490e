"""Parquet files of a table, written by the tasks of a batch. A file is visible only when the driver commits it, so a
failed task leaves at most a file that no version names; `headrace tables compact` removes it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem, LocalFileSystem

WRITTEN_TYPE: Final = "path string, size bigint, rows bigint, keys string, stats string, ends string"


def file_system(path: str) -> tuple[FileSystem, str]:
    if "://" in path:
        found: tuple[FileSystem, str] = FileSystem.from_uri(path)
        return found
    return LocalFileSystem(), path


def file_writer(
    path: str, partition_by: str | None, offsets: dict[int, int], schema: pa.Schema
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function of `mapInArrow`: writes the rows of one task that the table does not hold yet."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kept = [new for batch in batches if (new := new_rows(batch, offsets)).num_rows]
        if not kept:
            return
        rows = pa.Table.from_batches(kept)
        ends = ends_of(rows)
        written = [
            _write(path, partition_by, value, part.select(schema.names).cast(schema), ends)
            for value, part in _parts(rows, partition_by)
        ]
        yield pa.RecordBatch.from_pylist(written)

    return write


def new_rows(batch: pa.RecordBatch, offsets: dict[int, int]) -> pa.RecordBatch:
    """The rows whose offset is not below the table's offset of their partition."""
    if not offsets:
        return batch
    partitions, position = batch.column("_partition").to_numpy(), batch.column("_offset").to_numpy()
    firsts = np.zeros(max([*offsets, int(partitions.max(initial=0))]) + 1, np.int64)
    for index, offset in offsets.items():
        firsts[index] = offset
    return batch.filter(pa.array(position >= firsts[partitions]))


def ends_of(rows: pa.Table) -> dict[int, int]:
    found = rows.group_by("_partition").aggregate([("_offset", "max")]).to_pylist()
    return {int(row["_partition"]): int(row["_offset_max"]) + 1 for row in found}


def _parts(rows: pa.Table, partition_by: str | None) -> Iterator[tuple[str, pa.Table]]:
    if partition_by is None:
        yield "", rows
        return
    column = rows.column(partition_by)
    for value in pc.unique(column):
        yield str(value.as_py()), rows.filter(pc.equal(column, value))


def _write(path: str, partition_by: str | None, value: str, rows: pa.Table, ends: dict[int, int]) -> dict[str, object]:
    name = f"part-{uuid.uuid4()}.zstd.parquet"
    if partition_by is not None:
        name, rows = f"{partition_by}={value}/{name}", rows.drop_columns([partition_by])
    files, root = file_system(path)
    target = f"{root}/{name}"
    files.create_dir(target.rsplit("/", 1)[0], recursive=True)
    pq.write_table(rows, target, filesystem=files, compression="zstd")
    return {
        "path": name,
        "size": files.get_file_info(target).size,
        "rows": rows.num_rows,
        "keys": json.dumps({partition_by: value} if partition_by is not None else {}),
        "stats": json.dumps(_stats(rows)),
        "ends": json.dumps(ends),
    }


def _stats(rows: pa.Table) -> dict[str, object]:
    """Smallest and largest offset and time: readers skip files by them."""
    named = [name for name in ("partition", "offset", "timestamp") if name in rows.column_names]
    bounds = {name: pc.min_max(rows.column(name)).as_py() for name in named}
    return {
        "numRecords": rows.num_rows,
        "minValues": {name: _plain(found["min"]) for name, found in bounds.items()},
        "maxValues": {name: _plain(found["max"]) for name, found in bounds.items()},
        "nullCount": {name: rows.column(name).null_count for name in named},
    }


def _plain(value: object) -> object:
    return value.isoformat(timespec="microseconds").replace("+00:00", "Z") if hasattr(value, "isoformat") else value
