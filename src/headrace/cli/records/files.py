"""Exports records to NDJSON, CSV and Parquet files and imports them unchanged.

NDJSON   one document per line, as `consume -o json` prints it
CSV      topic, partition, offset, timestamp, key, value, headers (JSON), key_encoding, value_encoding; an encoding is
         empty for text, `base64` for other bytes, `null` for nothing
Parquet  the columns of Spark's Kafka source: key, value, topic, partition, offset, timestamp, headers

A CSV or Parquet file without a `value` column is an ordinary table: each row becomes a JSON object.
"""

from __future__ import annotations

import base64
import csv
import datetime
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Final, Protocol

from headrace.cli.kafka_tools.support.tool import ToolFailed as Failed
from headrace.cli.records.lines import Incoming, WrongRecord, from_document
from headrace.cli.records.text import Decoding, Seen, document, header_document
from headrace.cli.support.progress import Share

SUFFIXES: Final = {".ndjson": "ndjson", ".jsonl": "ndjson", ".json": "ndjson", ".csv": "csv", ".parquet": "parquet"}
_COLUMNS: Final = (
    "topic", "partition", "offset", "timestamp", "key", "value", "headers", "key_encoding", "value_encoding",
)  # fmt: skip
_PARQUET_ROWS: Final = 20_000
# Python's default is 128 KiB, and the values of an export may be as large as records may be.
_LARGEST_FIELD: Final = 2**31 - 1


def kind_of(path: Path) -> str:
    """File format by suffix. Raises Failed with the known suffixes."""
    kind = SUFFIXES.get(path.suffix.lower())
    if kind is None:
        raise Failed(f"{path}: the ending must be one of {', '.join(SUFFIXES)}")
    return kind


class Sink(Protocol):
    def write(self, record: Seen) -> None: ...
    def close(self) -> None: ...


class _NdjsonSink:
    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8")

    def write(self, record: Seen) -> None:
        found = document(record, Decoding.AUTO, Decoding.AUTO)
        self._file.write(json.dumps(found, ensure_ascii=False, separators=(",", ":")) + "\n")

    def close(self) -> None:
        self._file.close()


def _encoded(data: bytes | None) -> tuple[str, str]:
    if data is None:
        return "", "null"
    try:
        return data.decode(), ""
    except UnicodeDecodeError:
        return base64.b64encode(data).decode(), "base64"


class _CsvSink:
    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8", newline="")
        self._writer = csv.writer(self._file)
        self._writer.writerow(_COLUMNS)

    def write(self, record: Seen) -> None:
        (key, key_encoding), (value, value_encoding) = _encoded(record.key), _encoded(record.value)
        headers = json.dumps([header_document(name, data) for name, data in record.headers])
        where = (record.topic, record.partition, record.offset, record.timestamp_ms)
        self._writer.writerow((*where, key, value, headers, key_encoding, value_encoding))

    def close(self) -> None:
        self._file.close()


def _arrow() -> ModuleType:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise Failed("Parquet needs pyarrow: pip install 'headrace[spark]'") from error
    module: ModuleType = pyarrow
    return module


class _ParquetSink:
    def __init__(self, path: Path) -> None:
        arrow = self._arrow = _arrow()
        header = arrow.struct([("key", arrow.string()), ("value", arrow.binary())])
        self._schema = arrow.schema(
            [
                ("key", arrow.binary()), ("value", arrow.binary()), ("topic", arrow.string()),
                ("partition", arrow.int32()), ("offset", arrow.int64()),
                ("timestamp", arrow.timestamp("ms", tz="UTC")), ("headers", arrow.list_(header)),
            ]
        )  # fmt: skip
        self._writer = arrow.parquet.ParquetWriter(str(path), self._schema, compression="zstd")
        self._rows: list[dict[str, object]] = []

    def write(self, record: Seen) -> None:
        self._rows.append(
            {
                "key": record.key, "value": record.value, "topic": record.topic, "partition": record.partition,
                "offset": record.offset, "timestamp": record.timestamp_ms,
                "headers": [{"key": name, "value": data} for name, data in record.headers],
            }
        )  # fmt: skip
        if len(self._rows) >= _PARQUET_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(self._arrow.Table.from_pylist(self._rows, schema=self._schema))
            self._rows.clear()

    def close(self) -> None:
        self._flush()
        self._writer.close()


