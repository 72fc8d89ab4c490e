"""Forwards a write to the leading instance and returns its answer."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from headrace.registry.app.visibility import caller_of
from headrace.registry.core.errors import Code, StoreFailed
from headrace.registry.store.election import Identity
from headrace.web.login import delegation_header

FORWARDED: Final = "X-Forward"
# The caller's credentials and content types are forwarded; headers of the connection are not.
_PASSED_ON: Final = ("accept", "content-type", "authorization")


class LeaderGone(Exception):
    """No server listens at the leader's address. The request was not sent, so it may be retried."""


async def forward(request: Request, leader: Identity, timeout_s: float) -> Response:
    """Raises LeaderGone, or 50003 if the leader may have received the request but did not answer."""
    path = request.scope["registry_target"]
    body = await request.body()
    tls = request.app.state.peer_tls() if leader.scheme == "https" else None
    headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
    caller = caller_of(request)
    # The private key of a certificate stays with the caller. A delegation token says the same to the leader's brokers.
    if "authorization" not in headers and caller is not None and (token := delegation_header(caller)) is not None:
        headers["authorization"] = token
    try:
        async with asyncio.timeout(timeout_s):
            status, answered, content = await _exchange(leader, request.method, path, headers, body, tls)
    except ConnectionRefusedError as fault:
        raise LeaderGone from fault
    except (OSError, TimeoutError, ValueError) as fault:
        raise StoreFailed(
            Code.FORWARDING, f"Error while forwarding the request to the leader {leader.url}: {fault or 'no answer'}"
        ) from fault
    return Response(content, status, media_type=answered.get("content-type"))


async def _exchange(
    leader: Identity,
    method: str,
    path: str,
    headers: Mapping[str, str],
    body: bytes,
    tls: ssl.SSLContext | None,
) -> tuple[int, dict[str, str], bytes]:
    """One request on a new connection (HTTP/1.1, `Connection: close`)."""
    reader, writer = await asyncio.open_connection(leader.host, leader.port, ssl=tls)
    try:
        lines = [f"{method} {path} HTTP/1.1", f"Host: {leader.host}:{leader.port}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines += [f"{FORWARDED}: true", f"Content-Length: {len(body)}", "", ""]
        writer.write("\r\n".join(lines).encode("latin-1") + body)
        await writer.drain()
        head, _, content = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
    first, *rest = head.decode("latin-1").split("\r\n")
    fields = first.split(" ")
    if len(fields) < 2 or not fields[1].isdecimal():
        raise ValueError(f"an answer that is not HTTP: {first[:80]!r}")
    named = (line.partition(":") for line in rest)
    answered = {name.strip().lower(): value.strip() for name, _, value in named}
    length = answered.get("content-length")
    if length is not None and len(content) != int(length):
        raise ValueError(f"the answer ended after {len(content)} of {length} bytes")
    return int(fields[1]), answered, content
