"""The published keys of an identity provider (JWKS): read now and then, and when a token names a key that is not known.

A flood of tokens with unknown key ids costs one read per backoff, which doubles while reads fail or bring nothing new.
Keys that were read stay in use when a later read fails. Threads that check tokens share one object.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any, Final

from headrace.kernel.dataclass import dataclass

# A key set is a few kilobytes.
MAX_BYTES: Final = 1 << 20
_KINDS: Final = frozenset({"RSA", "EC", "OKP"})


class BadKeys(Exception):
    """An invalid key set, or an unreadable source."""


@dataclass(frozen=True, slots=True)
class RefreshRules:
    refresh_ms: int = 3_600_000
    backoff_ms: int = 100
    backoff_max_ms: int = 10_000


class PublishedKeys:
    """`read` gives the text of the key set (blocking); `now_ms` is a clock that only goes forward."""

    def __init__(self, read: Callable[[], bytes], rules: RefreshRules, now_ms: Callable[[], int]) -> None:
        self._read = read
        self._rules = rules
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._keys: list[tuple[str | None, str | None, Any]] = []
        self._read_at_ms: int | None = None
        self._not_before_ms = 0
        self._pause_ms = rules.backoff_ms
        self.problem: str | None = None

    def find(self, key_id: str | None, algorithm: str) -> Any:
        """The key for a token of this key id and algorithm, or None."""
        with self._lock:
            if self._read_at_ms is None or self._now_ms() - self._read_at_ms >= self._rules.refresh_ms:
                self._refresh()
            found = self._known(key_id, algorithm)
            if found is None and self._refresh():
                found = self._known(key_id, algorithm)
            self._widen(found is not None)
            return found

    def _known(self, key_id: str | None, algorithm: str) -> Any:
        fitting = [key for known, named, key in self._keys if key_id in (known, None) and named in (algorithm, None)]
        # Without a key id there must be exactly one key.
        return fitting[0] if len(fitting) == 1 or (fitting and key_id is not None) else None

    def _refresh(self) -> bool:
        """True if the keys were read now."""
        now_ms = self._now_ms()
        if now_ms < self._not_before_ms:
            return False
        self._not_before_ms = now_ms + self._pause_ms
        try:
            self._keys = parse_keys(self._read())
        except (BadKeys, OSError, ValueError) as error:
            self.problem = str(error)
            return False
        self.problem = None
        self._read_at_ms = now_ms
        return True

    def _widen(self, found: bool) -> None:
        self._pause_ms = self._rules.backoff_ms if found else min(self._rules.backoff_max_ms, self._pause_ms * 2)


def parse_keys(text: bytes) -> list[tuple[str | None, str | None, Any]]:
    """(key id, algorithm or None, key) of the public keys for signatures. Raises BadKeys."""
    import jwt

    if len(text) > MAX_BYTES:
        raise BadKeys(f"a key set of {len(text)} bytes")
    try:
        entries = json.loads(text)["keys"]
        listed = list(entries)
    except (ValueError, KeyError, TypeError) as error:
        raise BadKeys("the text is no JSON Web Key Set") from error
    found: list[tuple[str | None, str | None, Any]] = []
    for entry in listed:
        if not isinstance(entry, dict) or entry.get("kty") not in _KINDS or entry.get("use", "sig") != "sig":
            continue
        if "d" in entry:
            continue  # a private key is not for publishing
        try:
            key = jwt.PyJWK.from_dict(entry)
        except jwt.PyJWTError:
            continue
        found.append((entry.get("kid"), entry.get("alg"), key.key))
    return found
