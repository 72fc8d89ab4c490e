"""Python values of an Arrow array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa


def python_values(array: pa.Array) -> list[Any]:
    """As `to_pylist`, with maps as dicts."""
    adjust = _adjuster(array.type)
    rows: list[Any] = array.to_pylist()
    return rows if adjust is None else [None if row is None else adjust(row) for row in rows]


def _adjuster(kind: pa.DataType) -> Callable[[Any], Any] | None:
    if pa.types.is_map(kind):
        inner = _adjuster(kind.item_type)
        return lambda pairs: {name: inner(each) if inner and each is not None else each for name, each in pairs}
    if pa.types.is_list(kind):
        inner = _adjuster(kind.value_type)
        return None if inner is None else lambda items: [each if each is None else inner(each) for each in items]
    if not pa.types.is_struct(kind):
        return None
    parts = {field.name: _adjuster(field.type) for field in kind}
    changed = {name: adjust for name, adjust in parts.items() if adjust is not None}

    def fields(row: dict[str, Any]) -> dict[str, Any]:
        done = {name: adjust(row[name]) for name, adjust in changed.items() if row[name] is not None}
        return {**row, **done}

    return fields if changed else None
