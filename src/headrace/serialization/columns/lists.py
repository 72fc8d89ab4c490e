"""Arrow's list type with the field name that Spark uses. Spark rejects batches whose names differ."""

from __future__ import annotations

import pyarrow as pa


def list_of(kind: pa.DataType) -> pa.ListType:
    return pa.list_(pa.field("element", kind))
