"""Reads a request body up to a limit, and parses it as JSON."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Final

from starlette.requests import Request

from headrace.web.errors import Problem, bad_request

LARGEST_BODY_BYTES: Final = 64 << 20
JSON_SUFFIX: Final = "json"


def _too_large(limit: int) -> Problem:
    return Problem(413, 413, f"the body is larger than {limit} bytes: send it in parts")


async def body_chunks(request: Request, *, limit: int = LARGEST_BODY_BYTES) -> AsyncIterator[bytes]:
    """The body as it arrives. Raises Problem 413 as soon as the limit is known to be exceeded."""
    claimed = request.headers.get("content-length", "")
    if claimed.isdecimal() and int(claimed) > limit:
        raise _too_large(limit)
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        yield chunk


async def whole_body(request: Request, *, limit: int = LARGEST_BODY_BYTES) -> bytes:
    return b"".join([chunk async for chunk in body_chunks(request, limit=limit)])


def content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def check_json_type(request: Request) -> None:
    """A web page can send other types to any host without asking first, so JSON must be named. Raises Problem 415."""
    kind = content_type(request)
    if kind.startswith("application/") and kind.endswith(JSON_SUFFIX):
        return
    raise Problem(415, 415, f"Content-Type {kind or '(none)'}: must be application/json")


async def json_body(request: Request, *, limit: int = LARGEST_BODY_BYTES) -> Any:
    """The body as JSON. Raises Problem 400, 413 or 415."""
    check_json_type(request)
    return parsed_json(await whole_body(request, limit=limit))


def parsed_json(text: bytes) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise bad_request(f"the body is not JSON: {error}") from None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")
