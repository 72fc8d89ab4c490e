"""Record batches to Arrow columns, decoded with numpy instead of record by record (`records/record_columns`).

Arrow copies keys and values directly from the fetched bytes. The decoder makes no Python object per record. numpy has a
fixed cost per call, which dominates in small batches. So all batches of a fetched chunk are decoded together:
uncompressed batches in place, compressed ones from one joined buffer.

Every length is checked against the end of the batch before it is used. A corrupt batch raises CorruptBatch with its
offset. Decompression has an upper bound on the size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import CorruptBatch
from headrace.kernel.plurals import counted
from headrace.records.batch import CODEC_MASK, HEADER_BYTES, TIMESTAMP_TYPE_BIT, BatchView
from headrace.records.compression import decompress
from headrace.records.reader import first_unreadable
from headrace.records.record_columns import Ints, Section, record_bounds, varints
from headrace.records.visible import visible_batches

# Minimum size of a record: length prefix, attributes, two deltas, two lengths and a header count.
_SMALLEST_RECORD: Final = 7
_LARGEST_BATCH: Final = 1 << 30
# Arrow's binary columns are limited to 2 GiB. A much lower limit also returns rows sooner.
_JOINED_BYTES: Final = 64 << 20

HEADERS_TYPE: Final = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
_PLAIN_FIELDS: Final = [
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.timestamp("us", tz="UTC")),
    pa.field("timestampType", pa.int32()),
]


def arrow_schema(include_headers: bool) -> pa.Schema:
    """Exactly Spark's schema of a Kafka row: Spark rejects batches that differ."""
    return pa.schema([*_PLAIN_FIELDS, pa.field("headers", HEADERS_TYPE)] if include_headers else _PLAIN_FIELDS)


class _Batch(NamedTuple):
    """One data batch to read: its record bytes, and the base values of its records."""

    payload: memoryview
    begin: int  # position of the payload in the fetched bytes; -1 if it is compressed there
    base_offset: int
    base_timestamp_ms: int
    append_time_ms: int | None
    record_count: int


@dataclass(frozen=True)
class Decoder:
    """Turns fetched bytes of one partition into Arrow batches."""

    topic: str
    partition: int
    include_headers: bool = False
    check_crc: bool = True
    # Only these columns, in the order of the schema. The others are not built, which saves most of the copying.
    columns: frozenset[str] | None = None

    @property
    def schema(self) -> pa.Schema:
        if self.columns is None:
            return arrow_schema(self.include_headers)
        return pa.schema([field for field in arrow_schema(True) if field.name in self.columns])

    def decode(
        self, chunk: memoryview, start: int, end: int, aborted: tuple[tuple[int, int], ...] = ()
    ) -> Iterator[pa.RecordBatch]:
        """Rows with start <= offset < end from complete batches, without aborted transactions."""
        try:
            for group in self._groups(chunk, start, end, aborted):
                yield from self._rows(chunk, group, start, end)
        except CorruptBatch as fault:
            batches = visible_batches(chunk, aborted, start, end, check_crc=self.check_crc)
            raise self._explained(fault, batches) from fault

    def _explained(self, fault: CorruptBatch, batches: Iterator[BatchView]) -> CorruptBatch:
        """Finds the corrupt batch: the batches were decoded together, and the fault does not always name it."""
        try:
            unreadable = first_unreadable(batches)
        except CorruptBatch:
            unreadable = None  # the batch is incomplete or fails its checksum: the fault names it
        if unreadable is not None:
            return unreadable.of(self.topic, self.partition)
        return CorruptBatch(f"{self.topic}-{self.partition}: {fault.message}")

    def _groups(
        self, chunk: memoryview, start: int, end: int, aborted: tuple[tuple[int, int], ...]
    ) -> Iterator[list[_Batch]]:
        """Batches that are decoded together."""
        group: list[_Batch] = []
        size = 0
        for batch in self._data_batches(chunk, start, end, aborted):
            if group and size + len(batch.payload) > _JOINED_BYTES:
                yield group
                group, size = [], 0
            group.append(batch)
            size += len(batch.payload)
        if group:
            yield group

    def _data_batches(
        self, chunk: memoryview, start: int, end: int, aborted: tuple[tuple[int, int], ...]
    ) -> Iterator[_Batch]:
        for batch in visible_batches(chunk, aborted, start, end, check_crc=self.check_crc):
            count, payload, begin = batch.record_count, batch.records_section, batch.position + HEADER_BYTES
            if count <= 0:
                continue
            if batch.attributes & CODEC_MASK:
                payload, begin = memoryview(decompress(batch.codec, payload, _LARGEST_BATCH)), -1
            if count * _SMALLEST_RECORD > len(payload):
                raise CorruptBatch(
                    f"batch at offset {batch.base_offset}: claims {counted(count, 'record')} "
                    f"in {counted(len(payload), 'byte')}"
                )
            append_time_ms = batch.max_timestamp_ms if batch.attributes & TIMESTAMP_TYPE_BIT else None
            yield _Batch(payload, begin, batch.base_offset, batch.base_timestamp_ms, append_time_ms, count)

    def _rows(self, chunk: memoryview, group: list[_Batch], start: int, end: int) -> Iterator[pa.RecordBatch]:
        buffer, begins = _one_buffer(chunk, group)
        _, starts, ends = record_bounds(
            buffer, [_section(begin, batch) for begin, batch in zip(begins, group, strict=True)]
        )
        bytes_ = np.frombuffer(buffer, np.uint8)
        counts = np.array([batch.record_count for batch in group])
        fields = _fields(bytes_, starts, ends)
        offsets = fields.offset_delta + np.repeat(np.array([b.base_offset for b in group], np.int64), counts)
        base_ts = np.array(
            [b.base_timestamp_ms if b.append_time_ms is None else b.append_time_ms for b in group], np.int64
        )
        moving = np.repeat(np.array([b.append_time_ms is None for b in group]), counts)
        timestamps = np.repeat(base_ts, counts) + np.where(moving, fields.timestamp_delta, 0)
        # Batches of a group may have different timestamp types, because the topic's setting may change.
        kinds = np.where(moving, 0, 1).astype(np.int32)
        build: dict[str, Callable[[], pa.Array]] = {
            "key": lambda: _gather(buffer, fields.key_at, fields.key_length),
            "value": lambda: _gather(buffer, fields.value_at, fields.value_length),
            "topic": lambda: pa.repeat(pa.scalar(self.topic, pa.string()), len(offsets)),
            "partition": lambda: pa.repeat(pa.scalar(self.partition, pa.int32()), len(offsets)),
            "offset": lambda: pa.array(offsets),
            "timestamp": lambda: pa.array(timestamps * 1000).cast(pa.timestamp("us", tz="UTC")),
            "timestampType": lambda: pa.array(kinds),
            "headers": lambda: _headers(bytes_, buffer, fields, ends),
        }
        schema = self.schema
        rows = pa.RecordBatch.from_arrays([build[name]() for name in schema.names], schema=schema)
        if offsets[0] < start or offsets[-1] >= end:
            rows = rows.filter(pa.array((offsets >= start) & (offsets < end)))
        if rows.num_rows:
            yield rows


