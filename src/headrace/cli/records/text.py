"""Records as text: decodes keys and values, makes JSON documents, and formats lines by templates.

Templates: `%t %p %o %k %s %T %h %K %S` as in kcat (topic, partition, offset, key, value, timestamp, headers, key
and value lengths), or `{topic} {partition} {offset} {key} {value} {timestamp} {time} {headers}`, `{value.user.id}` into
a JSON value and `{header.name}`. `\\n`, `\\t`, `\\\\` mean what they do in C; `%%`, `{{` and `}}` are themselves.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from headrace.client.places import time_text

Headers = tuple[tuple[str, bytes | None], ...]


class Decoding(StrEnum):
    AUTO = "auto"
    UTF8 = "utf-8"
    HEX = "hex"
    BASE64 = "base64"
    JSON = "json"
    CONSUMER_OFFSETS = "consumer-offsets"
    TRANSACTION_STATE = "transaction-state"


@dataclass(frozen=True, slots=True)
class Seen:
    """A record as it was read."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    is_key_json: bool = False
    is_value_json: bool = False
    """The registry's schema has decoded them to JSON."""
    error: str | None = None
    """Why a key or value that names a schema was not decoded."""


def decode(data: bytes | None, how: Decoding) -> object:
    """Text, a JSON value, or None for null. Bytes that are not text become hexadecimal digits after 0x."""
    if data is None:
        return None
    if how is Decoding.HEX:
        return data.hex()
    if how is Decoding.BASE64:
        return base64.b64encode(data).decode()
    if how is Decoding.JSON:
        try:
            return json.loads(data)
        except ValueError:
            pass
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode(errors="replace") if how is Decoding.UTF8 else f"0x{data.hex()}"


def decode_pair(record: Seen, key_how: Decoding, value_how: Decoding) -> tuple[object, object]:
    """Decodes key and value together, which records of the coordinators' topics require."""
    if value_how in (Decoding.CONSUMER_OFFSETS, Decoding.TRANSACTION_STATE):
        from headrace.cli.kafka_tools.support import internal_records

        offsets = value_how is Decoding.CONSUMER_OFFSETS
        describe = internal_records.describe_group_record if offsets else internal_records.describe_transaction_record
        key, value = describe(record.key, record.value)
        return _json_or_text(key), _json_or_text(value)
    return (
        decode(record.key, Decoding.JSON if record.is_key_json else key_how),
        decode(record.value, Decoding.JSON if record.is_value_json else value_how),
    )


def _json_or_text(text: str | None) -> object:
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return text


def document(record: Seen, key_how: Decoding, value_how: Decoding) -> dict[str, object]:
    """The document that `-o json` prints and `produce --format json` reads. Bytes that are not text are in base64."""
    found: dict[str, object] = {
        "topic": record.topic, "partition": record.partition, "offset": record.offset,
        "timestamp": record.timestamp_ms,
    }  # fmt: skip
    key, value = decode_pair(record, key_how, value_how)
    for name, data, how, shown in (("key", record.key, key_how, key), ("value", record.value, value_how, value)):
        if data is not None and how is Decoding.AUTO and not _is_text(data):
            found[f"{name}_base64"] = base64.b64encode(data).decode()
        else:
            found[name] = shown
    if record.error is not None:
        found["error"] = record.error
    found["headers"] = [header_document(name, data) for name, data in record.headers]
    return found


def header_document(name: str, data: bytes | None) -> list[object] | dict[str, str]:
    if data is None or _is_text(data):
        return [name, decode(data, Decoding.AUTO)]
    return {"key": name, "base64": base64.b64encode(data).decode()}


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def as_text(value: object) -> str:
    """A decoded value within a line."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def json_path(data: bytes | None, path: list[str]) -> object:
    """The value at the path `["user", "0", "id"]`; None if it does not exist."""
    try:
        found = None if data is None else json.loads(data)
    except ValueError:
        return None
    for step in path:
        if isinstance(found, dict):
            found = found.get(step)
        elif isinstance(found, list) and step.isdecimal() and int(step) < len(found):
            found = found[int(step)]
        else:
            return None
    return found


def header(record: Seen, name: str) -> bytes | None:
    """The last header with this name, as consumers use it."""
    return next((value for key, value in reversed(record.headers) if key == name), None)


Part = Callable[[Seen], str]
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "0": "\0"}
_TOKEN: Final = re.compile(r"\\(.)|%(.)|(\{\{|\}\})|\{([^{}]*)\}|([^\\%{}]+)|(.)", re.DOTALL)


def template(text: str, key_how: Decoding = Decoding.AUTO, value_how: Decoding = Decoding.AUTO) -> Part:
    """Compiles a template. Raises ValueError with the wrong part and its column."""

    def key(record: Seen) -> str:
        return as_text(decode_pair(record, key_how, value_how)[0])

    def value(record: Seen) -> str:
        return as_text(decode_pair(record, key_how, value_how)[1])

    def headers(record: Seen) -> str:
        return ",".join(f"{name}={as_text(decode(data, Decoding.AUTO))}" for name, data in record.headers)

    fields: dict[str, Part] = {
        "topic": lambda r: r.topic,
        "partition": lambda r: str(r.partition),
        "offset": lambda r: str(r.offset),
        "key": key,
        "value": value,
        "timestamp": lambda r: str(r.timestamp_ms),
        "time": lambda r: time_text(r.timestamp_ms),
        "headers": headers,
        "key_size": lambda r: str(-1 if r.key is None else len(r.key)),
        "value_size": lambda r: str(-1 if r.value is None else len(r.value)),
    }
    letters = {
        "t": "topic", "p": "partition", "o": "offset", "k": "key", "s": "value", "T": "timestamp", "h": "headers",
        "K": "key_size", "S": "value_size",
    }  # fmt: skip
    parts: list[Part] = []
    for found in _TOKEN.finditer(text):
        escape, letter, brace, field, plain, odd = found.groups()
        if escape is not None:
            parts.append(_constant(_ESCAPES.get(escape, "\\" + escape)))
        elif letter is not None:
            if letter != "%" and letter not in letters:
                raise ValueError(f"%{letter} at column {found.start() + 1}: must be one of %{' %'.join(letters)} %%")
            parts.append(_constant("%") if letter == "%" else fields[letters[letter]])
        elif brace is not None:
            parts.append(_constant(brace[0]))
        elif field is not None:
            parts.append(_field(field, fields, found.start() + 1))
        elif plain is not None:
            parts.append(_constant(plain))
        else:
            raise ValueError(f"{odd!r} at column {found.start() + 1}: write {odd * 2} for the character itself")
    return lambda record: "".join(part(record) for part in parts)


def _constant(text: str) -> Part:
    return lambda record: text


def _field(name: str, fields: dict[str, Part], column: int) -> Part:
    first, dot, rest = name.partition(".")
    if name in fields:
        return fields[name]
    if dot and first == "header":
        return lambda record: as_text(decode(header(record, rest), Decoding.AUTO))
    if dot and first in ("key", "value"):
        path = rest.split(".")
        return lambda record: as_text(json_path(record.key if first == "key" else record.value, path))
    raise ValueError(
        f"{{{name}}} at column {column}: must be one of {', '.join(fields)}, value.PATH, key.PATH or header.NAME"
    )
