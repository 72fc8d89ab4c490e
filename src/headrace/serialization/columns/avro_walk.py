"""Decodes many Avro payloads of one schema at once.

The payloads lie one after the other in one buffer. The walk keeps one position for each payload and reads field after
field: a field is read for all payloads with a few numpy calls, whatever the number of rows. fastavro makes a Python
object for each field of each record, which costs more than ten times as much.

A payload that looks wrong (it ends too early, a number is too long, an index is out of range) becomes *suspect*: its
position stays inside its bounds, its columns hold anything, and the caller decodes it alone to learn the reason. So
the fast path needs no error messages, and rare forms need no code here.

Not for arrays, maps, large decimals and unions of several types: `AvroWalk.of` returns None for these schemas.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.serialization.avro.schema import AvroSchema
from headrace.serialization.columns.avro_types import logical_type, record_fields

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_PADDING: Final = 16
_HIGH_BITS: Final = np.uint64(0x8080808080808080)
_MICROS_A_MILLI: Final = 1000
_MOST_MILLIS: Final = 2**63 // 1000 - 1
_VECTOR_PRECISION: Final = 18


class Cursor:
    """Positions within a buffer. `suspect` payloads are decoded alone later."""

    def __init__(self, data: npt.NDArray[np.uint8], starts: Ints, ends: Ints) -> None:
        """`data` has a padding behind the last payload, so that a word can be read at every position."""
        self.data = data
        self.at = starts.copy()
        self.ends = ends
        self.suspect: Mask = np.zeros(len(starts), bool)
        size = len(data) - 8
        self._words = np.ndarray((size,), np.dtype("<u8"), data.data, 0, (1,))
        self._halves = np.ndarray((size,), np.dtype("<u4"), data.data, 0, (1,))

    def move(self, lengths: Ints | int, active: Mask | None) -> None:
        """Moves the active positions on, but never past the end of a payload."""
        after = self.at + lengths
        if active is not None:
            after = np.where(active, after, self.at)
        beyond = after > self.ends
        if beyond.any():
            self.suspect |= beyond
            after = np.minimum(after, self.ends)
        self.at = after

    def doubt(self, wrong: Mask, active: Mask | None) -> None:
        self.suspect |= wrong if active is None else wrong & active

    def longs(self, active: Mask | None) -> Ints:
        """Zig-zag varints. One byte for all rows is the common case; else the first eight are read as one word."""
        first = self.data[self.at]
        if not (first & 0x80 if active is None else first[active] & 0x80).any():
            self.move(1, active)
            return _unzigzag(first.astype(np.uint64))
        word = self._words[self.at]
        stops = ~word & _HIGH_BITS
        below = (stops & (~stops + np.uint64(1))) - np.uint64(1)  # the bits up to the last byte's high bit
        number, size = _without_high_bits(word & below), (np.bitwise_count(below).astype(np.int64) + 1) >> 3
        if (long := stops == 0).any():
            ninth, tenth = self.data[self.at + 8], self.data[self.at + 9]
            has_tenth = ninth > 0x7F
            self.doubt(long & has_tenth & (tenth > 1), active)
            high = (ninth & 0x7F).astype(np.uint64) << np.uint64(56)
            high |= np.where(has_tenth, tenth, 0).astype(np.uint64) << np.uint64(63)
            number, size = np.where(long, number | high, number), np.where(long, 9 + has_tenth, size)
        self.move(size, active)
        return _unzigzag(number)

    def words(self, active: Mask | None) -> npt.NDArray[np.uint64]:
        found = self._words[self.at]
        self.move(8, active)
        return found

    def halves(self, active: Mask | None) -> npt.NDArray[np.uint32]:
        found = self._halves[self.at]
        self.move(4, active)
        return found

    def single(self, active: Mask | None) -> npt.NDArray[np.uint8]:
        found = self.data[self.at]
        self.move(1, active)
        return found

    def spans(self, lengths: Ints, active: Mask | None) -> tuple[Ints, Ints]:
        """(begin, end) of the next `lengths` bytes; empty for rows that are not active."""
        self.doubt(lengths < 0, active)
        begin = self.at
        self.move(np.maximum(lengths, 0), active)
        return begin, self.at

    def binary(self, begin: Ints, end: Ints) -> pa.Array:
        """The bytes between. Payloads follow each other, so the bytes between two spans are spans too: Arrow takes
        every second of them in one call."""
        edges = np.empty(2 * len(begin) + 1, np.int32)
        edges[0:-1:2], edges[1::2], edges[-1] = begin, end, len(self.data)
        both = pa.Array.from_buffers(pa.binary(), 2 * len(begin), [None, pa.py_buffer(edges), pa.py_buffer(self.data)])
        return both.take(pa.array(np.arange(0, 2 * len(begin), 2)))

    def left(self, begin: Ints) -> npt.NDArray[np.uint64]:
        """The eight bytes at each position, the first as the highest."""
        return self._words[begin].byteswap()


def _unzigzag(number: npt.NDArray[np.uint64]) -> Ints:
    return (number >> np.uint64(1)).view(np.int64) ^ -(number & np.uint64(1)).view(np.int64)


def _without_high_bits(word: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Joins the lower seven bits of the eight bytes: pairs, then fours, then all."""
    word = word & np.uint64(0x7F7F7F7F7F7F7F7F)
    for low, shift in ((0x007F007F007F007F, 1), (0x00003FFF00003FFF, 2), (0x000000000FFFFFFF, 4)):
        mask = np.uint64(low)
        word = (word & mask) | ((word & ~mask) >> np.uint64(shift))
    return word