def _section(begin: int, batch: _Batch) -> Section:
    return Section(begin, len(batch.payload), batch.record_count, batch.base_offset)


def _one_buffer(chunk: memoryview, group: list[_Batch]) -> tuple[memoryview | bytes, list[int]]:
    """A buffer with all payloads, and the start of each payload in it."""
    begins = [batch.begin for batch in group]
    if min(begins) >= 0:
        return chunk, begins
    at = 0
    for number, batch in enumerate(group):
        begins[number] = at
        at += len(batch.payload)
    return b"".join(batch.payload for batch in group), begins


@dataclass(frozen=True, slots=True)
class _Fields:
    timestamp_delta: Ints
    offset_delta: Ints
    key_at: Ints
    key_length: Ints
    value_at: Ints
    value_length: Ints
    headers_at: Ints
    header_count: Ints


def _fields(data: npt.NDArray[np.uint8], starts: Ints, ends: Ints) -> _Fields:
    try:
        timestamp_delta, at = varints(data, starts + 1)
        offset_delta, at = varints(data, at)
        key_length, key_at = varints(data, at)
        value_length, value_at = varints(data, key_at + np.maximum(key_length, 0))
        header_count, headers_at = varints(data, value_at + np.maximum(value_length, 0))
    except IndexError as error:
        raise CorruptBatch("a record runs past the end of its batch") from error
    if (headers_at > ends).any() or (header_count < 0).any() or (key_length < -1).any() or (value_length < -1).any():
        raise CorruptBatch("a record's key, value or header count is longer than the record")
    return _Fields(timestamp_delta, offset_delta, key_at, key_length, value_at, value_length, headers_at, header_count)


def _gather(buffer: memoryview | bytes, at: Ints, length: Ints, kind: pa.DataType | None = None) -> pa.Array:
    """A binary column of the ranges [at, at + length). A negative length is null."""
    count = len(at)
    kind = kind or pa.binary()
    edges = np.empty(2 * count + 1, np.int32)
    edges[0:-1:2] = at
    edges[1::2] = at + np.maximum(length, 0)
    edges[-1] = edges[-2] if count else 0
    # Elements alternate between a wanted range and the bytes up to the next one. `take` copies the wanted ranges.
    spread = pa.Array.from_buffers(kind, 2 * count, [None, pa.py_buffer(edges), pa.py_buffer(buffer)])
    indices = pa.array(np.arange(0, 2 * count, 2, dtype=np.int32), mask=(length < 0) if (length < 0).any() else None)
    return spread.take(indices)


def _headers(data: npt.NDArray[np.uint8], buffer: memoryview | bytes, fields: _Fields, ends: Ints) -> pa.Array:
    """The headers column. A record without headers gets null, not an empty list, as in Spark's connector."""
    counts = fields.header_count
    if not counts.any():
        return pa.nulls(len(counts), HEADERS_TYPE)
    total = int(counts.sum())
    if (counts * 2 > ends - fields.headers_at).any():
        raise CorruptBatch("a record claims more headers than it has bytes")
    edges = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    key_at, key_length, value_at, value_length = (np.zeros(total, np.int64) for _ in range(4))
    at, left = fields.headers_at.copy(), counts.copy()
    turn = 0
    try:
        # The first header of every record, then the second of the records that have one, and so on.
        while (rows := np.flatnonzero(left > 0)).size:
            place = edges[rows] + turn
            key_length[place], key_at[place] = varints(data, at[rows])
            value_length[place], value_at[place] = varints(data, key_at[place] + np.maximum(key_length[place], 0))
            at[rows] = value_at[place] + np.maximum(value_length[place], 0)
            left[rows] -= 1
            turn += 1
    except IndexError as error:
        raise CorruptBatch("a header runs past the end of its batch") from error
    if (at > ends).any() or (key_length < 0).any():
        raise CorruptBatch("a header is longer than its record")
    keys = _gather(buffer, key_at, key_length).cast(pa.string())
    values = _gather(buffer, value_at, value_length)
    pairs = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS_TYPE.value_type))
    none = counts == 0
    listed = pa.ListArray.from_arrays(
        pa.array(edges.astype(np.int32), mask=np.append(none, False))
        if none.any()
        else pa.array(edges.astype(np.int32)),
        pairs,
    )
    return listed.cast(HEADERS_TYPE)
