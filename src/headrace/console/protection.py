"""Protection of every answer and every change: headers that forbid foreign scripts and frames, and the token of a form.

A page on another site can send a form to the console, but cannot read a page of it, so it does not know the token.
`web.browser_guard` rejects requests of such pages by their origin already; the token also holds where a browser sends
none.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qs

from starlette.requests import Request

COOKIE: Final = "headrace_form"
FIELD: Final = "form_token"
MAX_FORM_BYTES: Final = 2 << 20
HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class Rejected(Exception):
    """A request that the console does not serve; `status` is its HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def new_token() -> str:
    return secrets.token_urlsafe(24)


async def read_form(request: Request) -> Mapping[str, list[str]]:
    """The fields of a form that this console's own page sent. Raises Rejected."""
    if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        raise Rejected(415, "a change is sent as a form: application/x-www-form-urlencoded")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM_BYTES:
            raise Rejected(413, f"the form is larger than {MAX_FORM_BYTES} bytes")
    try:
        fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=20_000)
    except (UnicodeDecodeError, ValueError) as error:
        raise Rejected(400, f"the form cannot be read: {error}") from error
    expected = request.cookies.get(COOKIE, "")
    given = fields.get(FIELD, [""])[0]
    if not expected or not hmac.compare_digest(expected.encode(), given.encode()):
        raise Rejected(403, "the form is not from this console, or is older than this session: open the page again")
    return fields
