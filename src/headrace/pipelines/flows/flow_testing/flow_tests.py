"""Tests of a pipeline: given input records, expected output records, and the difference between expected and found.

    name: orders without an amount become dead letters      # tests/*.yml below the pipeline's directory
    input:
      orders:                                                # a topic: records, or a file of them
        - {key: a, value: {id: a, amount: 2.5}, timestamp: 2026-01-31T12:00:00Z}
        - {value: not json}
    output:
      orders-checked: [{key: a, value: {id: a, amount: 2.5}}]
      orders.dlq: [{value: not json}]

A value that is a mapping or a list is written and compared as JSON. A record is compared by the fields that the test
names, and records by their number and not by their order, because partitions have no common order. Files of records
are YAML, NDJSON or CSV (columns key, value, timestamp). The timestamps of the records are the clock of event-time
operators, so a test with a watermark gives the same result each time.
"""

from __future__ import annotations

import csv
import datetime
import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from headrace.pipelines.errors import OptionError, nearest
from headrace.records.builder import Record

_FIELDS: Final = ("name", "input", "output")
_RECORD_FIELDS: Final = ("key", "value", "headers", "timestamp", "partition")
# Of records without a timestamp: a fixed time, so that a test does not depend on the day.
_NOON_MS: Final = 1_767_268_800_000


@dataclass(frozen=True)
class FlowTest:
    file: Path
    name: str
    input: Mapping[str, Sequence[Mapping[str, object]]]
    output: Mapping[str, Sequence[Mapping[str, object]]]

    def records(self, topic: str) -> list[tuple[int, Record]]:
        """(partition, record) of a topic's input."""
        return [_record(row, number) for number, row in enumerate(self.input[topic])]

    def partitions(self, topic: str) -> int:
        return 1 + max((partition for partition, _ in self.records(topic)), default=0)


def find_tests(path: Path) -> list[FlowTest]:
    """The tests of a pipeline directory (`tests/*.yml`), or of a connector `x.yml` (`x.test.yml`)."""
    files = sorted((path / "tests").glob("*.y*ml")) if path.is_dir() else [path.with_suffix(f".test{path.suffix}")]
    found = [load_test(file) for file in files if file.is_file()]
    if not found:
        where = path / "tests" / "*.yml" if path.is_dir() else files[0]
        raise OptionError(f"{path} has no tests: write {where} with input and output records")
    return found


def load_test(file: Path) -> FlowTest:
    try:
        data = yaml.safe_load(file.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise OptionError(f"{file}: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(data, dict):
        raise OptionError(f"{file}: must be a mapping with input and output")
    if unknown := next((key for key in data if key not in _FIELDS), None):
        raise OptionError(f"{file}: field {unknown!r} is unknown{nearest(str(unknown), _FIELDS)}")
    sides = {side: _side(file, data.get(side), side) for side in ("input", "output")}
    return FlowTest(file, str(data.get("name") or file.stem), sides["input"], sides["output"])


def _side(file: Path, given: object, side: str) -> dict[str, list[Mapping[str, object]]]:
    if not isinstance(given, dict) or not given:
        raise OptionError(f"{file}: {side!r} must map topics to records")
    return {str(topic): _rows(file, rows, f"{side}.{topic}") for topic, rows in given.items()}


def _rows(file: Path, given: object, place: str) -> list[Mapping[str, object]]:
    if isinstance(given, str):
        given = _rows_of_file(file.parent / given)
    if not isinstance(given, list):
        raise OptionError(f"{file}: {place} must be a list of records, or a file of them")
    rows: list[Mapping[str, object]] = []
    for number, row in enumerate(given):
        if not isinstance(row, dict):
            row = {"value": row}
        if unknown := next((key for key in row if key not in _RECORD_FIELDS), None):
            hint = nearest(str(unknown), _RECORD_FIELDS)
            raise OptionError(f"{file}: {place}[{number}]: {unknown!r} is unknown{hint}")
        rows.append(row)
    return rows


def _rows_of_file(file: Path) -> object:
    try:
        text = file.read_text()
    except OSError as error:
        raise OptionError(f"{file}: {error.strerror}") from error
    match file.suffix:
        case ".csv":
            return [{name: value or None for name, value in row.items()} for row in csv.DictReader(text.splitlines())]
        case ".ndjson" | ".jsonl":
            return [json.loads(line) for line in text.splitlines() if line.strip()]
    return yaml.safe_load(text)


def _record(row: Mapping[str, object], number: int) -> tuple[int, Record]:
    headers = row.get("headers") or {}
    if not isinstance(headers, dict):
        raise OptionError(f"headers {headers!r} must map names to values")
    return int(str(row.get("partition") or 0)), Record(
        _bytes(row.get("key")),
        _bytes(row.get("value")),
        tuple((str(name), _bytes(value)) for name, value in headers.items()),
        timestamp_ms=_millis(row.get("timestamp"), _NOON_MS + number),
    )


def _bytes(value: object) -> bytes | None:
    if value is None:
        return None
    return (value if isinstance(value, str) else json.dumps(value)).encode()


def _millis(value: object, default: int) -> int:
    if value is None:
        return default
    if isinstance(value, str):
        # Values of a CSV file are text.
        value = int(value) if value.isdigit() else datetime.datetime.fromisoformat(value)
    if isinstance(value, int):
        return value
    if isinstance(value, datetime.datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
        return int(aware.timestamp() * 1000)
    raise OptionError(f"timestamp {value!r} must be a time or milliseconds")


def differences(expected: Sequence[Mapping[str, object]], found: Sequence[Record]) -> list[str]:
    """Lines of a diff between expected and found records, without order; empty if they are equal."""
    fields = [name for name in ("key", "value", "headers", "timestamp") if any(name in row for row in expected)]
    wanted = sorted(_line(_expected(row), fields) for row in expected)
    got = sorted(_line(_found(record), fields or ["key", "value"]) for record in found)
    if wanted == got:
        return []
    return [line for line in difflib.ndiff(wanted, got) if line[0] in "-+ "]


def _line(row: Mapping[str, object], fields: Sequence[str]) -> str:
    return json.dumps({name: row.get(name) for name in fields}, ensure_ascii=False, sort_keys=True)


def _expected(row: Mapping[str, object]) -> dict[str, object]:
    timestamp = row.get("timestamp")
    headers = row.get("headers") or {}
    return {
        "key": _canonical(_bytes(row.get("key"))),
        "value": _canonical(_bytes(row.get("value"))),
        "headers": {str(k): _canonical(_bytes(v)) for k, v in headers.items()} if isinstance(headers, dict) else {},
        "timestamp": None if timestamp is None else _millis(timestamp, 0),
    }


def _found(record: Record) -> dict[str, object]:
    return {
        "key": _canonical(record.key),
        "value": _canonical(record.value),
        "headers": {name: _canonical(value) for name, value in record.headers},
        "timestamp": record.timestamp_ms,
    }


def _canonical(data: bytes | None) -> object:
    """JSON as its value, so that spaces and the order of fields do not matter; other text as it is, bytes as hex."""
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"0x{data.hex()}"
    if any(ord(letter) < 32 and letter not in "\t\n\r" for letter in text):
        return f"0x{data.hex()}"
    try:
        return json.loads(text) if text[:1] in "{[" and text else text
    except ValueError:
        return text


@dataclass(frozen=True)
class Outcome:
    test: FlowTest
    # Lines of a diff by topic or table; only what differs.
    differences: Mapping[str, Sequence[str]]
    seconds: float

    @property
    def passed(self) -> bool:
        return not self.differences
