"""Arrow columns to Kafka records, all rows of a batch at once: the inverse of `arrow_records`.

The lengths and deltas of a record are variable-length integers. numpy encodes them for all rows into one buffer, and
one Arrow call joins them with keys, values and headers. The murmur2 hash of Java's producer chooses partitions, also
for all keys at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypedDict

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.client.blocking.produce import Section
from headrace.pipelines.errors import PipelineError
from headrace.records.varint import write_varint

Ints = npt.NDArray[np.int64]
_NO_HEADERS: Final = b"\x00"
# Upper bound for the length, attributes, deltas, key length and value length of a record.
_OVERHEAD: Final = 26


def sections(
    keys: pa.Array, values: pa.Array, headers: pa.Array | None, timestamps_ms: Ints, batch_bytes: int
) -> Iterator[Section]:
    """Rows of one partition as the record sections of batches of about `batch_bytes`."""
    sizes = _lengths(keys) + _lengths(values) + _OVERHEAD
    if headers is not None:
        sizes = sizes + _lengths(headers)
    edges = np.concatenate([[0], np.cumsum(sizes)])
    begin, count = 0, len(sizes)
    while begin < count:
        # At least one row: the broker rejects a record that is too large.
        until = int(np.searchsorted(edges, edges[begin] + batch_bytes, side="right")) - 1
        until = min(max(until, begin + 1), count)
        part = slice(begin, until)
        yield _section(keys[part], values[part], None if headers is None else headers[part], timestamps_ms[part])
        begin = until


def _section(keys: pa.Array, values: pa.Array, headers: pa.Array | None, timestamps_ms: Ints) -> Section:
    count = len(keys)
    base = int(timestamps_ms[0])
    key_length, value_length = _lengths(keys), _lengths(values)
    key_word = np.where(_nulls(keys), -1, key_length)
    value_word = np.where(_nulls(values), -1, value_length)
    fields = [_varints(timestamps_ms - base), _varints(np.arange(count, dtype=np.int64)), _varints(key_word)]
    middle = _varints(value_word)
    tail = np.ones(count, np.int64) if headers is None else _lengths(headers)
    body = 1 + sum(mask.sum(axis=1) for _, mask in fields) + key_length + middle[1].sum(axis=1) + value_length + tail
    attributes = (np.zeros((count, 1), np.uint8), np.ones((count, 1), bool))
    head = _packed([_varints(body), attributes, *fields])
    joined = pc.binary_join_element_wise(
        head,
        keys,
        _packed([middle]),
        values,
        pa.scalar(_NO_HEADERS, pa.binary()) if headers is None else headers,
        pa.scalar(b"", pa.binary()),
        null_handling="replace",
        null_replacement=b"",
    )
    joined = joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined
    return Section(_data(joined), count, base, int(timestamps_ms.max()))


def _data(array: pa.Array) -> memoryview:
    """The bytes of a binary array, end to end."""
    edges = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
    return memoryview(array.buffers()[2])[int(edges[0]) : int(edges[-1])]


def _nulls(array: pa.Array) -> npt.NDArray[np.bool_]:
    if array.null_count == 0:
        return np.zeros(len(array), bool)
    return np.asarray(array.is_null())


def _lengths(array: pa.Array) -> Ints:
    """Byte lengths; 0 for null."""
    return np.asarray(pc.fill_null(pc.binary_length(array), 0)).astype(np.int64)


def _varints(values: Ints) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
    """Zig-zag varints as a byte matrix with one row per number, and a mask of the used cells."""
    word = ((values << 1) ^ (values >> 63)).view(np.uint64)
    columns, used = [], []
    alive = np.ones(len(word), bool)
    while alive.any():
        rest = word >> np.uint64(7)
        more = rest > 0
        columns.append((word & np.uint64(0x7F)).astype(np.uint8) | (more.astype(np.uint8) << 7))
        used.append(alive)
        word, alive = rest, more
    return np.stack(columns, axis=1), np.stack(used, axis=1)


def _packed(fields: list[tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]]) -> pa.Array:
    """Neighbouring fields of every row as one binary column."""
    cells = np.concatenate([f[0] for f in fields], axis=1)
    used = np.concatenate([f[1] for f in fields], axis=1)
    edges = np.zeros(len(cells) + 1, np.int32)
    np.cumsum(used.sum(axis=1), out=edges[1:])
    return pa.Array.from_buffers(pa.binary(), len(cells), [None, pa.py_buffer(edges), pa.py_buffer(cells[used])])


def encode_headers(column: pa.Array) -> pa.Array | None:
    """Spark's headers column as encoded header blocks; None when no row has any."""
    if column.null_count == len(column):
        return None
    return pa.array([_header_block(row) for row in column.to_pylist()], pa.binary())


class _Header(TypedDict):
    key: str | None
    value: bytes | None


def _header_block(row: list[_Header | None] | None) -> bytes:
    out = bytearray()
    write_varint(out, len(row or ()))
    for header in row or ():
        if header is None or header["key"] is None:
            raise PipelineError("a row's header is null or has no key: Kafka's headers need one")
        key, value = header["key"].encode(), header["value"]
        write_varint(out, len(key))
        out += key
        write_varint(out, -1 if value is None else len(value))
        out += value or b""
    return bytes(out)


def partitions_for_keys(keys: pa.Array, count: int) -> Ints:
    """The partition that Java's producer chooses for every key: murmur2, sign bit cleared, modulo. -1 without a key."""
    array = pc.fill_null(keys, b"")
    edges = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    raw = array.buffers()[2]
    data = np.frombuffer(raw, np.uint8) if raw is not None and raw.size else np.zeros(0, np.uint8)
    # Reading four bytes at a time may go past the last key. The padding makes that harmless.
    data = np.concatenate([data, np.zeros(4, np.uint8)])
    starts, lengths = edges[:-1], np.diff(edges)
    mix, seed = np.uint32(0x5BD1E995), np.uint32(0x9747B28C)
    value = seed ^ lengths.astype(np.uint32)
    words = lengths // 4
    for step in range(int(words.max(initial=0))):
        rows = np.flatnonzero(words > step)
        at = starts[rows] + 4 * step
        word = sum(data[at + i].astype(np.uint32) << np.uint32(8 * i) for i in range(4)) * mix
        word = (word ^ (word >> np.uint32(24))) * mix
        value[rows] = value[rows] * mix ^ word
    left = lengths % 4
    tail_at = starts + 4 * words
    tail = np.zeros(len(lengths), np.uint32)
    for i in range(3):
        rows = np.flatnonzero(left > i)
        tail[rows] |= data[tail_at[rows] + i].astype(np.uint32) << np.uint32(8 * i)
    value = np.where(left > 0, (value ^ tail) * mix, value)
    value = (value ^ (value >> np.uint32(13))) * mix
    value ^= value >> np.uint32(15)
    chosen = (value & np.uint32(0x7FFFFFFF)).astype(np.int64) % count
    return np.where(_nulls(keys), -1, chosen)
