"""Columns of simple types, declared as in Spark ("id bigint, text string"), and their values as JSON.

The journal of a source and the runner without Spark keep rows in this form.
"""

from __future__ import annotations

import base64
import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from headrace.pipelines.errors import OptionError, PipelineError

# A value has the type of its column, which is known only when the connector runs.
Value: TypeAlias = Any
Json: TypeAlias = str | int | float | bool | None

_COLUMN: Final = re.compile(r"\s*(?:`([^`]+)`|([A-Za-z_]\w*))\s+([A-Za-z]+)\s*")
_SAME_AS: Final = {"integer": "int", "long": "bigint", "float": "double", "text": "string", "bytes": "binary"}
TYPES: Final = ("string", "binary", "boolean", "int", "bigint", "double", "timestamp")


@dataclass(frozen=True)
class Column:
    name: str
    kind: str

    def to_json(self, value: object) -> Json:
        """Raises PipelineError if the value is not of the column's type."""
        if value is None:
            return None
        try:
            return _TO_JSON[self.kind](value)
        except (TypeError, ValueError, AttributeError):
            shown = repr(value)[:60]
            raise PipelineError(f"column {self.name!r} is {self.kind}, but a row has {shown} there") from None

    def from_json(self, value: Json) -> Value:
        if value is None or self.kind not in ("binary", "timestamp"):
            return value
        if self.kind == "binary":
            return base64.b64decode(str(value))
        return datetime.datetime.fromisoformat(str(value))


def parse_columns(declared: str) -> tuple[Column, ...]:
    found = []
    for part in declared.split(","):
        match = _COLUMN.fullmatch(part)
        kind = _SAME_AS.get(match[3].lower(), match[3].lower()) if match else ""
        if match is None or kind not in TYPES:
            raise OptionError(
                f"columns {declared!r}: {part.strip()!r} must be a name and one of the types {', '.join(TYPES)}"
            )
        found.append(Column(match[1] or match[2], kind))
    return tuple(found)


def rows_to_json(columns: Sequence[Column], rows: Sequence[Mapping[str, Value]]) -> list[list[Json]]:
    names = {column.name for column in columns}
    for row in rows:
        if unknown := next((name for name in row if name not in names), None):
            raise PipelineError(f"a row has the column {unknown!r}, which the source does not declare")
    return [[column.to_json(row.get(column.name)) for column in columns] for row in rows]


def row_from_json(columns: Sequence[Column], values: Sequence[Json]) -> tuple[Value, ...]:
    return tuple(column.from_json(value) for column, value in zip(columns, values, strict=True))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return encodable(value)


def encodable(text: str) -> str:
    """An escape in JSON may be half of a character (\\ud800), which UTF-8 cannot have. Java writes a question mark."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError
    return float(value)


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _bytes(value: object) -> str:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError
    return base64.b64encode(value).decode()


def _instant(value: object) -> str:
    if isinstance(value, str):
        value = datetime.datetime.fromisoformat(value)
    if not isinstance(value, datetime.datetime):
        raise TypeError
    # A time without a zone is UTC: rows must not depend on the machine that runs the connector.
    return (value if value.tzinfo else value.replace(tzinfo=datetime.UTC)).astimezone(datetime.UTC).isoformat()


_TO_JSON: Final[dict[str, Callable[[object], Json]]] = {
    "string": _text,
    "binary": _bytes,
    "boolean": _boolean,
    "int": _whole,
    "bigint": _whole,
    "double": _number,
    "timestamp": _instant,
}
