r"""Regular expressions of JSON Schemas, matched in time linear in the text.

Who registers a schema chooses its patterns, and who writes a record chooses the texts. With a backtracking matcher
(Python's `re`) `^(a+)+$` and forty letters would hold a service for hours. RE2 has no such patterns, and reads `\d`,
`\w` and `$` as ECMA 262 does, which JSON Schema names.

RE2 does not support look-around, back references and repetitions above 1,000, and limits the size of a pattern. Only a
process of the schema's user matches such a pattern, with `re` (`matches_any`). A service fails the value with
UnsupportedPattern instead.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

import re2

# Enough for `[^<>]{1,1000}` and `\p{L}{1,30}`. RE2's own limit is eight times as large, and takes 0.1 s to reach.
_MEMORY_BYTES: Final = 1 << 20
# As many as `re2` keeps itself, so that this cache keeps no more alive.
_KEPT: Final = 128
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)


class UnsupportedPattern(Exception):
    def __init__(self, pattern: str) -> None:
        super().__init__(
            f"the pattern {pattern!r} cannot be matched in linear time: write it without look-around, back references "
            "and repetitions above 1,000, or write the record with a client that does not use the HTTP services"
        )


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern matches a part of the text. Raises UnsupportedPattern."""
    compiled = _compiled(pattern)
    if compiled is None:
        raise UnsupportedPattern(pattern)
    return _finds(compiled, text)


def matches_any(pattern: str, text: str) -> bool:
    """The same for every pattern of `re`. Never for a service: see above."""
    compiled = _compiled(pattern)
    return _finds(compiled, text) if compiled is not None else re.search(pattern, text) is not None


def _finds(compiled: Any, text: str) -> bool:
    # A lone surrogate is no character of UTF-8.
    return compiled.search(text.encode(errors="replace")) is not None


@lru_cache(_KEPT)
def _compiled(pattern: str) -> Any:
    """None if RE2 does not support the pattern."""
    options = re2.Options()
    options.max_mem = _MEMORY_BYTES
    options.log_errors = False
    try:
        return re2.compile(_ESCAPE.sub(_in_re2, pattern).encode(), options)
    except (re2.error, UnicodeEncodeError):
        return None


def _in_re2(escape: re.Match[str]) -> str:
    return f"\\x{{{escape[1]}}}" if escape[1] else escape[0]
