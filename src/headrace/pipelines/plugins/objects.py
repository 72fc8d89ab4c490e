"""S3-compatible objects: new objects below a prefix as rows, and a batch as one object.

    from:
      s3: {bucket: logs, prefix: web/, format: json, schema: "user string, ms bigint", endpoint: http://minio:9000}

Source: an object is new if its key is not among the keys seen before. Objects are taken in the order of their
modification times. The offset has the keys of the last hour, because a store may show an object late and has times in
seconds. An object must not change after it was written.

Sink: the object of a batch is named after the flow and the number of the batch. A repeated batch replaces its object.
"""

from __future__ import annotations

import csv
import datetime
import io
import itertools
import json
import tempfile
from collections.abc import Iterator, Mapping
from typing import IO, TYPE_CHECKING, Final

from headrace.pipelines.connectors.settings import End
from headrace.pipelines.errors import OptionError, PipelineError
from headrace.pipelines.plugins.api import Batch, Chunk, Ledger, Offset, Row, Sink, Source
from headrace.pipelines.plugins.columns import Column, Value, parse_columns
from headrace.pipelines.plugins.extras import library
from headrace.pipelines.plugins.plain_json import to_text

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem

_FORMATS: Final = ("lines", "json", "csv")
_ROWS_AT_ONCE: Final = 5_000
_LATE: Final = datetime.timedelta(hours=1)
_ACCESS: Final = ("bucket", "prefix", "endpoint", "region", "access_key", "secret_key")


def object_store(end: End) -> tuple[FileSystem, str]:
    """The store, and the path of the prefix in it. Without keys in the file, the AWS environment variables count."""
    fs = library("pyarrow.fs", end.place)
    given: dict[str, object] = {"region": end.text("region", "us-east-1"), "request_timeout": 60, "connect_timeout": 10}
    if "endpoint" in end.settings:
        scheme, _, address = end.text("endpoint").partition("://")
        if scheme not in ("http", "https") or not address:
            raise OptionError(f"{end.place}: endpoint {end.text('endpoint')!r}: must begin with http:// or https://")
        given |= {"endpoint_override": address.rstrip("/"), "scheme": scheme}
    if "access_key" in end.settings:
        given |= {"access_key": end.text("access_key"), "secret_key": end.text("secret_key")}
    return fs.S3FileSystem(**given), f"{end.text('bucket')}/{end.text('prefix', '').strip('/')}".rstrip("/")


class ObjectSource(Source):
    def __init__(self, settings: End) -> None:
        super().__init__(settings.only(*_ACCESS, "format", "schema", "header"))
        self._format = settings.text("format", "lines")
        if self._format not in _FORMATS:
            raise OptionError(f"{settings.place}: format {self._format!r} must be one of {', '.join(_FORMATS)}")
        if self._format != "lines" and "schema" not in settings.settings:
            raise OptionError(f'{settings.place}: format {self._format} needs a "schema"')
        self._columns = parse_columns(self.columns())
        self._store, self._path = object_store(settings)

    def columns(self) -> str:
        if self._format == "lines":
            return "value string, object string, line bigint"
        return self.settings.text("schema")

    def read(self, offset: Offset | None) -> Chunk:
        state: dict[str, Value] = dict(offset or {"seen": {}, "open": None, "row": 0})
        rows: list[Row] = []
        waiting = None
        while len(rows) < _ROWS_AT_ONCE:
            if state["open"] is None:
                waiting = self._new_objects(state["seen"]) if waiting is None else waiting
                if not waiting:
                    break
                found = waiting.pop(0)
                state |= {"open": found.path, "modified": found.mtime.isoformat(), "row": 0}
            taken = self._rows(state["open"], state["row"], _ROWS_AT_ONCE - len(rows))
            rows += taken
            state["row"] += len(taken)
            if len(rows) < _ROWS_AT_ONCE:
                seen = {**state["seen"], state["open"]: state["modified"]}
                state = {"seen": _recent(seen), "open": None, "row": 0}
        return Chunk(rows, state)

    def _new_objects(self, seen: Mapping[str, str]) -> list[FileInfo]:
        fs = library("pyarrow.fs", self.settings.place)
        try:
            listed = self._store.get_file_info(fs.FileSelector(self._path, recursive=True, allow_not_found=True))
        except OSError as error:
            raise PipelineError(f"{self.settings.place}: {' '.join(str(error).split())}") from error
        oldest = _oldest(seen)
        new = [
            info
            for info in listed
            if info.type == fs.FileType.File and info.path not in seen and (oldest is None or info.mtime >= oldest)
        ]
        return sorted(new, key=lambda info: (info.mtime, info.path))

    def _rows(self, path: str, skip: int, most: int) -> list[Row]:
        try:
            # Opens .gz and other compressed objects by their names.
            with self._store.open_input_stream(path) as stream, io.TextIOWrapper(stream, newline="") as text:
                return list(itertools.islice(self._parsed(path, text), skip, skip + most))
        except (OSError, UnicodeDecodeError) as error:
            raise PipelineError(f"{self.settings.place}: object {path}: {error}") from error

    def _parsed(self, path: str, text: io.TextIOWrapper) -> Iterator[Row]:
        if self._format == "csv":
            yield from self._csv(path, text)
            return
        for number, line in enumerate(text, 1):
            body = line.rstrip("\r\n")
            if self._format == "lines":
                yield {"value": body, "object": path, "line": number}
            elif body.strip():
                yield self._json(path, number, body)

    def _json(self, path: str, number: int, body: str) -> Row:
        try:
            found = json.loads(body)
        except ValueError as error:
            raise PipelineError(f"{self.settings.place}: object {path}, line {number}: not JSON: {error}") from error
        if not isinstance(found, dict):
            raise PipelineError(f"{self.settings.place}: object {path}, line {number}: must be a JSON object")
        return {column.name: found.get(column.name) for column in self._columns}

    def _csv(self, path: str, text: io.TextIOWrapper) -> Iterator[Row]:
        rows = csv.reader(text)
        names = next(rows, []) if self.settings.is_on("header") else [column.name for column in self._columns]
        for number, row in enumerate(rows, 1):
            given = dict(zip(names, row, strict=False))
            try:
                yield {column.name: _value(column, given.get(column.name)) for column in self._columns}
            except ValueError as error:
                raise PipelineError(f"{self.settings.place}: object {path}, row {number}: {error}") from error


