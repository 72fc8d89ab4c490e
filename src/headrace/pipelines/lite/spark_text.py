"""Values as text, as Spark writes them in JSON and by CAST(… AS STRING). Both runners must write the same bytes."""

from __future__ import annotations

import base64
import datetime
import json
import re
from collections.abc import Iterable
from typing import Final

from headrace.pipelines.lite.rows import LiteRow
from headrace.pipelines.plugins.columns import Value

_ESCAPE: Final = re.compile(r"\\u00[0-9a-f]{2}")


def double_text(value: float) -> str:
    """As Java: plain from 0.001 to below 10,000,000, else with an exponent. Java before 19 writes one digit more for a
    few numbers, and every Java for numbers near the smallest one. Both texts mean the same number."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = repr(value)
        if "e" not in text:
            return text
        return f"{value:f}".rstrip("0")
    sign, digits, exponent = re.fullmatch(r"(-?)([\d.]+)(?:e([+-]\d+))?", repr(value)).groups()  # type: ignore[union-attr]
    whole, _, fraction = digits.partition(".")
    power = int(exponent or 0) + len(whole) - 1
    both = whole + fraction
    stripped = both.lstrip("0")
    power -= len(both) - len(stripped) if whole == "0" else 0
    mantissa = f"{stripped[0]}.{stripped[1:].rstrip('0') or '0'}"
    return f"{sign}{mantissa}E{power}"


def cast_text(value: Value) -> str | None:
    """CAST(value AS STRING)."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return double_text(value)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, datetime.datetime):
        text = value.astimezone(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
        return text.rstrip("0").rstrip(".")
    return str(value)


def json_text(row: LiteRow, names: Iterable[str]) -> str:
    """to_json(struct(names…)) with null fields."""
    return "{" + ",".join(f"{_quoted(name)}:{_json(row.get(name))}" for name in names) + "}"


def _json(value: Value) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        text = double_text(value)
        return f'"{text}"' if text.endswith(("N", "y")) else text
    if isinstance(value, bytes):
        return _quoted(base64.b64encode(value).decode())
    if isinstance(value, datetime.datetime):
        at = value.astimezone(datetime.UTC)
        return _quoted(f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z")
    return _quoted(str(value))


def _quoted(text: str) -> str:
    # Jackson writes control characters with upper-case digits.
    return _ESCAPE.sub(lambda match: "\\u" + match[0][2:].upper(), json.dumps(text, ensure_ascii=False))
