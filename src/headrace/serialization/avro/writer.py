"""Writes a Python value as Avro, by functions that are made once for each schema.

A value can be what the decoder gives: JSON values, where a string stands for bytes (one character a byte), for a
decimal, a date, a time or a UUID, or the Python types of these. fastavro's writer takes only the Python types, guesses
the branch of a union, and does not name the field that does not fit; so this module walks the schema itself.

A union takes its first branch that the value fits without a conversion, then the first with one, then the branch that
the value names as in Avro's JSON encoding: `{"string": "a"}`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, Final

from headrace.serialization.avro.logical_types import CONVERSIONS
from headrace.serialization.avro.schema import AvroSchema

Write = Callable[[bytearray, Any], None]
_INT_BOUND: Final = 2**31
_LONG_BOUND: Final = 2**63
_SHORT: Final = [bytes((n << 1,)) if n >= 0 else bytes(((-n << 1) - 1,)) for n in (*range(64), *range(-64, 0))]


class Mismatch(ValueError):
    """The value does not fit. `path` leads from the root to the place."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why
        self.path: list[str] = []

    def __str__(self) -> str:
        return f"{'.'.join(reversed(self.path))}: {self.why}" if self.path else self.why


class AvroWriters:
    """Makes writers. A writer of a named type is made once, so that recursive types end. `logical` False writes what
    logical types stand for, as the defaults in a schema do."""

    def __init__(self, schema: AvroSchema, *, logical: bool = True) -> None:
        self._schema = schema
        self._has_logical = logical
        self._named: dict[tuple[str, bool], list[Write]] = {}

    def writer(self, node: Any, *, exact: bool = False) -> Write:
        """`exact`: without conversions, to choose the branch of a union."""
        node = self._schema.resolved(node)
        if isinstance(node, list):
            return self._union(node)
        kind = node["type"] if isinstance(node, dict) else node
        if isinstance(kind, dict | list):
            return self.writer(kind, exact=exact)
        if self._has_logical and isinstance(node, dict) and node.get("logicalType") in CONVERSIONS:
            return self._logical(node, kind, exact=exact)
        if kind in _PRIMITIVES:
            return _primitive(kind, exact=exact)
        if kind == "array":
            return _array(self.writer(node["items"], exact=exact))
        if kind == "map":
            return _map(self.writer(node["values"], exact=exact))
        return self._named_type(node, kind, exact=exact)

    def _named_type(self, node: Mapping[str, Any], kind: str, *, exact: bool) -> Write:
        if kind == "enum":
            return _enum(node["name"], node["symbols"])
        if kind == "fixed":
            return _fixed(node["name"], node["size"], exact=exact)
        place = (node["name"], exact)
        if place not in self._named:
            made = self._named[place] = []
            fields = [(each, self.writer(each["type"], exact=exact), self._default(each)) for each in node["fields"]]
            made.append(_record(node, fields))
        made = self._named[place]
        return made[0] if made else lambda out, value: made[0](out, value)

    def _default(self, field: Mapping[str, Any]) -> Callable[[], bytes] | None:
        """Written when it is first needed: Avro accepts a default that does not fit as long as no record needs it."""
        if "default" not in field:
            return None

        @cache
        def default() -> bytes:
            out = bytearray()
            AvroWriters(self._schema, logical=False).writer(field["type"])(out, field["default"])
            return bytes(out)

        return default

    def _logical(self, node: Mapping[str, Any], kind: str, *, exact: bool) -> Write:
        convert = CONVERSIONS[node["logicalType"]]
        plain = {name: value for name, value in node.items() if name != "logicalType"}
        write = self.writer(plain if kind == "fixed" else kind, exact=exact)

        def logical(out: bytearray, value: Any) -> None:
            if exact and node["logicalType"] == "date" and isinstance(value, datetime):
                # A datetime is a date in Python. Another branch of the union may keep its time.
                raise Mismatch(f"{value!r} is no date")
            try:
                converted = value if exact and isinstance(value, str) else convert(value, node)
            except (ValueError, ArithmeticError, TypeError) as fault:
                raise Mismatch(f"{value!r} is no {node['logicalType']}: {fault}") from fault
            write(out, converted)

        return logical

    def _union(self, branches: Sequence[Any]) -> Write:
        names = [_branch_name(self._schema.resolved(each)) for each in branches]
        attempts = [
            (long_bytes(index), self.writer(branch, exact=exact))
            for exact in (True, False)
            for index, branch in enumerate(branches)
        ]
        tagged = {name: attempts[len(branches) + index] for index, name in enumerate(names)}
        null = long_bytes(names.index("null")) if "null" in names else None

        def union(out: bytearray, value: Any) -> None:
            if value is None and null is not None:
                out += null
                return None
            start = len(out)
            reasons: list[Mismatch] = []
            for number, write in attempts:
                out += number
                try:
                    return write(out, value)
                except Mismatch as mismatch:
                    del out[start:]
                    reasons.append(mismatch)
            if isinstance(value, Mapping) and len(value) == 1 and next(iter(value)) in tagged:
                number, write = tagged[next(iter(value))]
                out += number
                return write(out, next(iter(value.values())))
            choices = [each for each in reasons[len(branches) :] if each.path]
            raise choices[0] if len(choices) == 1 else Mismatch(f"{value!r} fits none of {', '.join(names)}")

        return union


