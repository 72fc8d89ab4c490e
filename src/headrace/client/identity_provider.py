"""Requests to an identity provider: its public keys, and tokens. Blocking, so callers on an event loop use a thread.

Only HTTPS, or HTTP on loopback. A redirect is not followed: it could lead to an address that the configuration does not
name (CVE-2025-27817). Proxies of the environment are not used.
"""

from __future__ import annotations

import urllib.request
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from headrace.config.listeners import is_loopback

_TIMEOUT_S: Final = 5.0


class Redirected(OSError):
    """The address redirects to another one."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        raise Redirected("the address redirects to another one, which is not followed")


def is_protected(url: str) -> bool:
    """Whether the address is HTTPS, or HTTP that does not leave this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))


def ask_provider(
    url: str, max_bytes: int, *, form: bytes | None = None, headers: Mapping[str, str] | None = None
) -> bytes:
    """At most one byte more than `max_bytes`. Raises OSError. With `form`, the request is a POST."""
    request = urllib.request.Request(url, data=form, headers=dict(headers or {}))
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects())
    with opener.open(request, timeout=_TIMEOUT_S) as answer:
        found: bytes = answer.read(max_bytes + 1)
        return found
