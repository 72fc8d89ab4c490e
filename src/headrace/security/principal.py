"""Principals: who a request comes from, as text `Type:name` (Kafka's KafkaPrincipal).

A principal's name is chosen by clients. It reaches logs and answers only through `printable`.

A client with an OAUTHBEARER token also has claims (`Claim:groups=analysts`), which may make it a member of roles.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from headrace.kernel.ids import ANONYMOUS

__all__ = [
    "ANONYMOUS",
    "USER",
    "claim_principal",
    "is_user",
    "printable",
    "read_principal",
    "user_principal",
    "written_principal",
]

USER: Final = "User"
# Longer names are cut in logs. ACLs and quotas compare them whole.
_PRINTED_CHARACTERS: Final = 256
_ESCAPED: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def user_principal(name: str) -> str:
    return f"{USER}:{name}"


def is_user(principal: str) -> bool:
    return principal.startswith(f"{USER}:")


def claim_principal(claim: str, value: str) -> str:
    """A value of a claim, as a member of a role."""
    return f"Claim:{claim}={value}"


def written_principal(principal: str, claims: Sequence[str]) -> bytes:
    """The client of a forwarded request in an Envelope: its principal, or a JSON list with its claims."""
    return json.dumps([principal, *claims]).encode() if claims else principal.encode()


def read_principal(data: bytes) -> tuple[str, tuple[str, ...]]:
    """The inverse of `written_principal`. Raises ValueError."""
    if not data.startswith(b"["):
        return data.decode(), ()
    found = json.loads(data)
    if not found or not all(isinstance(one, str) for one in found):
        raise ValueError("a principal and its claims are texts")
    return found[0], tuple(found[1:])


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
