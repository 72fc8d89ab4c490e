"""Requests to an identity provider: its public keys, and tokens. Blocking, so callers on an event loop use a thread.

Only HTTPS, or HTTP on loopback. A redirect is not followed: it could lead to an address that the configuration does not
name (CVE-2025-27817). Proxies of the environment are not used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from headrace.config.listeners import is_loopback

if TYPE_CHECKING:
    import urllib.request

_TIMEOUT_S: Final = 5.0


class Redirected(OSError):
    """The address redirects to another one."""


def is_protected(url: str) -> bool:
    """Whether the address is HTTPS, or HTTP that does not leave this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))


def ask_provider(
    url: str, max_bytes: int, *, form: bytes | None = None, headers: Mapping[str, str] | None = None
) -> bytes:
    """At most one byte more than `max_bytes`. Raises OSError. With `form`, the request is a POST."""
    # Imported here: a broker without an identity provider starts without it (one megabyte of HTTP and e-mail parsers).
    import urllib.request

    request = urllib.request.Request(url, data=form, headers=dict(headers or {}))
    with _opener().open(request, timeout=_TIMEOUT_S) as answer:
        found: bytes = answer.read(max_bytes + 1)
        return found


def _opener() -> urllib.request.OpenerDirector:
    import urllib.request

    class NoRedirects(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: Any, **__: Any) -> None:
            raise Redirected("the address redirects to another one, which is not followed")

    return urllib.request.build_opener(urllib.request.ProxyHandler({}), NoRedirects())
