"""The statements of a SQL text, each with its first line. Spark and DuckDB are not needed to find them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_TOKEN: Final = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|;", re.DOTALL)
_COMMENT: Final = ("--", "/*")


def statements_in(text: str) -> Iterator[tuple[int, str]]:
    """(first line, statement) as in the text. Semicolons in strings and comments do not end a statement."""
    begin = 0
    for end in (*(match.start() for match in _TOKEN.finditer(text) if match[0] == ";"), len(text)):
        statement = text[begin:end]
        if without_comments(statement).strip():
            first = begin + len(statement) - len(statement.lstrip())
            yield text.count("\n", 0, first) + 1, statement.strip()
        begin = end + 1


def without_comments(statement: str) -> str:
    return _TOKEN.sub(lambda match: "" if match[0].startswith(_COMMENT) else match[0], statement)
