"""Parses records from text: plain lines, `key<TAB>value`, and JSON documents. Errors name line and column."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from headrace.cli.kafka_tools.support.tool import ToolFailed

_FIELDS: Final = frozenset(
    {"key", "value", "key_base64", "value_base64", "headers", "timestamp", "partition", "topic", "offset", "error"}
)


class WrongRecord(ToolFailed):
    """The message names the file, the line, and the column if there is one."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """A record to send."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int | None = None
    partition: int | None = None


def plain_lines(lines: Iterable[bytes], *, null_value: str | None = None) -> Iterator[Incoming]:
    """Each line is a value."""
    null = None if null_value is None else null_value.encode()
    for line in lines:
        value = line.rstrip(b"\r\n")
        yield Incoming(None, None if value == null else value)


def keyed_lines(
    lines: Iterable[bytes], separator: str, source: str, *, null_value: str | None = None
) -> Iterator[Incoming]:
    """`key<separator>value`."""
    mark, null = separator.encode(), None if null_value is None else null_value.encode()
    for number, line in enumerate(lines, 1):
        key, found, value = line.rstrip(b"\r\n").partition(mark)
        if not found:
            raise WrongRecord(f"{source} line {number}: no {separator!r} between key and value")
        yield Incoming(key, None if value == null else value)


def json_lines(lines: Iterable[bytes], source: str) -> Iterator[Incoming]:
    """One document per line. Skips empty lines."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found = json.loads(line.rstrip(b"\r\n"))
        except json.JSONDecodeError as error:
            raise WrongRecord(f"{source} line {number} column {error.colno}: not JSON: {error.msg}") from error
        except UnicodeDecodeError as error:
            raise WrongRecord(f"{source} line {number} column {error.start + 1}: not UTF-8") from error
        try:
            yield from_document(found)
        except ValueError as error:
            raise WrongRecord(f"{source} line {number}: {error}") from error


def from_document(found: object) -> Incoming:
    """`{"key", "value", "headers", "timestamp", "partition"}`. Raises ValueError with the field."""
    if not isinstance(found, dict):
        raise ValueError('must be an object as {"key": …, "value": …}')
    if unknown := sorted(set(found) - _FIELDS):
        raise ValueError(f"unknown field {unknown[0]!r}: must be one of {', '.join(sorted(_FIELDS))}")
    return Incoming(
        _data(found, "key"),
        _data(found, "value"),
        tuple(_headers(found.get("headers"))),
        _number(found, "timestamp"),
        _number(found, "partition"),
    )


def _data(found: dict[str, object], name: str) -> bytes | None:
    if f"{name}_base64" in found:
        text = found[f"{name}_base64"]
        if not isinstance(text, str):
            raise ValueError(f"{name}_base64: must be text, not {text!r}")
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise ValueError(f"{name}_base64: not base64: {error}") from error
    return encode(found.get(name))


def encode(value: object) -> bytes | None:
    """Text stays as it is. Other JSON values become compact JSON."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _number(found: dict[str, object], name: str) -> int | None:
    value = found.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < (0 if name == "partition" else -1):
        raise ValueError(f"{name} {value!r}: must be a whole number from 0")
    return None if value < 0 else value


def _headers(value: object) -> Iterator[tuple[str, bytes | None]]:
    """`{"name": "value"}`, `[["name", "value"]]`, or `[{"key": …, "value" or "base64": …}]`."""
    if value is None:
        return
    if isinstance(value, dict):
        yield from ((str(name), encode(data)) for name, data in value.items())
        return
    if not isinstance(value, list):
        raise ValueError("headers: must be an object or a list of pairs")
    for entry in value:
        if isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], str):
            yield entry[0], encode(entry[1])
        elif isinstance(entry, dict) and isinstance(entry.get("key"), str):
            yield entry["key"], _data({"value_base64": entry["base64"]} if "base64" in entry else entry, "value")
        else:
            raise ValueError(f"headers: {entry!r} must be a pair of name and value")
