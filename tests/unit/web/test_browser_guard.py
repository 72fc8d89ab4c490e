from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headrace.web.browser_guard import BrowserGuard


def status(headers: dict[str, str], *, is_on_loopback: bool) -> int:
    found: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message: Any) -> None:
        found.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "headers": [(k.encode(), v.encode()) for k, v in headers.items()],
    }
    asyncio.run(BrowserGuard(app, is_on_loopback=is_on_loopback)(scope, receive, send))
    return int(found[0]["status"])


@pytest.mark.parametrize(
    ("host", "origin", "on_loopback", "elsewhere"),
    [
        ("127.0.0.1:8082", None, 200, 200),
        ("localhost:8082", None, 200, 200),
        ("[::1]:8082", None, 200, 200),
        ("evil.example:8082", None, 421, 200),
        ("127.0.0.1.evil.example", None, 421, 200),
        ("127.0.0.1:8082", "http://127.0.0.1:8082", 200, 200),
        ("127.0.0.1:8082", "http://evil.example", 403, 403),
        ("127.0.0.1:8082", "null", 403, 403),
        ("127.0.0.1:8082", "http://127.0.0.1:9999", 403, 403),
    ],
)
def test_pages_of_other_sites_are_rejected(host: str, origin: str | None, on_loopback: int, elsewhere: int) -> None:
    headers = {"host": host} | ({"origin": origin} if origin else {})
    assert status(headers, is_on_loopback=True) == on_loopback
    assert status(headers, is_on_loopback=False) == elsewhere


@pytest.mark.parametrize(
    ("site", "mode", "dest", "expected"),
    [
        ("cross-site", "no-cors", "image", 403),
        ("same-site", "no-cors", "image", 403),
        ("cross-site", "no-cors", "script", 403),
        ("cross-site", "cors", "empty", 403),
        ("cross-site", "navigate", "iframe", 403),
        ("cross-site", "navigate", "document", 200),
        ("same-site", "navigate", "document", 200),
        ("none", "navigate", "document", 200),
        ("same-origin", "cors", "empty", 200),
        ("same-origin", "no-cors", "image", 200),
    ],
)
def test_a_foreign_page_may_link_here_but_load_nothing(site: str, mode: str, dest: str, expected: int) -> None:
    """Browsers send no Origin for an image, and the request alone may cost much, for example a search."""
    headers = {"host": "127.0.0.1:8082", "sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": dest}
    assert status(headers, is_on_loopback=True) == expected
    assert status(headers, is_on_loopback=False) == expected
