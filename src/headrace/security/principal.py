"""Principals: who a request comes from, as text `Type:name` (Kafka's KafkaPrincipal).

A principal's name is chosen by clients. It reaches logs and answers only through `printable`.
"""

from __future__ import annotations

from typing import Final

from headrace.kernel.ids import ANONYMOUS

__all__ = ["ANONYMOUS", "USER", "printable", "user_principal"]

USER: Final = "User"
# Longer names are cut in logs. ACLs and quotas compare them whole.
_PRINTED_CHARACTERS: Final = 256
_ESCAPED: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def user_principal(name: str) -> str:
    return f"{USER}:{name}"


def printable(text: str, *, limit: int = _PRINTED_CHARACTERS) -> str:
    """Text from a client on one line of a log: control characters and quotes escaped, the length limited."""
    shown = text[:limit]
    if not shown.isprintable() or '"' in shown or "\\" in shown:
        shown = "".join(_escape(char) for char in shown)
    return shown if len(text) <= limit else f"{shown}… ({len(text)} characters)"


def _escape(char: str) -> str:
    if char in _ESCAPED:
        return _ESCAPED[char]
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
