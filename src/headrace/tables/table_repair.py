"""Repairs a table: files that are lost or damaged leave the table, and their records come from the topic again.

A damaged file is set aside under another name. A file that cannot be read for another reason (no right, no connection
to the store) stops the repair before it changes anything, because the file may be whole.

The records that the table should hold are those of the topic from the first offsets of the table to those of now. What
the whole files lack is appended in one commit that does not move the offsets. Only the next commit takes the bad files
out. So a repair that dies between the two finds the bad files again, and no missing rows. A running writer may commit
at any time: its rows are at or after the offsets that the repair began with. Records that retention removed from the
topic stay lost, and the answer names how many.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
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
from headrace.tables.table_logs import layout_of, log_of, record_columns

# Enough to need the file itself and not only its directory.
_FOOTER_BYTES: Final = 8


@dataclass(frozen=True)
class _Missing:
    """What the whole files lack: new files with the records of the topic, and rows that it does not hold."""

    files: list[DataFile]
    records: int
    lost: int


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
    missing = _write_missing(table, client, found, bad, names)
    if missing.files:
        log.add(missing.files)
    for file in bad:
        _set_aside(file)
    log.forget(bad)
    return Repaired(len(bad), missing.records, missing.lost)


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


def _write_missing(
    table: LakeTable, client: BlockingClient, found: Snapshot, bad: Sequence[str], names: tuple[str, str]
) -> _Missing:
    """Writes the records of the topic below the table's offsets that no whole file has. Does not commit them."""
    typed, held = _typed(table, found.columns), _held(found, bad, names)
    files, count = list[DataFile](), 0
    for part in whole_topic(client, table.topic):
        present = held.get(part.partition, np.empty(0, np.int64))
        start = max([part.start, *table.begins_at[part.partition : part.partition + 1]])
        piece = OffsetRange(part.topic, part.partition, start, found.offsets.get(part.partition, start))
        missing = _missing(client, piece, present, table)
        for written in file_writer(layout_of(table, found.columns), {}, typed)(missing):
            for row in written.to_pylist():
                if row["path"]:
                    keys = json.loads(row["keys"])
                    files.append(DataFile(row["path"], row["size"], row["rows"], keys, row["stats"]))
                    count += row["rows"]
    rows = sum(len(offsets) for offsets in held.values())
    # After a repair that died, the table has rows both in a bad file and in a new one: offsets without a row bound the
    # number of the lost ones.
    without_row = sum(found.offsets.values()) - sum(table.begins_at) - rows - count
    return _Missing(files, count, max(min(found.rows() - rows - count, without_row), 0))


def _held(found: Snapshot, bad: Sequence[str], names: tuple[str, str]) -> dict[int, np.ndarray]:
    """The offsets of each partition in the files that are whole."""
    dataset = found.data_files()
    whole = [part for part in dataset.get_fragments() if not any(_is_named(part.path, uri) for uri in bad)]
    held: dict[int, list[np.ndarray]] = {}
    for batch in ds.FileSystemDataset(whole, dataset.schema, dataset.format, dataset.filesystem).to_batches(
        columns=list(names)
    ):
        partitions, offsets = batch.column(names[0]).to_numpy(), batch.column(names[1]).to_numpy()
        for index in np.unique(partitions):
            held.setdefault(int(index), []).append(offsets[partitions == index])
    return {index: np.unique(np.concatenate(parts)) for index, parts in held.items()}


def _is_named(path: str, uri: str) -> bool:
    """Whether the path of a file, from the root of its store or of the table, is that of the URI."""
    return uri == path or uri.endswith(f"/{path}")


def _typed(table: LakeTable, columns: pa.Schema) -> Typed | None:
    if table.columns and not table.has_registry_columns:
        raise PipelineError(f"{table.path}: a table with SQL columns cannot be repaired: drop it and create it again")
    if not table.has_registry_columns:
        return None
    from headrace.tables.typed_rows import newest_that_fits

    return newest_that_fits(table.topic, table.registry, columns).with_columns(record_columns(table, columns))


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
