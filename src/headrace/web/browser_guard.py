"""Rejects requests that a foreign web page sends through the browser of a user.

A service on loopback without login trusts every program of this machine, and a browser is one of them. A page of
another site may send requests to 127.0.0.1, directly or under a host name of its own that resolves to 127.0.0.1 (DNS
rebinding). So the guard rejects three kinds of requests:

- The `Origin` header names another site than the `Host` header.
- `Sec-Fetch-Site` says that a page of another origin made the request, and the request does not open a page in a tab.
  Browsers send no `Origin` for an image or a frame, and the request alone may cost much, for example a search. A link
  may lead here.
- The service listens on loopback, and the `Host` header names another host than this machine.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.config import is_loopback
from headrace.web.errors import Problem, problem_answer

# Values of Sec-Fetch-Site. `same-site` is another origin, for example another port of this machine.
_FOREIGN: Final = ("cross-site", "same-site")


class BrowserGuard:
    def __init__(self, app: ASGIApp, *, is_on_loopback: bool) -> None:
        self.app = app
        self.is_on_loopback = is_on_loopback

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            problem = self._problem(Request(scope))
            if problem is not None:
                await problem_answer(problem)(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def _problem(self, request: Request) -> Problem | None:
        host = request.headers.get("host", "")
        if self.is_on_loopback and host and not is_loopback(_host_of(host)):
            return Problem(421, 421, f"Host {host}: this service listens on loopback; use 127.0.0.1 or localhost")
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            return Problem(403, 403, f"Origin {origin}: a page of another site may not use this service")
        if request.headers.get("sec-fetch-site") in _FOREIGN and not _opens_a_page(request):
            return Problem(403, 403, "a page of another site may link to this service, but not load parts of it")
        return None


def _opens_a_page(request: Request) -> bool:
    """A navigation of a tab; a frame navigates, too, but is no document of its own."""
    headers = request.headers
    return headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest", "document") == "document"


def _host_of(netloc: str) -> str:
    try:
        return urlsplit(f"//{netloc}").hostname or ""
    except ValueError:
        return ""
