"""The columns that a table gets from a newer schema. Columns are added at the end and types become wider; a column that
the newer schema does not have stays and is null in new rows. Everything else would change rows that exist."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from headrace.pipelines.errors import PipelineError

_WIDER: Final[dict[pa.DataType, tuple[pa.DataType, ...]]] = {
    pa.int8(): (pa.int16(), pa.int32(), pa.int64()),
    pa.int16(): (pa.int32(), pa.int64()),
    pa.int32(): (pa.int64(),),
    pa.float32(): (pa.float64(),),
}


class IncompatibleColumns(PipelineError):
    """A newer schema does not fit the table."""


def widened(old: pa.Schema, new: pa.Schema, whose: str) -> tuple[pa.Schema, list[str]]:
    """(the columns of both, one sentence per change). Raises IncompatibleColumns."""
    fields, changes = [], []
    for field in old:
        wanted = new.field(field.name).type if field.name in new.names else field.type
        kind = _wider(field.type, wanted)
        if kind is None:
            raise IncompatibleColumns(
                f"{whose}: column {field.name!r} is {field.type} and the newer schema makes it {wanted}: a table can "
                "only get wider numbers; register a compatible schema, or create a table with another path"
            )
        if kind != field.type:
            changes.append(f"column {field.name!r} becomes {kind} (was {field.type})")
        fields.append(pa.field(field.name, kind, True))
    for field in new:
        if field.name not in old.names:
            changes.append(f"column {field.name!r} added ({field.type})")
            fields.append(pa.field(field.name, field.type, True))
    return pa.schema(fields), changes


def in_columns(batch: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    """The batch with the columns of a later version of its table."""
    arrays = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=columns)


def _wider(old: pa.DataType, new: pa.DataType) -> pa.DataType | None:
    """The wider of both types; None if neither contains the other."""
    if old == new or old in _WIDER.get(new, ()):
        return old
    if new in _WIDER.get(old, ()):
        return new
    if pa.types.is_decimal(old) and pa.types.is_decimal(new) and old.scale == new.scale:
        return max(old, new, key=lambda kind: kind.precision)
    if pa.types.is_struct(old) and pa.types.is_struct(new):
        try:
            return pa.struct(list(widened(pa.schema(list(old)), pa.schema(list(new)), "")[0]))
        except IncompatibleColumns:
            return None
    if pa.types.is_list(old) and pa.types.is_list(new):
        item = _wider(old.value_type, new.value_type)
        return None if item is None else pa.list_(item)
    return None
