"""JSON text as Jackson prints it. Confluent's registry hashes that text, so ids and GUIDs depend on every byte of it.

It differs from Python's `json.dumps` in three ways: no spaces, upper-case hexadecimal digits in `\\u00XX` escapes, and
numbers in Java's form (`1.0E10`).
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Final

from headrace.kernel.json_values import JsonValue
from headrace.registry.core.errors import InvalidSchema

_SHORT: Final = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_ESCAPED: Final = re.compile(r'["\\\x00-\x1f]')
_SMALLEST_PLAIN: Final = 1e-3
_LARGEST_PLAIN: Final = 1e7
# Deeper documents are rejected, because all functions that walk a schema are recursive.
_DEEPEST: Final = 200


def parse_json(text: str, what: str) -> JsonValue:
    """The document. Raises InvalidSchema with line and column."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError as fault:
        raise InvalidSchema(f"{what} is not JSON: {fault.msg} at line {fault.lineno}, column {fault.colno}") from fault
    except RecursionError as fault:
        raise InvalidSchema(f"{what} is nested more than {_DEEPEST} levels deep") from fault
    if _depth(document) > _DEEPEST:
        raise InvalidSchema(f"{what} is nested more than {_DEEPEST} levels deep")
    return document


def _depth(document: JsonValue) -> int:
    deepest, level = 0, [document]
    while level:
        deepest += 1
        below: list[JsonValue] = []
        for each in level:
            if isinstance(each, dict):
                below += each.values()
            elif isinstance(each, list):
                below += each
        level = below
    return deepest


def json_text(value: JsonValue) -> str:
    out: list[str] = []
    _write(value, out)
    return "".join(out)


def quoted(text: str) -> str:
    return '"' + _ESCAPED.sub(lambda found: _SHORT.get(found[0]) or f"\\u{ord(found[0]):04X}", text) + '"'


def _write(value: JsonValue, out: list[str]) -> None:
    if isinstance(value, str):
        out.append(quoted(value))
    elif value is None:
        out.append("null")
    elif isinstance(value, bool):
        out.append("true" if value else "false")
    elif isinstance(value, int):
        out.append(str(value))
    elif isinstance(value, float):
        out.append(java_double(value))
    elif isinstance(value, dict):
        out.append("{")
        for index, (name, each) in enumerate(value.items()):
            out.append(("," if index else "") + quoted(str(name)) + ":")
            _write(each, out)
        out.append("}")
    else:
        out.append("[")
        for index, each in enumerate(value):
            if index:
                out.append(",")
            _write(each, out)
        out.append("]")


def java_double(value: float) -> str:
    """`Double.toString`: plain from 0.001 up to ten million, in scientific form otherwise."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return repr(value)
    if _SMALLEST_PLAIN <= abs(value) < _LARGEST_PLAIN:
        plain = format(Decimal(repr(value)), "f")
        return plain if "." in plain else plain + ".0"
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0") or "0"
    power = len(digits) - 1 + exponent
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{power}"
