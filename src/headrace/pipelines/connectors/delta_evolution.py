"""New and wider columns of a flow's rows in its Delta table, when the connector may change the table.

Delta's writer adds columns by itself. It does not widen a column: that rewrites the files of the table, in one commit
without rows of the batch. Any other difference stops the flow, because the writer would cast the values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from headrace.pipelines.connectors.evolution import holds
from headrace.pipelines.errors import FlowStopped

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

_SPARK_NAMES: Final = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}


def fit_delta_table(table: DeltaTable, rows: pa.Schema, kinds: Mapping[str, str], *, evolves: bool) -> None:
    """Makes the table take rows with these columns (name → Spark type), or raises FlowStopped."""
    path = table.table_uri
    known = {field.name: _spark_name(str(field.type.to_json()).strip('"')) for field in table.schema().fields}
    new = [name for name in kinds if name not in known]
    if new and not evolves:
        raise FlowStopped(
            f"the Delta table {path} has no column {', '.join(map(repr, new))}: let the connector add it with "
            "evolve: true in to.delta, or leave it out in select"
        )
    wider = {}
    for name, kind in kinds.items():
        if name in new or holds(known[name], kind):
            continue
        if not holds(kind, known[name]) or not evolves:
            way = "cast it in select" if not holds(kind, known[name]) else "widen it with evolve: true in to.delta"
            raise FlowStopped(
                f"column {name!r} of the Delta table {path} is {known[name]}, but the rows have {kind}: {way}, or "
                "write to a new path"
            )
        wider[name] = rows.field(name).type
    if wider:
        _widen(table, wider)


def _spark_name(kind: str) -> str:
    return _SPARK_NAMES.get(kind, kind)


def _widen(table: DeltaTable, wider: Mapping[str, pa.DataType]) -> None:
    import pyarrow as pa
    from deltalake import write_deltalake

    data = table.to_pyarrow_dataset()
    schema = pa.schema([pa.field(one.name, wider.get(one.name, one.type), one.nullable) for one in data.schema])
    batches = (batch.cast(schema) for batch in data.to_batches())
    reader = pa.RecordBatchReader.from_batches(schema, batches)
    write_deltalake(table, reader, mode="overwrite", schema_mode="overwrite")
