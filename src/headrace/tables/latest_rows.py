"""The latest row of each key in a batch: what the mode upsert-by-key merges into the table."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from headrace.tables.formats.table_files import OFFSET, PARTITION, Typed
from headrace.tables.formats.table_log import DELETED


def latest_rows(rows: pa.Table, columns: pa.Schema, typed: Typed | None) -> tuple[pa.Table, int]:
    """(the last row of each key with the columns of the table and DELETED, number of undecodable records)."""
    latest = latest_of_each_key(rows)
    is_deleted = pc.is_null(latest.column("value"))
    if typed is None:
        return latest.select(columns.names).cast(columns).append_column(DELETED, is_deleted), 0
    batch = latest.append_column(DELETED, is_deleted).combine_chunks().to_batches()
    found = [typed(part) for part in batch]
    kept = pa.Table.from_batches([part for part, _ in found], None if found else columns)
    if not found:
        return kept.append_column(DELETED, pa.array([], pa.bool_())), 0
    return kept.select([*columns.names, DELETED]), sum(failed for _, failed in found)


def latest_of_each_key(rows: pa.Table) -> pa.Table:
    """The last record of each key. A key is always in one partition, so offsets order its records. A record without a
    key has no place in a map of keys, as in a compacted topic."""
    keyed = rows.filter(pc.is_valid(rows.column("key")))
    ordered = keyed.sort_by([(PARTITION, "ascending"), (OFFSET, "ascending")])
    numbered = ordered.append_column("_row", pa.array(range(ordered.num_rows), pa.int64()))
    last = numbered.group_by("key").aggregate([("_row", "max")]).column("_row_max")
    return ordered.take(last)
