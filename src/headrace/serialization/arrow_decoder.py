"""Decodes a column of payloads into Arrow columns. Needs pyarrow.

All records become rows of one reader's schema, whatever version wrote each of them. Rows are grouped by schema id. Avro
groups without arrays, maps and larger unions take the vectorised walk (`columns.avro_walk`); its suspect rows and all
other groups are decoded record by record. So are all records if the reader's data contract has conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.kernel.dataclass import dataclass
from headrace.serialization.avro.codec import AvroCodec
from headrace.serialization.avro.schema import AvroSchema, parse_avro
from headrace.serialization.columns.avro_projection import Projection, projection
from headrace.serialization.columns.avro_types import VALUE, adjuster, avro_columns, is_record
from headrace.serialization.columns.avro_walk import AvroWalk, padded
from headrace.serialization.columns.json_types import JsonColumns
from headrace.serialization.columns.protobuf_types import ProtobufColumns
from headrace.serialization.errors import NESTED, RegistryError, RegistryUnreachable, SerializationError
from headrace.serialization.json_schema import JsonCodec
from headrace.serialization.protobuf.codec import ProtobufCodec
from headrace.serialization.protobuf.values import converted, message_values
from headrace.serialization.registry_client import RegistryClient
from headrace.serialization.rules import Conditions, RuleMode
from headrace.serialization.schema import AVRO, JSON, PROTOBUF, RegisteredSchema
from headrace.serialization.wire_format import framed

Ints = npt.NDArray[np.int64]
Headers = Iterable[tuple[str, bytes | None]]
_PREFIX_SIZE: Final = 5
# The answer is about the reader, and not about the record.
_LOGIN_REFUSED: Final = 401


@dataclass(frozen=True, slots=True)
class DecodedColumns:
    """`rows`: a struct of the columns; null for tombstones and for records with an error. `errors`: text or null."""

    rows: pa.StructArray
    errors: pa.Array


@dataclass(frozen=True, slots=True)
class _Version:
    """One writer's schema, towards the reader's."""

    one: Callable[[bytes, bytes | None], Any]
    """A row from one payload. Raises SerializationError."""
    walk: AvroWalk | None = None
    projection: Projection | None = None


class ArrowDecoder:
    """`reader`: the schema of the columns. `message`: the Protobuf message of the rows; the first without it."""

    def __init__(self, client: RegistryClient, reader: RegisteredSchema, *, message: str | None = None) -> None:
        self._client = client
        self._reader = reader
        self._avro: AvroSchema | None = None
        self._known: dict[int | str, _Version | str] = {}
        self._conditions = Conditions.of(reader, RuleMode.READ)
        if reader.kind == AVRO:
            self._avro = parse_avro(reader, client)
            self.type: pa.StructType = avro_columns(self._avro)
        elif reader.kind == JSON:
            self._json = JsonColumns(JsonCodec(reader, client).document)
            self.type = self._json.type
        elif reader.kind == PROTOBUF:
            self._protobuf = ProtobufCodec(reader, client, message)
            self._columns = ProtobufColumns(self._protobuf.written())
            self.type = self._columns.type
        else:
            raise SerializationError(f"schema id {reader.id} has the type {reader.kind}: no columns")

    def decode(
        self, values: pa.Array, headers: list[Headers | None] | None = None, *, is_key: bool = False
    ) -> DecodedColumns:
        """`headers`: of each row, for the header form. Raises RegistryUnreachable, and
        RegistryError if the registry refuses the login."""
        values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        parts: list[tuple[Ints, pa.Array, pa.Array]] = []
        alone, ids = self._by_id(values, headers)
        for id_ in np.unique(ids[ids >= 0]):
            rows = np.flatnonzero(ids == id_)
            version = self._version(int(id_))
            if isinstance(version, _Version) and version.walk is not None:
                parts.append(self._walked(version, values, rows))
            else:
                alone = np.concatenate([alone, rows])
        if len(alone):
            parts.append(self._one_by_one(values, headers, np.sort(alone), is_key=is_key))
        return self._joined(parts, len(values))

    def _by_id(self, values: pa.Array, headers: list[Headers | None] | None) -> tuple[Ints, Ints]:
        """(rows to decode alone, id of each row or -1)."""
        nothing = np.zeros(0, np.int64)
        if self._reader.kind != AVRO or headers is not None:
            return np.arange(len(values)), np.full(len(values), -1)
        starts, ends, data = _spans(values)
        has_prefix = ends - starts >= _PREFIX_SIZE
        has_prefix &= ~np.asarray(values.is_null())
        at = np.where(has_prefix, starts, 0)
        has_prefix &= data[at] == 0
        ids = np.zeros(len(values), np.int64)
        for offset in range(1, _PREFIX_SIZE):
            ids = ids << 8 | data[at + offset]
        return np.flatnonzero(~has_prefix) if not has_prefix.all() else nothing, np.where(has_prefix, ids, -1)

    def _walked(self, version: _Version, values: pa.Array, rows: Ints) -> tuple[Ints, pa.Array, pa.Array]:
        assert version.walk is not None
        starts, ends, data = _spans(values)
        columns, suspect = version.walk.read(data, starts[rows] + _PREFIX_SIZE, ends[rows])
        if version.projection is not None:
            arrays, doubtful = version.projection.project(columns, len(rows))
            suspect = suspect if doubtful is None else suspect | doubtful
        else:
            arrays = list(columns.values())
        made = pa.StructArray.from_arrays(arrays, fields=list(self.type))
        errors = pa.nulls(len(rows), pa.string())
        if not suspect.any():
            return rows, made, errors
        again = self._one_by_one(values, None, rows[suspect], is_key=False)
        order = np.arange(len(rows))
        order[suspect] = len(rows) + np.arange(int(suspect.sum()))
        pick = pa.array(order)
        return rows, pa.concat_arrays([made, again[1]]).take(pick), pa.concat_arrays([errors, again[2]]).take(pick)

    def _one_by_one(
        self, values: pa.Array, headers: list[Headers | None] | None, rows: Ints, *, is_key: bool
    ) -> tuple[Ints, pa.Array, pa.Array]:
        made: list[Any] = []
        errors: list[str | None] = []
        for row in rows.tolist():
            value, error = self._one(values[row].as_py(), headers[row] if headers else None, is_key=is_key)
            made.append(value)
            errors.append(error)
        return rows, self._array(made, errors), pa.array(errors, pa.string())

    def _array(self, made: list[Any], errors: list[str | None]) -> pa.Array:
        """A value that Arrow does not take (a date beyond its range) is an error of its row."""
        try:
            return pa.array(made, self.type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError):
            for index, value in enumerate(made):
                try:
                    pa.array([value], self.type)
                except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError) as fault:
                    made[index], errors[index] = None, f"a value does not fit its column: {fault}"
            return pa.array(made, self.type)

    def _one(self, data: bytes | None, headers: Headers | None, *, is_key: bool) -> tuple[Any, str | None]:
        if data is None:
            return None, None
        try:
            found = framed(data, headers or (), is_key=is_key)
            version = self._version(found.schema)
            if isinstance(version, str):
                return None, version
            return version.one(found.payload, found.indexes), None
        except SerializationError as fault:
            return None, str(fault)
        except RecursionError:
            return None, NESTED

    def _version(self, named: int | str) -> _Version | str:
        """A reason instead of a version is kept too, unless the registry may know the id later."""
        known = self._known.get(named)
        if known is None:
            client = self._client
            try:
                schema = client.schema_by_id(named) if isinstance(named, int) else client.schema_by_guid(named)
                known = self._made(schema)
            except RegistryUnreachable:
                raise
            except RegistryError as fault:
                if fault.status == _LOGIN_REFUSED:
                    raise
                return str(fault)
            except SerializationError as fault:
                known = str(fault)
            self._known[named] = known
        return known

    def _made(self, schema: RegisteredSchema) -> _Version:
        if schema.kind != self._reader.kind:
            raise SerializationError(f"schema id {schema.id} is {schema.kind}, the reader's schema {self._reader.kind}")
        if schema.kind == JSON:
            codec = JsonCodec(schema, self._client)
            return _Version(lambda payload, _: self._json.row(self._allowed(codec.decode(payload))))
        if schema.kind == PROTOBUF:
            return _Version(self._protobuf_row(ProtobufCodec(schema, self._client)))
        return self._made_avro(schema)

    def _allowed(self, value: Any) -> Any:
        """The value, if it fulfils the conditions of the reader's data contract."""
        if self._conditions is not None:
            self._conditions.check(value)
        return value

    def _protobuf_row(self, writer: ProtobufCodec) -> Callable[[bytes, bytes | None], Any]:
        def row(payload: bytes, indexes: bytes | None) -> Any:
            message = self._protobuf.reread(writer, payload, indexes)
            if self._conditions is not None:
                self._conditions.check(converted(message_values, message))
            return converted(self._columns.row, message)

        return row

    def _made_avro(self, schema: RegisteredSchema) -> _Version:
        assert self._avro is not None
        codec = AvroCodec(schema, self._client, self._reader)
        adjust, whole = adjuster(self._avro, self._avro.root), is_record(self._avro)

        def one(payload: bytes, _: bytes | None) -> Any:
            value = self._allowed(codec.decode(payload))
            value = value if adjust is None else adjust(value)
            return value if whole else {VALUE: value}

        # A condition needs the record as Python values, and the walk reads bytes with their length.
        walk = AvroWalk.of(codec.schema) if self._conditions is None and not codec.is_raw else None
        if walk is None or schema.id == self._reader.id:
            return _Version(one, walk)
        found = projection(codec.schema, self._avro, self.type)
        return _Version(one, walk if found is not None else None, found)

    def _joined(self, parts: list[tuple[Ints, pa.Array, pa.Array]], count: int) -> DecodedColumns:
        if not parts:
            return DecodedColumns(pa.array([], self.type), pa.array([], pa.string()))
        if len(parts) == 1:
            return DecodedColumns(parts[0][1], parts[0][2])
        order = np.empty(count, np.int64)
        order[np.concatenate([rows for rows, _, _ in parts])] = np.arange(count)
        pick = pa.array(order)
        return DecodedColumns(
            pa.concat_arrays([rows for _, rows, _ in parts]).take(pick),
            pa.concat_arrays([errors for _, _, errors in parts]).take(pick),
        )


def _spans(values: pa.Array) -> tuple[Ints, Ints, npt.NDArray[np.uint8]]:
    """(starts, ends, bytes with a padding) of a binary array."""
    values = values.cast(pa.binary()) if values.type != pa.binary() else values
    edges = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    first, last = int(edges[0]), int(edges[-1])
    raw = values.buffers()[2]
    data = np.frombuffer(raw, np.uint8)[first:last] if raw is not None and raw.size else np.zeros(0, np.uint8)
    places = edges.astype(np.int64) - first
    return places[:-1], places[1:], padded(data)
