"""Python values of decoded records as JSON values.

Decimals become text, because a float would lose digits. Dates and times become ISO 8601. Bytes become what the JSON
form of their format has: one character a byte (Avro) or Base64 (Protobuf).
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any


def latin_1(data: bytes) -> str:
    return data.decode("latin-1")


def base_64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def as_json(value: Any, binary: Callable[[bytes], str] = latin_1) -> Any:
    if isinstance(value, Mapping):
        return {_name(name): as_json(each, binary) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(each, binary) for each in value]
    if isinstance(value, bytes | bytearray):
        return binary(bytes(value))
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return f"{value / timedelta(seconds=1):.6f}s"
    return str(value) if isinstance(value, Decimal | uuid.UUID) else value


def _name(name: Any) -> str:
    """JSON writes the keys true and false in small letters."""
    return str(name).lower() if isinstance(name, bool) else str(name)
