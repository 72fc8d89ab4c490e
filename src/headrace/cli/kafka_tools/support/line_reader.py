"""Converts lines of text to records, by kafka-console-producer's reader properties.

    parse.key=true                       key⇥value
    parse.headers=true                   h1:v1,h2:v2⇥value
    both                                 h1:v1,h2:v2⇥key⇥value

Pure: a line in, a record out, or a `LineError` that names the line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


class LineError(ValueError):
    """A line that does not fit the reader properties."""


@dataclass(frozen=True, slots=True)
class Line:
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def _switch(properties: Mapping[str, str], name: str) -> bool:
    return properties.get(name, "false").strip().lower() == "true"


class LineReader:
    def __init__(self, properties: Mapping[str, str]) -> None:
        self.parse_key = _switch(properties, "parse.key")
        self.parse_headers = _switch(properties, "parse.headers")
        self.ignore_error = _switch(properties, "ignore.error")
        self.key_separator = properties.get("key.separator", "\t")
        self.headers_delimiter = properties.get("headers.delimiter", "\t")
        self.headers_separator = properties.get("headers.separator", ",")
        self.headers_key_separator = properties.get("headers.key.separator", ":")
        self.null_marker = properties.get("null.marker")
        separators = (self.headers_delimiter, self.headers_separator, self.headers_key_separator)
        if self.parse_headers and len({*separators, *([self.key_separator] if self.parse_key else [])} - {"\t"}) < (
            len([s for s in (*separators, *([self.key_separator] if self.parse_key else [])) if s != "\t"])
        ):
            raise LineError("headers.delimiter, headers.separator, headers.key.separator and key.separator must differ")

    def parse(self, text: str, number: int) -> Line:
        headers: tuple[tuple[str, bytes | None], ...] = ()
        key: str | None = None
        rest = text
        if self.parse_headers:
            part, found, after = rest.partition(self.headers_delimiter)
            if found:
                headers, rest = self._headers(part, number), after
            elif not self.ignore_error:
                raise LineError(f"No headers delimiter found on line number {number}: '{text}'")
        if self.parse_key:
            part, found, after = rest.partition(self.key_separator)
            if found:
                key, rest = part, after
            elif not self.ignore_error:
                raise LineError(f"No key separator found on line number {number}: '{text}'")
        return Line(self._bytes(key), self._bytes(rest), headers)

    def _bytes(self, text: str | None) -> bytes | None:
        if text is None or (self.null_marker is not None and text == self.null_marker):
            return None
        return text.encode(errors="surrogateescape")

    def _headers(self, text: str, number: int) -> tuple[tuple[str, bytes | None], ...]:
        if self.null_marker is not None and text == self.null_marker:
            return ()
        found = []
        for pair in text.split(self.headers_separator):
            name, separator, value = pair.partition(self.headers_key_separator)
            if separator:
                found.append((name, self._bytes(value)))
            elif not self.ignore_error:
                raise LineError(f"No header key separator found in pair '{pair}' on line number {number}")
            else:
                found.append((pair, None))
        return tuple(found)