def _value(column: Column, text: str | None) -> object:
    if text is None or (text == "" and column.kind != "string"):
        return None
    match column.kind:
        case "int" | "bigint":
            return int(text)
        case "double":
            return float(text)
        case "boolean":
            if text.lower() not in ("true", "false"):
                raise ValueError(f"{text!r} in column {column.name!r} is not true or false")
            return text.lower() == "true"
        case "timestamp":
            return datetime.datetime.fromisoformat(text)
    return text


def _oldest(seen: Mapping[str, str]) -> datetime.datetime | None:
    """Objects from before this time count as seen, though their keys are forgotten."""
    return max(datetime.datetime.fromisoformat(at) for at in seen.values()) - _LATE if seen else None


def _recent(seen: Mapping[str, str]) -> dict[str, str]:
    oldest = _oldest(seen)
    assert oldest is not None
    return {key: at for key, at in seen.items() if datetime.datetime.fromisoformat(at) >= oldest}


class ObjectSink(Sink):
    def __init__(self, settings: End) -> None:
        super().__init__(settings.only(*_ACCESS, "format"))
        self._format = settings.text("format", "json")
        if self._format not in ("json", "parquet"):
            raise OptionError(f"{settings.place}: format {self._format!r} must be json or parquet")
        self._store, self._path = object_store(settings)

    def write(self, batch: Batch, ledger: Ledger) -> None:
        # The object is made before it is sent: a failed attempt must not leave a part of it in the store.
        with tempfile.SpooledTemporaryFile(max_size=8 << 20) as file:
            rows = self._write_parquet(batch, file) if self._format == "parquet" else _write_lines(batch, file)
            if not rows:
                return
            file.seek(0)
            path = f"{self._path}/{ledger.name}-{ledger.batch:012d}.{self._format}"
            try:
                with self._store.open_output_stream(path) as out:
                    while part := file.read(1 << 20):
                        out.write(part)
            except OSError as error:
                raise PipelineError(f"{self.settings.place}: {path}: {' '.join(str(error).split())}") from error

    def _write_parquet(self, batch: Batch, file: IO[bytes]) -> int:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.Table.from_pylist([dict(row) for row in batch])
        if table.num_rows:
            pq.write_table(table, file, compression="zstd")
        return int(table.num_rows)


def _write_lines(batch: Batch, file: IO[bytes]) -> int:
    count = 0
    for row in batch:
        file.write(to_text(row).encode() + b"\n")
        count += 1
    return count
