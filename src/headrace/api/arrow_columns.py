"""Topics as Arrow columns without a Python object for each record.

Record batches are fetched as bytes and decoded with numpy. Values become columns in one step: bytes and text as they
are, Avro by the decoder of `serialization`, JSON of simple dataclasses and structs by Arrow's own reader. Where a value
does not fit, the records of that chunk are decoded one by one, so that each gets its own error. Types without a fixed
Arrow type take the way of `frames.arrow_table`.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from headrace.api.errors import WrongValue
from headrace.api.value_codec import Json, Registered, Text, Unchanged, ValueCodec
from headrace.api.value_types import Field, optional_of, plain
from headrace.client.blocking.client import READ_COMMITTED, READ_UNCOMMITTED, BlockingClient
from headrace.client.blocking.fetch import FetchSettings, FetchStream
from headrace.client.security import ClientSecurity
from headrace.serialization.arrow_decoder import ArrowDecoder
from headrace.serialization.arrow_records import Decoder

PLACE: Final = {
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("ms", "UTC"),
    "key": pa.string(),
}
_SIMPLE: Final = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
_DECODED: Final = frozenset({"key", "value", "offset", "timestamp"})
_FETCH_BYTES: Final = 8 << 20
_STALL_S: Final = 30.0


class ValueColumns(Protocol):
    """The values of a chunk as columns, and the error of each record."""

    def decode(self, values: pa.Array) -> tuple[dict[str, pa.Array], pa.Array]: ...


class ValueDiffers(Exception):
    """A value does not fit: the records must be decoded one by one."""


class _Plain:
    """bytes and text."""

    def __init__(self, type_: pa.DataType) -> None:
        self._type = type_

    def decode(self, values: pa.Array) -> tuple[dict[str, pa.Array], pa.Array]:
        return {"value": values.cast(self._type)}, pa.nulls(len(values), pa.string())


class _JsonColumns:
    """JSON documents with fields of simple types."""

    def __init__(self, schema: pa.Schema, may_be_null: Sequence[bool]) -> None:
        self._schema = schema
        self._may_be_null = may_be_null
        self._parse = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")

    def decode(self, values: pa.Array) -> tuple[dict[str, pa.Array], pa.Array]:
        given = values.drop_null()
        errors = pa.nulls(len(values), pa.string())
        if not len(given):
            return {one.name: pa.nulls(len(values), one.type) for one in self._schema}, errors
        # One document a line: none is empty, has a line break, or is no object. So equal counts mean equal rows.
        lines = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(given)], pa.int32()), given), b"\n")[0]
        data = lines.as_buffer()
        # Line breaks are counted in all bytes together: a search in each document takes twenty times as long.
        breaks = np.count_nonzero(np.frombuffer(data, np.uint8) == ord("\n"))
        if breaks != len(given) - 1 or not pc.all(pc.starts_with(given, b"{")).as_py():
            raise ValueDiffers
        read = pj.ReadOptions(block_size=max(1 << 20, data.size + 1), use_threads=False)
        table = pj.read_json(io.BytesIO(data), read, self._parse)
        if table.num_rows != len(given):
            raise ValueDiffers
        columns = {}
        for one, may_be_null in zip(self._schema, self._may_be_null, strict=True):
            column = table[one.name].combine_chunks()
            if column.null_count and not may_be_null:
                raise ValueDiffers
            columns[one.name] = column
        return (columns if len(given) == len(values) else _spread(columns, values)), errors


class _AvroColumns:
    """Records of a schema registry."""

    def __init__(self, decoder: ArrowDecoder) -> None:
        self._decoder = decoder

    def decode(self, values: pa.Array) -> tuple[dict[str, pa.Array], pa.Array]:
        decoded = self._decoder.decode(values)
        # `flatten` gives the fields the nulls of their struct: tombstones and records with an error.
        return dict(zip(decoded.rows.type.names, decoded.rows.flatten(), strict=True)), decoded.errors


class _OneByOne:
    """The codec of the topic for each record, into columns of known types."""

    def __init__(self, codec: ValueCodec, types: Mapping[str, pa.DataType], *, has_fields: bool) -> None:
        self._codec = codec
        self._types = types
        self._has_fields = has_fields

    def decode(self, values: pa.Array) -> tuple[dict[str, pa.Array], pa.Array]:
        rows: list[Mapping[str, object]] = []
        errors: list[str | None] = []
        for raw in values.to_pylist():
            row: Mapping[str, object] = {}
            error = None
            if raw is not None:
                try:
                    value = plain(self._codec.decode(raw, ()))
                except WrongValue as wrong:
                    error = str(wrong)
                else:
                    row = value if self._has_fields and isinstance(value, Mapping) else {"value": value}
            rows.append(row)
            errors.append(error)
        columns = {name: pa.array([row.get(name) for row in rows], type_) for name, type_ in self._types.items()}
        return columns, pa.array(errors, pa.string())


class ColumnReader:
    """Made by `column_reader` for topics whose values have fixed Arrow types."""

    def __init__(self, quick: ValueColumns, careful: ValueColumns) -> None:
        self._quick = quick
        self._careful = careful

    def table(self, settings: Mapping[str, object], topic: str, spans: Mapping[int, tuple[int, int]]) -> pa.Table:
        """The records of `spans`: (first offset, offset to stop before) by partition."""
        tables = []
        with _client(settings) as client:
            for index, (start, end) in sorted(spans.items()):
                tables += [self._rows(batch, index) for batch in _batches(client, settings, topic, index, start, end)]
        return pa.concat_tables(tables) if tables else self._rows(_no_rows(topic), 0)

    def _rows(self, batch: pa.RecordBatch, index: int) -> pa.Table:
        values = batch["value"]
        try:
            columns, errors = self._quick.decode(values)
        except (ValueDiffers, pa.ArrowInvalid):
            columns, errors = self._careful.decode(values)
        place = {
            "partition": pa.repeat(pa.scalar(index, pa.int32()), len(values)),
            "offset": batch["offset"],
            "timestamp": batch["timestamp"].cast(PLACE["timestamp"]),
            "key": _text(batch["key"]),
        }
        return pa.table({**place, **free_names(columns), "error": errors})


def free_names(columns: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
    """A field that has the name of another column becomes `value_…`."""
    taken = {*PLACE, "error"}
    return {f"value_{name}" if name in taken else name: column for name, column in columns.items()}


def column_reader(codec: ValueCodec, hint: type | str | None, fields: Sequence[Field]) -> ColumnReader | None:
    """None if the values have no fixed Arrow types."""
    if isinstance(codec, Unchanged | Text):
        type_ = pa.binary() if isinstance(codec, Unchanged) else pa.string()
        return ColumnReader(_Plain(type_), _OneByOne(codec, {"value": type_}, has_fields=False))
    if isinstance(codec, Registered) and codec.reader is not None and isinstance(hint, type):
        avro = _AvroColumns(ArrowDecoder(codec.client, codec.reader))
        return ColumnReader(avro, avro)
    if not isinstance(codec, Json) or not isinstance(hint, type) or not _is_plain_record(hint):
        return None
    types = {one.name: _SIMPLE.get(_inner(one.hint)) for one in fields}  # type: ignore[call-overload]
    if not types or None in types.values():
        return None
    # Arrow's reader does not tell a missing field from null, which is the same only where the default is None.
    may_be_null = [optional_of(one.hint) is not None and one.default is None for one in fields]
    quick = _JsonColumns(pa.schema(list(types.items())), may_be_null)
    return ColumnReader(quick, _OneByOne(codec, types, has_fields=True))


def _inner(hint: object) -> object:
    return optional_of(hint) or hint


def _is_plain_record(hint: type) -> bool:
    """Dataclasses and structs that do not check their values themselves."""
    is_struct = hasattr(hint, "__struct_fields__")
    return (dataclasses.is_dataclass(hint) or is_struct) and not hasattr(hint, "__post_init__")


def _client(settings: Mapping[str, object]) -> BlockingClient:
    text = {name: str(value) for name, value in settings.items()}
    client_id = text.get("client.id", "headrace")
    return BlockingClient(text["bootstrap.servers"], client_id=client_id, security=ClientSecurity.from_settings(text))


def _batches(
    client: BlockingClient, settings: Mapping[str, object], topic: str, index: int, start: int, end: int
) -> Iterator[pa.RecordBatch]:
    isolation = READ_UNCOMMITTED if settings.get("isolation.level") == "read_uncommitted" else READ_COMMITTED
    decoder = Decoder(topic, index, columns=_DECODED)
    fetch = FetchSettings(max_bytes=_FETCH_BYTES, isolation=isolation, stall_timeout_s=_STALL_S, reuse_buffer=True)
    for chunk in FetchStream(client, (topic, index), start, end, fetch):
        yield from decoder.decode(chunk.records, start, end, chunk.aborted)


def _no_rows(topic: str) -> pa.RecordBatch:
    schema = Decoder(topic, 0, columns=_DECODED).schema
    return pa.RecordBatch.from_arrays([pa.array([], one.type) for one in schema], schema=schema)


def _text(keys: pa.Array) -> pa.Array:
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        decoded = [None if key is None else key.decode(errors="replace") for key in keys.to_pylist()]
        return pa.array(decoded, pa.string())


def _spread(columns: Mapping[str, pa.Array], values: pa.Array) -> dict[str, pa.Array]:
    """Rows of the values that are not null, with null rows in their places."""
    is_null = np.asarray(values.is_null())
    at = pa.array(np.cumsum(~is_null) - 1, mask=is_null)
    return {name: column.take(at) for name, column in columns.items()}
