"""The latest row of each key in a batch: what the mode upsert-by-key merges into the table.

Records that cannot be decoded are no rows. So the latest is chosen among the others, and a table has the same rows
however its records are divided into batches.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from headrace.tables.formats.table_files import OFFSET, PARTITION, Typed
from headrace.tables.formats.table_log import DELETED
from headrace.tables.typed_rows import KEY


def latest_rows(rows: pa.Table, columns: pa.Schema, typed: Typed | None) -> tuple[pa.Table, int]:
    """(the last row of each key with the columns of the table and DELETED, number of undecodable records)."""
    if typed is None:
        latest = latest_of_each_key(rows, "key")
        is_deleted = pc.is_null(latest.column("value"))
        return latest.select(columns.names).cast(columns).append_column(DELETED, is_deleted), 0
    marked = rows.append_column(DELETED, pc.is_null(rows.column("value")))
    found = [typed(part) for part in marked.combine_chunks().to_batches()]
    if not found:
        return columns.empty_table().append_column(DELETED, pa.array([], pa.bool_())), 0
    latest = latest_of_each_key(pa.Table.from_batches([part for part, _ in found]), KEY)
    return latest.select([*columns.names, DELETED]), sum(failed for _, failed in found)


def latest_of_each_key(rows: pa.Table, key: str) -> pa.Table:
    """The last record of each key. A key is always in one partition, so offsets order its records. A record without a
    key has no place in a map of keys, as in a compacted topic."""
    keyed = rows.filter(pc.is_valid(rows.column(key)))
    ordered = keyed.sort_by([(PARTITION, "ascending"), (OFFSET, "ascending")])
    numbered = ordered.append_column("_row", pa.array(range(ordered.num_rows), pa.int64()))
    last = numbered.group_by(key).aggregate([("_row", "max")]).column("_row_max")
    return ordered.take(last)
