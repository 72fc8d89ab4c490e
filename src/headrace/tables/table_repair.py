"""Repairs a table: files that are lost or damaged leave the table, and their records come from the topic again.

A damaged file is set aside under another name. A file that cannot be read for another reason (no right, no connection
to the store) stops the repair before it changes anything, because the file may be whole.

The records that the table should hold are those of the topic below the table's offsets. What the remaining rows lack is
appended in one commit that does not move the offsets. Records that retention removed from the topic stay lost, and the
answer names how many.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.client.blocking.client import BlockingClient
from headrace.kernel.plurals import counted
from headrace.pipelines.errors import PipelineError
from headrace.pipelines.source.offsets import OffsetRange
from headrace.tables.formats.table_files import OFFSET, PARTITION, Typed, file_system, file_writer
from headrace.tables.formats.table_log import DataFile, Snapshot
from headrace.tables.lake_table import APPEND, DAY, DAY_COLUMN, LakeTable
from headrace.tables.relations.topic_ranges import whole_topic
from headrace.tables.relations.topic_relation import KAFKA_COLUMNS
from headrace.tables.relations.topic_scan import read_range
from headrace.tables.table_logs import layout_of, log_of

# Enough to need the file itself and not only its directory.
_FOOTER_BYTES: Final = 8


@dataclass(frozen=True)
class Repaired:
    bad_files: int
    # Records that the topic gave back, and rows of bad files that it does not hold any more.
    records: int
    lost: int

    def row(self) -> dict[str, object]:
        return {"bad_files": self.bad_files, "records": self.records, "lost": self.lost}

    def sentence(self, *, dry_run: bool) -> str:
        if not self.bad_files:
            return "every file is there and can be read"
        if dry_run:
            return f"{counted(self.bad_files, 'file')} lost or damaged"
        lost = f"; {counted(self.lost, 'record')} of the time before the topic's first record lost" if self.lost else ""
        taken = f"took {counted(self.bad_files, 'file')} out"
        return f"{taken}, read {counted(self.records, 'record')} from the topic again{lost}"


def repair_table(table: LakeTable, client: BlockingClient, *, dry_run: bool) -> Repaired:
    log = log_of(table)
    found = log.check()
    bad = [file for file in found.files() if not is_readable(file)]
    if not bad or dry_run:
        return Repaired(len(bad), 0, 0)
    names = _positions(found)
    if table.mode != APPEND or names is None:
        raise PipelineError(
            f"{table.path}: {counted(len(bad), 'file')} lost or damaged, as {bad[0]}: only a table in the mode append "
            "that has the columns partition and offset can be repaired; drop it and create it again"
        )
    rows_before = found.rows()
    for file in bad:
        _set_aside(file)
    log.forget(bad)
    kept = log.open()
    records = _append_missing(table, client, kept, names)
    return Repaired(len(bad), records, max(rows_before - log.open().rows(), 0))


def is_readable(uri: str) -> bool:
    """Whether the file exists and has a whole Parquet footer. Raises PipelineError if the store does not say so."""
    files, path = file_system(uri)
    try:
        with files.open_input_file(path) as file:
            size = file.size()
            file.seek(max(size - _FOOTER_BYTES, 0))
            file.read()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise PipelineError(f"cannot read {uri}: {error}: make the file readable, then repair the table") from error
    try:
        with pq.ParquetFile(path, filesystem=files):
            return True
    except (OSError, pa.ArrowInvalid):  # Arrow raises OSError for damaged footers, too
        return False


def _set_aside(uri: str) -> None:
    """Moves a damaged file out of the way: Delta takes out only files that do not exist."""
    files, path = file_system(uri)
    try:
        files.move(path, f"{path}.damaged")
    except FileNotFoundError:
        return


def _positions(found: Snapshot) -> tuple[str, str] | None:
    for names in (("partition", "offset"), ("_partition", "_offset")):
        if set(names) <= set(found.columns.names):
            return names
    return None


def _append_missing(table: LakeTable, client: BlockingClient, kept: Snapshot, names: tuple[str, str]) -> int:
    log, typed = log_of(table), _typed(table, kept.columns)
    present: dict[int, list[np.ndarray]] = {}
    for batch in kept.dataset().to_batches(columns=list(names)):
        partitions, offsets = batch.column(names[0]).to_numpy(), batch.column(names[1]).to_numpy()
        for index in np.unique(partitions):
            present.setdefault(int(index), []).append(offsets[partitions == index])
    files, count = list[DataFile](), 0
    for part in whole_topic(client, table.topic):
        held = np.concatenate(present.get(part.partition, [np.empty(0, np.int64)]))
        piece = OffsetRange(part.topic, part.partition, part.start, kept.offsets.get(part.partition, part.start))
        missing = _missing(client, piece, held, table)
        for written in file_writer(layout_of(table, kept.columns), {}, typed)(missing):
            for row in written.to_pylist():
                if row["path"]:
                    keys = json.loads(row["keys"])
                    files.append(DataFile(row["path"], row["size"], row["rows"], keys, row["stats"]))
                    count += row["rows"]
    log.append(files, {}, kept.offsets, 0)
    return count


def _typed(table: LakeTable, columns: pa.Schema) -> Typed | None:
    if table.columns and not table.has_registry_columns:
        raise PipelineError(f"{table.path}: a table with SQL columns cannot be repaired: drop it and create it again")
    if not table.has_registry_columns:
        return None
    from headrace.tables.typed_rows import newest_that_fits

    return newest_that_fits(table.topic, table.registry, columns).with_columns(
        pa.schema([field for field in columns if field.name != DAY_COLUMN])
    )


def _missing(
    client: BlockingClient, piece: OffsetRange, held: np.ndarray, table: LakeTable
) -> Iterator[pa.RecordBatch]:
    if not piece.size:
        return
    for batch in read_range(client, piece, KAFKA_COLUMNS):
        absent = batch.filter(pa.array(~np.isin(batch.column("offset").to_numpy(), held)))
        rows = pa.Table.from_batches([absent])
        rows = rows.append_column(PARTITION, rows["partition"]).append_column(OFFSET, rows["offset"])
        if table.partition_by == DAY:
            rows = rows.append_column(DAY_COLUMN, rows["timestamp"].cast(pa.date32()))
        yield from rows.combine_chunks().to_batches()
