"""Avro's logical types: Python values and strings to the numbers, bytes and strings that Avro writes.

Each function takes the value and the schema node. A value that has the underlying type already stays as it is. A
datetime without a zone is in UTC.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_MICROSECOND: Final = timedelta(microseconds=1)
_MICROS_A_SECOND: Final = 1_000_000

Node = Mapping[str, Any]


def _decimal(value: Any, node: Node) -> Any:
    if isinstance(value, bytes):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise ValueError("a decimal is a number or its text")
    number = value if isinstance(value, Decimal) else Decimal(str(value))
    scale, precision = node.get("scale", 0), node["precision"]
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError("Avro has no such decimal")
    shift = exponent + scale
    unscaled = int("".join(map(str, digits)) or "0")
    if shift < 0 and unscaled % 10**-shift:
        raise ValueError(f"it has more than {scale} digits after the point")
    unscaled = unscaled * 10**shift if shift >= 0 else unscaled // 10**-shift
    if len(str(unscaled)) > precision:
        raise ValueError(f"it has more than {precision} digits")
    unscaled = -unscaled if sign else unscaled
    size = node["size"] if node["type"] == "fixed" else (unscaled.bit_length() + 8) // 8
    return unscaled.to_bytes(size, "big", signed=True)


def _date(value: Any, _: Node) -> Any:
    if isinstance(value, str):
        value = date.fromisoformat(value)
    return value.toordinal() - _EPOCH_DAY if isinstance(value, date) else value


def _time(micros_a_unit: int) -> Callable[[Any, Node], Any]:
    def convert(value: Any, _: Node) -> Any:
        if isinstance(value, str):
            value = time.fromisoformat(value)
        if not isinstance(value, time):
            return value
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return (seconds * _MICROS_A_SECOND + value.microsecond) // micros_a_unit

    return convert


def _timestamp(micros_a_unit: int, units_a_micro: int = 1) -> Callable[[Any, Node], Any]:
    def convert(value: Any, _: Node) -> Any:
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        if not isinstance(value, datetime):
            return value
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return (aware - _EPOCH) // _MICROSECOND // micros_a_unit * units_a_micro

    return convert


def _local_timestamp(micros_a_unit: int, units_a_micro: int = 1) -> Callable[[Any, Node], Any]:
    """The hands of the clock: a zone in the value is ignored."""
    inner = _timestamp(micros_a_unit, units_a_micro)

    def convert(value: Any, node: Node) -> Any:
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        return inner(value.replace(tzinfo=None) if isinstance(value, datetime) else value, node)

    return convert


def _uuid(value: Any, node: Node) -> Any:
    if not isinstance(value, uuid.UUID | str):
        return value
    found = value if isinstance(value, uuid.UUID) else uuid.UUID(value)
    return found.bytes if node["type"] == "fixed" else str(found)


CONVERSIONS: Final[dict[str, Callable[[Any, Node], Any]]] = {
    "decimal": _decimal,
    "date": _date,
    "time-millis": _time(1000),
    "time-micros": _time(1),
    "timestamp-millis": _timestamp(1000),
    "timestamp-micros": _timestamp(1),
    "timestamp-nanos": _timestamp(1, 1000),
    "local-timestamp-millis": _local_timestamp(1000),
    "local-timestamp-micros": _local_timestamp(1),
    "local-timestamp-nanos": _local_timestamp(1, 1000),
    "uuid": _uuid,
}