Read = Callable[[Cursor, Mask | None], pa.Array]


class AvroWalk:
    """The reader of one schema."""

    def __init__(self, reads: list[tuple[str, Read]]) -> None:
        self._reads = reads

    @classmethod
    def of(cls, schema: AvroSchema) -> AvroWalk | None:
        root = schema.resolved(schema.root)
        within = (root["name"],) if isinstance(root, dict) and "name" in root else ()
        reads = [(name, _reader(schema, node, within)) for name, node in record_fields(schema)]
        return None if any(read is None for _, read in reads) else cls([(n, r) for n, r in reads if r])

    def read(self, data: npt.NDArray[np.uint8], starts: Ints, ends: Ints) -> tuple[dict[str, pa.Array], Mask]:
        """(columns by name, suspect rows). `data` has 16 bytes more than the payloads need."""
        cursor = Cursor(data, starts, ends)
        columns = {name: read(cursor, None) for name, read in self._reads}
        cursor.suspect |= cursor.at != ends
        return columns, cursor.suspect


def padded(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    return np.concatenate([data, np.zeros(_PADDING, np.uint8)])


def _reader(schema: AvroSchema, node: Any, within: tuple[str, ...]) -> Read | None:
    node = schema.resolved(node)
    if isinstance(node, list):
        return _nullable(schema, node, within)
    kind = node["type"] if isinstance(node, dict) else node
    if isinstance(kind, dict | list):
        return _reader(schema, kind, within)
    logical = logical_type(node)
    if kind in ("int", "long"):
        return _integer(kind, logical, node)
    if kind in ("bytes", "string", "fixed"):
        return _binary(kind, logical, node)
    if kind == "enum":
        return _enum(node["symbols"])
    if kind in ("record", "error") and node["name"] not in within:
        return _record(schema, node, (*within, node["name"]))
    return {"boolean": _boolean, "float": _float, "double": _double}.get(kind)


def _array(values: npt.NDArray[Any], active: Mask | None) -> pa.Array:
    return pa.array(values, mask=None if active is None else ~active)


def _boolean(cursor: Cursor, active: Mask | None) -> pa.Array:
    found = cursor.single(active)
    cursor.doubt(found > 1, active)
    return _array(found == 1, active)


def _float(cursor: Cursor, active: Mask | None) -> pa.Array:
    return _array(cursor.halves(active).view(np.float32), active)


def _double(cursor: Cursor, active: Mask | None) -> pa.Array:
    return _array(cursor.words(active).view(np.float64), active)


def _integer(kind: str, logical: pa.DataType | None, node: Any) -> Read:
    is_millis = logical is not None and str(node["logicalType"]).endswith("millis")

    def integer(cursor: Cursor, active: Mask | None) -> pa.Array:
        found = cursor.longs(active)
        if kind == "int":
            narrow = found.astype(np.int32)
            cursor.doubt(narrow != found, active)
            made = _array(narrow, active)
        elif is_millis:
            cursor.doubt(np.abs(found) > _MOST_MILLIS, active)
            made = _array(found * _MICROS_A_MILLI, active)
        else:
            made = _array(found, active)
        return made if logical is None else made.view(logical)

    return integer


def _binary(kind: str, logical: pa.DataType | None, node: Any) -> Read | None:
    size = node["size"] if kind == "fixed" else None
    if logical is not None:
        return _decimal(logical, size) if logical.precision <= _VECTOR_PRECISION else None

    def binary(cursor: Cursor, active: Mask | None) -> pa.Array:
        lengths = cursor.longs(active) if size is None else np.full(len(cursor.at), size, np.int64)
        made = cursor.binary(*cursor.spans(lengths, active))
        if kind == "string":
            made = _text(made, cursor)
        return made if active is None else _masked(made, active)

    return binary


def _masked(array: pa.Array, active: Mask) -> pa.Array:
    return pc.if_else(pa.array(active), array, pa.scalar(None, array.type))


def _text(array: pa.Array, cursor: Cursor) -> pa.Array:
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        wrong = np.array([not _is_text(each) for each in array.to_pylist()])
        cursor.suspect |= wrong
        return pc.if_else(pa.array(wrong), pa.scalar(b"", pa.binary()), array).cast(pa.string())


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _decimal(kind: pa.DataType, size: int | None) -> Read:
    """Up to eight bytes, the highest first. More bytes for a small number are rare: suspect."""

    def decimal(cursor: Cursor, active: Mask | None) -> pa.Array:
        lengths = cursor.longs(active) if size is None else np.full(len(cursor.at), size, np.int64)
        begin, end = cursor.spans(lengths, active)
        count = end - begin
        cursor.doubt(count > 8, active)
        shift = (8 * (8 - np.clip(count, 1, 8))).astype(np.int64)
        number = cursor.left(begin).view(np.int64) >> shift
        number = np.where(count == 0, 0, number)
        cells = np.empty((len(number), 2), np.int64)
        cells[:, 0], cells[:, 1] = number, number >> 63
        cursor.doubt(np.abs(number) >= 10**kind.precision, active)
        made = pa.Array.from_buffers(kind, len(number), [None, pa.py_buffer(cells)])
        return made if active is None else _masked(made, active)

    return decimal


def _enum(symbols: list[str]) -> Read:
    names = pa.array(symbols, pa.string())

    def enum(cursor: Cursor, active: Mask | None) -> pa.Array:
        found = cursor.longs(active)
        wrong = (found < 0) | (found >= len(symbols))
        cursor.doubt(wrong, active)
        return names.take(_array(np.where(wrong, 0, found), active))

    return enum


def _nullable(schema: AvroSchema, branches: list[Any], within: tuple[str, ...]) -> Read | None:
    some = [index for index, each in enumerate(branches) if each != "null"]
    read = _reader(schema, branches[some[0]], within) if len(some) == 1 else None
    if read is None:
        return None
    inner = read

    def nullable(cursor: Cursor, active: Mask | None) -> pa.Array:
        chosen = cursor.longs(active)
        cursor.doubt((chosen < 0) | (chosen >= len(branches)), active)
        has_value = chosen == some[0]
        return inner(cursor, has_value if active is None else has_value & active)

    return nullable


def _record(schema: AvroSchema, node: Any, within: tuple[str, ...]) -> Read | None:
    reads = [(field["name"], _reader(schema, field["type"], within)) for field in node["fields"]]
    if not reads or any(read is None for _, read in reads):
        return None

    def record(cursor: Cursor, active: Mask | None) -> pa.Array:
        columns = [read(cursor, active) for _, read in reads if read is not None]
        mask = None if active is None else pa.array(~active)
        return pa.StructArray.from_arrays(columns, names=[name for name, _ in reads], mask=mask)

    return record
