"""Formatters and deserializers of kafka-console-consumer, by their Java class names.

Only the last part of the class name counts, so `kafka.tools.DefaultMessageFormatter` of old scripts and
`org.apache.kafka.tools.consumer.DefaultMessageFormatter` of new ones are the same.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol


class CannotFormat(ValueError):
    """A record that the chosen deserializer cannot read."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A record as formatters see it."""

    topic: str
    partition: int
    offset: int
    timestamp_type: str  # CreateTime, LogAppendTime or NoTimestampType
    timestamp_ms: int
    leader_epoch: int | None
    headers: tuple[tuple[str, bytes | None], ...]
    key: bytes | None
    value: bytes | None
    delivery_count: int | None = None  # of a share group


class Formatter(Protocol):
    def __call__(self, record: Shown) -> bytes | None:
        """The bytes to print, or None to print nothing."""


def _fixed(form: str, name: str) -> Callable[[bytes], str]:
    size = struct.calcsize(form)

    def read(data: bytes) -> str:
        if len(data) != size:
            raise CannotFormat(f"Size of data received by {name}Deserializer is not {size}")
        return str(struct.unpack(form, data)[0])

    return read


def _string(data: bytes) -> str:
    return data.decode(errors="replace")


def _uuid(data: bytes) -> str:
    try:
        return str(uuid.UUID(_string(data)))
    except ValueError as error:
        raise CannotFormat(f"{data!r} is not a UUID") from error


def _boolean(data: bytes) -> str:
    if data not in (b"\0", b"\1"):
        raise CannotFormat("Size or value of data received by BooleanDeserializer is not a boolean")
    return "true" if data == b"\1" else "false"


DESERIALIZERS: Final[dict[str, Callable[[bytes], str]]] = {
    "StringDeserializer": _string,
    "ByteArrayDeserializer": _string,
    "BytesDeserializer": _string,
    "ByteBufferDeserializer": _string,
    "LongDeserializer": _fixed(">q", "Long"),
    "IntegerDeserializer": _fixed(">i", "Integer"),
    "ShortDeserializer": _fixed(">h", "Short"),
    "DoubleDeserializer": _fixed(">d", "Double"),
    "FloatDeserializer": _fixed(">f", "Float"),
    "BooleanDeserializer": _boolean,
    "UUIDDeserializer": _uuid,
    "VoidDeserializer": lambda data: "null",
}


def deserializer(class_name: str) -> Callable[[bytes], str]:
    try:
        return DESERIALIZERS[class_name.strip().rsplit(".", 1)[-1]]
    except KeyError:
        known = ", ".join(sorted(DESERIALIZERS))
        raise CannotFormat(f"deserializer {class_name!r} is not built in: choose one of {known}") from None


def _on(properties: Mapping[str, str], name: str, default: str = "false") -> bool:
    return properties.get(name, default).strip().lower() == "true"


class DefaultFormatter:
    """`print.*` selects columns, `*.separator` separates them, `*.deserializer` converts bytes to text."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._show = {
            name: _on(properties, f"print.{name}")
            for name in ("timestamp", "partition", "offset", "delivery", "epoch", "headers", "key")
        }
        # An older spelling of the same switches.
        self._show["offset"] |= _on(properties, "print.offsets")
        self._show["value"] = _on(properties, "print.value", "true")
        self._between = properties.get("key.separator", "\t").encode()
        self._end = properties.get("line.separator", "\n").encode()
        self._between_headers = properties.get("headers.separator", ",").encode()
        self._null = properties.get("null.literal", "null").encode()
        self._key, self._value, self._header = (
            deserializer(properties[name]) if properties.get(name) else None
            for name in ("key.deserializer", "value.deserializer", "headers.deserializer")
        )

    def __call__(self, record: Shown) -> bytes:
        show, columns = self._show, []
        if show["timestamp"]:
            known = record.timestamp_type != "NoTimestampType"
            columns.append(f"{record.timestamp_type}:{record.timestamp_ms}".encode() if known else b"NO_TIMESTAMP")
        if show["partition"]:
            columns.append(f"Partition:{record.partition}".encode())
        if show["offset"]:
            columns.append(f"Offset:{record.offset}".encode())
        if show["delivery"]:
            columns.append(f"Delivery:{record.delivery_count or 'NOT_PRESENT'}".encode())
        if show["epoch"]:
            known_epoch = record.leader_epoch is not None and record.leader_epoch >= 0
            columns.append(f"Epoch:{record.leader_epoch if known_epoch else 'NOT_PRESENT'}".encode())
        if show["headers"]:
            columns.append(self._headers(record) if record.headers else b"NO_HEADERS")
        if show["key"]:
            columns.append(self._text(self._key, record.key))
        if show["value"]:
            columns.append(self._text(self._value, record.value))
        return self._between.join(columns) + self._end

    def _headers(self, record: Shown) -> bytes:
        return self._between_headers.join(
            name.encode() + b":" + self._text(self._header, value) for name, value in record.headers
        )

    def _text(self, read: Callable[[bytes], str] | None, data: bytes | None) -> bytes:
        if data is None:
            return self._null
        return data if read is None else read(data).encode()


class LoggingFormatter:
    """All fields of a record in one line, as for a log."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._default = DefaultFormatter(properties)

    def __call__(self, record: Shown) -> bytes:
        stamp = "" if record.timestamp_type == "NoTimestampType" else f"{record.timestamp_type}:{record.timestamp_ms}, "
        key, value = (b"null" if part is None else part for part in (record.key, record.value))
        return stamp.encode() + b"key:" + key + b", value:" + value + b"\n"


class NoOpFormatter:
    def __init__(self, properties: Mapping[str, str]) -> None:
        pass

    def __call__(self, record: Shown) -> None:
        return None


FORMATTERS: Final[dict[str, Callable[[Mapping[str, str]], Formatter]]] = {
    "DefaultMessageFormatter": DefaultFormatter,
    "LoggingMessageFormatter": LoggingFormatter,
    "NoOpMessageFormatter": NoOpFormatter,
}


def formatter(class_name: str, properties: Mapping[str, str]) -> Formatter:
    name = class_name.strip().replace("$", ".").rsplit(".", 1)[-1]
    if name not in FORMATTERS:
        known = ", ".join(sorted(FORMATTERS))
        raise CannotFormat(f"formatter {class_name!r} is not built in: choose one of {known}")
    return FORMATTERS[name](properties)