def _branch_name(node: Any) -> str:
    if not isinstance(node, dict):
        return "union" if isinstance(node, list) else str(node)
    return str(node.get("name") or node["type"])


def long_bytes(number: int) -> bytes:
    """Zig-zag, seven bits a byte, the low ones first."""
    if -64 <= number < 64:
        return _SHORT[number]
    value = (number << 1) ^ (number >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _null(out: bytearray, value: Any) -> None:
    if value is not None:
        raise Mismatch(f"{value!r} is not null")


def _boolean(out: bytearray, value: Any) -> None:
    if not isinstance(value, bool):
        raise Mismatch(f"{value!r} is no boolean")
    out.append(value)


def _integer(kind: str, bound: int) -> Write:
    def integer(out: bytearray, value: Any) -> None:
        if not isinstance(value, int) or isinstance(value, bool):
            raise Mismatch(f"{value!r} is no {kind}")
        if not -bound <= value < bound:
            raise Mismatch(f"{value} is beyond the range of {kind}")
        out += long_bytes(value)

    return integer


def _floating(kind: str, code: str, *, exact: bool) -> Write:
    pack = struct.Struct(code).pack

    def floating(out: bytearray, value: Any) -> None:
        if not isinstance(value, float) and (exact or not isinstance(value, int) or isinstance(value, bool)):
            raise Mismatch(f"{value!r} is no {kind}")
        try:
            out += pack(value)
        except (OverflowError, struct.error) as fault:
            raise Mismatch(f"{value} is beyond the range of {kind}") from fault

    return floating


def _string(out: bytearray, value: Any) -> None:
    if not isinstance(value, str):
        raise Mismatch(f"{value!r} is no string")
    try:
        data = value.encode()
    except UnicodeEncodeError as fault:
        raise Mismatch(f"{value!r} is not valid Unicode text") from fault
    out += long_bytes(len(data))
    out += data


def _as_bytes(value: Any, *, exact: bool) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if exact or not isinstance(value, str):
        raise Mismatch(f"{value!r} is not bytes")
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError as fault:
        raise Mismatch(f"{value!r} is not bytes: a string for bytes has one character (0 to 255) a byte") from fault


def _bytes(*, exact: bool) -> Write:
    def binary(out: bytearray, value: Any) -> None:
        data = _as_bytes(value, exact=exact)
        out += long_bytes(len(data))
        out += data

    return binary


_PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


def _primitive(kind: str, *, exact: bool) -> Write:
    if kind in ("float", "double"):
        return _floating(kind, "<f" if kind == "float" else "<d", exact=exact)
    if kind in ("int", "long"):
        return _integer(kind, _INT_BOUND if kind == "int" else _LONG_BOUND)
    if kind == "bytes":
        return _bytes(exact=exact)
    return {"null": _null, "boolean": _boolean, "string": _string}[kind]


def _array(item: Write) -> Write:
    def array(out: bytearray, value: Any) -> None:
        if not isinstance(value, list | tuple):
            raise Mismatch(f"{value!r} is no array")
        if value:
            out += long_bytes(len(value))
            for index, each in enumerate(value):
                _within(f"[{index}]", item, out, each)
        out.append(0)

    return array


def _map(item: Write) -> Write:
    def mapping(out: bytearray, value: Any) -> None:
        if not isinstance(value, Mapping):
            raise Mismatch(f"{value!r} is no map")
        if value:
            out += long_bytes(len(value))
            for name, each in value.items():
                _string(out, name)
                _within(name, item, out, each)
        out.append(0)

    return mapping


def _within(name: str, write: Write, out: bytearray, value: Any) -> None:
    try:
        write(out, value)
    except Mismatch as mismatch:
        mismatch.path.append(name)
        raise


def _enum(name: str, symbols: Sequence[str]) -> Write:
    numbers = {symbol: long_bytes(index) for index, symbol in enumerate(symbols)}

    def enum(out: bytearray, value: Any) -> None:
        if not isinstance(value, str) or value not in numbers:
            raise Mismatch(f"{value!r} is no symbol of enum {name}: must be one of {', '.join(symbols)}")
        out += numbers[value]

    return enum


def _fixed(name: str, size: int, *, exact: bool) -> Write:
    def fixed(out: bytearray, value: Any) -> None:
        data = _as_bytes(value, exact=exact)
        if len(data) != size:
            raise Mismatch(f"{len(data)} bytes for fixed {name}: must be {size}")
        out += data

    return fixed


def _record(
    node: Mapping[str, Any], fields: Sequence[tuple[Mapping[str, Any], Write, Callable[[], bytes] | None]]
) -> Write:
    steps = [(field["name"], write, default) for field, write, default in fields]
    known = {name for name, *_ in steps}

    def record(out: bytearray, value: Any) -> None:
        if not isinstance(value, Mapping):
            raise Mismatch(f"{value!r} is no record {node['name']}")
        found = 0
        for name, write, default in steps:
            if name in value:
                found += 1
                _within(name, write, out, value[name])
            elif default is not None:
                out += default()
            else:
                raise Mismatch(f"record {node['name']} needs the field {name!r}, which has no default")
        if found < len(value):
            unknown = next(name for name in value if name not in known)
            raise Mismatch(f"record {node['name']} has no field {unknown!r}")

    return record
