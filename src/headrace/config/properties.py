"""Java's `.properties` format, the format of `server.properties`.

Comments start with `#` or `!`; a key ends at the first unescaped `=`, `:` or blank; an odd number of backslashes at the
end of a line joins the next one to it, without that one's leading blanks; `\\t \\n \\r \\f \\uXXXX` are escapes, and a
backslash before anything else is dropped. A key given twice keeps its last value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from headrace.config.key import ConfigError

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        found[_unescape(key, number)] = _unescape(value, number)
    return found


def read_properties(path: Path) -> dict[str, str]:
    """The file's properties; a file that is not UTF-8 is read as Latin-1, which is what Java assumes."""
    data = path.read_bytes()
    try:
        return parse_properties(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return parse_properties(data.decode("latin-1"))


def format_properties(properties: Mapping[str, str]) -> str:
    """Text that `parse_properties` reads back as the same mapping."""
    return "".join(f"{_escape(key, key=True)}={_escape(value)}\n" for key, value in properties.items())


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    pending: str | None = None
    started = 0
    for number, raw in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = raw.lstrip(_BLANKS)
        if pending is None:
            if not line or line[0] in "#!":
                continue
            pending, started = "", number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            continue
        yield started, pending + line
        pending = None
    if pending:
        yield started, pending


def _split(line: str) -> tuple[str, str]:
    end = 0
    while end < len(line) and line[end] not in _BLANKS + "=:":
        end += 2 if line[end] == "\\" else 1
    key, rest = line[:end], line[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return key, rest


def _unescape(text: str, line: int) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char != "\\" or position == len(text):
            out.append(char)
            continue
        char = text[position]
        position += 1
        if char != "u":
            out.append(_ESCAPES.get(char, char))
            continue
        digits = text[position : position + 4]
        position += 4
        try:
            if len(digits) != 4:
                raise ValueError
            out.append(chr(int(digits, 16)))
        except ValueError:
            raise ConfigError(f"line {line}", f"\\u{digits}", "must be \\u and four hexadecimal digits") from None
    # Java writes characters outside the basic multilingual plane as two \\u escapes.
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escape(text: str, *, key: bool = False) -> str:
    out = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t").replace("\f", "\\f")
    if key:
        for char in "=: #!":
            out = out.replace(char, f"\\{char}")
        return out
    return f"\\{out}" if out[:1] == " " else out