class Export:
    """Writes to a temporary file and renames it when it is complete."""

    def __init__(self, path: Path) -> None:
        sinks: dict[str, Callable[[Path], Sink]] = {"ndjson": _NdjsonSink, "csv": _CsvSink, "parquet": _ParquetSink}
        self._path, self._part = path, path.with_name(f".{path.name}.part")
        try:
            self._sink: Sink = sinks[kind_of(path)](self._part)
        except OSError as error:
            raise Failed(f"cannot write {path}: {error.strerror}") from error

    def __enter__(self) -> Sink:
        return self._sink

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sink.close()
        if kind is None or kind is KeyboardInterrupt:
            self._part.replace(self._path)
        else:
            self._part.unlink(missing_ok=True)


def read_csv(path: Path, share: Share) -> Iterator[Incoming]:
    size = max(1, path.stat().st_size)
    csv.field_size_limit(_LARGEST_FIELD)
    with path.open("rb") as raw:
        rows = csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8", newline=""), strict=True)
        try:
            for row in rows:
                share.done = raw.tell() / size
                try:
                    yield _csv_record(row)
                except (ValueError, KeyError) as error:
                    raise WrongRecord(f"{path} line {rows.line_num}: {error}") from error
        except csv.Error as error:
            raise WrongRecord(f"{path} line {rows.line_num}: {error}") from error


def _csv_record(row: dict[str | None, str | None]) -> Incoming:
    if None in row or None in row.values():
        raise ValueError("another number of columns than the first line has")
    if "value" not in row:
        return Incoming(None, json.dumps(row, ensure_ascii=False).encode())
    found: dict[str, object] = {name: int(text) for name in ("partition", "timestamp") if (text := row.get(name))}
    for name in ("key", "value"):
        encoding = row.get(f"{name}_encoding", "")
        if encoding == "base64":
            found[f"{name}_base64"] = row[name]
        elif encoding != "null" and (name in row and (row[name] or f"{name}_encoding" in row or name == "value")):
            found[name] = row[name]
    return from_document({**found, "headers": json.loads(row.get("headers") or "[]")})


def read_parquet(path: Path, share: Share) -> Iterator[Incoming]:
    arrow = _arrow()
    try:
        file = arrow.parquet.ParquetFile(str(path))
    except (arrow.ArrowInvalid, OSError) as error:
        raise WrongRecord(f"{path} is no Parquet file: {error}") from error
    total, read = max(1, file.metadata.num_rows), 0
    for batch in file.iter_batches(batch_size=_PARQUET_ROWS):
        for row in batch.to_pylist():
            read += 1
            share.done = read / total
            yield _parquet_record(row)


def _parquet_record(row: dict[str, object]) -> Incoming:
    if "value" not in row:
        return Incoming(None, json.dumps(row, ensure_ascii=False, default=str).encode())
    partition, headers = row.get("partition"), row.get("headers")
    return Incoming(
        _bytes(row.get("key")),
        _bytes(row["value"]),
        tuple((str(h["key"]), _bytes(h["value"])) for h in headers) if isinstance(headers, list) else (),
        _timestamp_ms(row.get("timestamp")),
        partition if isinstance(partition, int) else None,
    )


def _timestamp_ms(when: object) -> int | None:
    if isinstance(when, datetime.datetime):
        return round(when.timestamp() * 1000)
    return int(when) if isinstance(when, int | float | str) else None


def _bytes(value: object) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else json.dumps(value, default=str).encode()
