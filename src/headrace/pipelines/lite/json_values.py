"""JSON values by a schema of simple columns, with the results of `decode`: columns, a reason for a bad value, a mark
for a tombstone. Spark's reader of JSON decides what is good; tests compare the two.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.pipelines.connectors.settings import End
from headrace.pipelines.errors import OptionError, PipelineError
from headrace.pipelines.flows.dead_letter_headers import (
    ERROR_HEADER,
    OFFSET_HEADER,
    PARTITION_HEADER,
    PREFIX,
    RETRIES_HEADER,
    SUFFIX,
    TIMESTAMP_HEADER,
    TOPIC_HEADER,
)
from headrace.pipelines.lite.rows import DELETED, ERROR, KEY, LiteRow, not_in_lite
from headrace.pipelines.lite.spark_text import double_text
from headrace.pipelines.lite.topic_rows import deleted_row
from headrace.pipelines.plugins.columns import Column, Value, encodable, parse_columns
from headrace.records.builder import Record

_TYPES: Final = ("string", "int", "bigint", "double", "boolean")
_RULES: Final = ("extra_field", "missing_field", "trailing_text")
_CHOICES: Final = ("letter", "null", "fail")
_RANGES: Final = {"int": 2**31, "bigint": 2**63}
_WORDS: Final = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
# The record of a bad row, for its dead letter.
RECORD: Final = "_record"


class _Number(str):
    """A number as it is written: whole numbers may have more digits than any type holds."""

    @property
    def text(self) -> str:
        """The number in a text column: Spark reads a number with a fraction or an exponent as a double first."""
        return str(self) if self.lstrip("-").isdigit() else double_text(float(self))


@dataclass(frozen=True)
class JsonValues:
    columns: tuple[Column, ...]
    rules: Mapping[str, str]

    @classmethod
    def of(cls, end: End) -> JsonValues:
        if end.text("format", "json") != "json":
            raise not_in_lite(end.place, f"its format is {end.text('format')}")
        try:
            columns = parse_columns(end.text("schema"))
        except OptionError as error:
            raise not_in_lite(end.place, f"its schema has types that only Spark reads ({error})") from error
        if other := next((column for column in columns if column.kind not in _TYPES), None):
            raise not_in_lite(end.place, f"column {other.name!r} is {other.kind}")
        rules = {name: end.text(name, "letter") for name in _RULES}
        for name, choice in rules.items():
            if choice not in _CHOICES:
                raise OptionError(f'{name}={choice!r}: must be "letter", "null" or "fail"')
        return cls(columns, rules)

    def row(self, topic: str, partition: int, record: Record) -> LiteRow:
        if record.value is None:
            return deleted_row(self.columns, record)
        values, problem = self.decode(record.value.decode(errors="replace"))
        row: LiteRow = {**values, DELETED: False, ERROR: problem}
        row[KEY] = None if record.key is None else record.key.decode(errors="replace")
        if problem is not None:
            row[RECORD] = (topic, partition, record)
        return row

    def decode(self, text: str) -> tuple[LiteRow, str | None]:
        """The columns, and what is wrong with the value."""
        nothing = dict.fromkeys((column.name for column in self.columns), None)
        if not text.strip():
            return nothing, "empty"
        bad = f"not JSON of the schema: {text[:200]}"
        begin = len(text) - len(text.lstrip())
        # Brackets may be nested too deeply for any reader.
        try:
            found, end = _DECODER.raw_decode(text, begin)
        except (ValueError, RecursionError):
            return nothing, bad
        if not isinstance(found, dict):
            return nothing, bad
        try:
            values = {column.name: _value(column, found.get(column.name)) for column in self.columns}
        except (ValueError, RecursionError):
            return nothing, bad
        problem = self._strict(found, text[end:])
        return values, None if problem is None else encodable(problem)

    def _strict(self, found: Mapping[str, object], rest: str) -> str | None:
        names = [column.name for column in self.columns]
        extra, missing = [name for name in found if name not in names], [name for name in names if name not in found]
        problems = {
            "extra_field": f"extra field: {', '.join(extra)}" if extra else "",
            "missing_field": f"missing: {', '.join(missing)}" if missing else "",
            "trailing_text": "text after the end of the JSON value" if rest.strip() else "",
        }
        reason = None
        for rule in _RULES:
            if problems[rule] and self.rules[rule] == "fail":
                raise PipelineError(problems[rule])
            if problems[rule] and self.rules[rule] == "letter":
                reason = problems[rule]
        return reason


_DECODER: Final = json.JSONDecoder(parse_int=_Number, parse_float=_Number, parse_constant=_Number)


def _value(column: Column, value: Value) -> Value:
    """Raises ValueError for a value of another type."""
    if value is None:
        return None
    is_number = isinstance(value, _Number)
    match column.kind:
        case "string":
            return encodable(value if isinstance(value, str) and not is_number else _compact(value))
        case "boolean":
            if isinstance(value, bool):
                return value
        case "double":
            if is_number:
                return float(value)
            if isinstance(value, str) and value in _WORDS:
                return _WORDS[value]
        case _:
            if is_number and value.lstrip("-").isdigit():
                number, limit = int(value), _RANGES[column.kind]
                if -limit <= number < limit:
                    return number
    raise ValueError


def _compact(value: Value) -> str:
    if isinstance(value, _Number):
        return value.text
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k, ensure_ascii=False)}:{_compact(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_compact, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def letter(row: LiteRow) -> LiteRow:
    """The dead letter of a bad row: the record's key, value and headers, and headers that say why and where from."""
    topic, partition, record = row[RECORD]
    kept = [(name, value) for name, value in record.headers if not name.startswith(PREFIX) or name == RETRIES_HEADER]
    ours = {
        ERROR_HEADER: row[ERROR],
        TOPIC_HEADER: topic,
        PARTITION_HEADER: partition,
        OFFSET_HEADER: record.offset,
        TIMESTAMP_HEADER: record.timestamp_ms,
    }
    headers = [*kept, *((name, str(value).encode()) for name, value in ours.items())]
    return {"key": record.key, "value": record.value, "topic": f"{topic}{SUFFIX}", "headers": tuple(headers)}


def letter_columns() -> Sequence[Column]:
    return (Column("key", "binary"), Column("value", "binary"), Column("topic", "string"))
