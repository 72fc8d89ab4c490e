"""Reads gauges and sums from an OpenTelemetry `MetricsData` message (protobuf), as Kafka's clients push it.

    MetricsData.resource_metrics(1) → ResourceMetrics.scope_metrics(2) → ScopeMetrics.metrics(2) → Metric
    Metric: name(1), gauge(5) or sum(7); Sum: data_points(1), aggregation_temporality(2)
    NumberDataPoint: as_double(4), as_int(6), attributes(7)

The message has a fixed shape, so that a reader of forty lines replaces generated classes and their library. Histograms
and summaries, which Kafka's clients do not push, are skipped. Bytes from a client are never trusted: a damaged message
raises InvalidTelemetry.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from headrace.kernel.errors import ErrorCode, Refused

_DELTA: Final = 1
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT_BITS: Final = 63


class InvalidTelemetry(Refused):
    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.invalid_record, f"pushed metrics cannot be read: {message}")


class Point(NamedTuple):
    name: str
    attributes: tuple[tuple[str, str], ...]
    value: float
    # Whether the value is the change since the last push.
    is_delta: bool


def read_points(data: bytes | memoryview) -> Iterator[Point]:
    """Raises InvalidTelemetry, also after some points."""
    for resource in _messages(memoryview(data), 1):
        for scope in _messages(resource, 2):
            for metric in _messages(scope, 2):
                yield from _points(metric)


def _points(metric: memoryview) -> Iterator[Point]:
    name = ""
    points: list[memoryview] = []
    is_delta = False
    for number, value in _fields(metric):
        if number == 1 and isinstance(value, memoryview):
            name = _text(value)
        elif number in (5, 7) and isinstance(value, memoryview):
            for inner, content in _fields(value):
                if inner == 1 and isinstance(content, memoryview):
                    points.append(content)
                elif inner == 2 and number == 7:
                    is_delta = content == _DELTA
    for point in points:
        yield _number_point(name, point, is_delta)


def _number_point(name: str, point: memoryview, is_delta: bool) -> Point:
    value = 0.0
    attributes: list[tuple[str, str]] = []
    for number, content in _fields(point):
        if number == 4 and isinstance(content, bytes):
            value = _fixed("<d", content)
        elif number == 6 and isinstance(content, bytes):
            value = _fixed("<q", content)
        elif number == 7 and isinstance(content, memoryview):
            attributes.append(_attribute(content))
    return Point(name, tuple(sorted(attributes)), value, is_delta)


def _attribute(message: memoryview) -> tuple[str, str]:
    key = text = ""
    for number, content in _fields(message):
        if number == 1 and isinstance(content, memoryview):
            key = _text(content)
        elif number == 2 and isinstance(content, memoryview):
            for kind, value in _fields(content):
                if kind == 1 and isinstance(value, memoryview):
                    text = _text(value)
                elif kind in (2, 3) and isinstance(value, int):
                    text = str(value if kind == 3 else bool(value)).lower()
                elif kind == 4 and isinstance(value, bytes):
                    text = repr(_fixed("<d", value))
    return key, text


def _messages(message: memoryview, number: int) -> Iterator[memoryview]:
    return (value for found, value in _fields(message) if found == number and isinstance(value, memoryview))


def _fields(message: memoryview) -> Iterator[tuple[int, int | bytes | memoryview]]:
    """(field number, value): a number for a varint, eight or four bytes for a fixed one, a view for a nested one."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            length, at = _varint(message, at)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise InvalidTelemetry(f"field {tag >> 3} has the unknown wire type {kind}")
        if length > len(message) - at:
            raise InvalidTelemetry(f"field {tag >> 3} ends after its message")
        content = message[at : at + length]
        yield tag >> 3, content if kind == _BYTES else bytes(content)
        at += length


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        if at >= len(message) or shift > _LONGEST_VARINT_BITS:
            raise InvalidTelemetry("a number does not end")
        byte = message[at]
        result |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return result, at
        shift += 7


def _fixed(form: str, data: bytes) -> float:
    if len(data) != struct.calcsize(form):
        raise InvalidTelemetry(f"a number has {len(data)} bytes")
    return float(struct.unpack(form, data)[0])


def _text(data: memoryview) -> str:
    return bytes(data).decode(errors="replace")
