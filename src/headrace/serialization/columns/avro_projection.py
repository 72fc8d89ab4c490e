"""Columns of a writer's schema as the columns of a reader's, by Avro's rules of resolution.

`projection` returns None if the rules need more than renaming, widening and defaults: the caller then resolves record
by record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.kernel.dataclass import dataclass
from headrace.serialization.avro.defaults import default_value
from headrace.serialization.avro.schema import AvroSchema
from headrace.serialization.columns.avro_types import adjuster, arrow_type, is_record, logical_type, unwrapped

Mask = npt.NDArray[np.bool_]
_WIDENING: Final = {
    ("int", "long"), ("int", "float"), ("int", "double"), ("long", "float"), ("long", "double"), ("float", "double"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Step:
    """One column of the reader: a column of the writer, or the default if `source` is None."""

    source: str | None
    default: Any = None
    null_is_wrong: bool = False


class Projection:
    def __init__(self, steps: Sequence[Step], kind: pa.StructType) -> None:
        self._steps = steps
        self._kind = kind

    def project(self, columns: Mapping[str, pa.Array], count: int) -> tuple[list[pa.Array], Mask | None]:
        """(the reader's columns, rows that the reader cannot read or None)."""
        made: list[pa.Array] = []
        wrong: Mask | None = None
        for step, field in zip(self._steps, self._kind, strict=True):
            if step.source is None:
                made.append(pa.repeat(pa.scalar(step.default, field.type), count))
                continue
            column = columns[step.source]
            if step.null_is_wrong and column.null_count:
                nulls = np.asarray(column.is_null())
                wrong = nulls if wrong is None else wrong | nulls
            made.append(column if column.type == field.type else column.cast(field.type))
        return made, wrong


def projection(writer: AvroSchema, reader: AvroSchema, kind: pa.StructType) -> Projection | None:
    if not is_record(writer) or not is_record(reader):
        return None
    written = {field["name"]: field for field in writer.resolved(writer.root)["fields"]}
    steps: list[Step] = []
    for field in reader.resolved(reader.root)["fields"]:
        source = next((name for name in (field["name"], *field.get("aliases", ())) if name in written), None)
        if source is None:
            if "default" not in field:
                return None
            try:
                value, adjust = default_value(reader, field), adjuster(reader, field["type"])
            except ValueError:
                return None
            steps.append(Step(None, value if adjust is None else adjust(value)))
            continue
        old, old_null = unwrapped(writer, written[source]["type"])
        new, new_null = unwrapped(reader, field["type"])
        if not _is_simple(writer, old, reader, new):
            return None
        steps.append(Step(source, null_is_wrong=old_null and not new_null))
    return Projection(steps, kind)


def _is_simple(writer: AvroSchema, old: Any, reader: AvroSchema, new: Any) -> bool:
    if isinstance(old, list) or isinstance(new, list):
        return bool(old == new)
    old_kind, new_kind = (each["type"] if isinstance(each, dict) else each for each in (old, new))
    if isinstance(old_kind, str) and isinstance(new_kind, str) and (old_kind, new_kind) in _WIDENING:
        return logical_type(old) is None and logical_type(new) is None
    if old_kind != new_kind or logical_type(old) != logical_type(new):
        return False
    if old_kind == "enum":
        return set(old["symbols"]) <= set(new["symbols"])
    if old_kind in ("record", "error", "array", "map"):
        return bool(old == new) and arrow_type(writer, old) == arrow_type(reader, new)
    return True
