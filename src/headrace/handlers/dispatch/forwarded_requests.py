"""A request that did not come over its sender's own connection: in an Envelope, or as a fallback request.

The same handlers serve it, and the result is the encoded answer. The caller decides which APIs may be forwarded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Container, Mapping
from typing import Never, cast

from headrace.handlers.dispatch.authorization import Authorization
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Fields
from headrace.handlers.dispatch.table import HandlerTable
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.net.replies import Answer
from headrace.wire.apis import api_name
from headrace.wire.codec import MalformedRequest, encode_response, read_request_header


async def serve_forwarded(
    table: HandlerTable,
    data: bytes,
    allowed: Container[int],
    *,
    authorization: Authorization,
    host: str,
    listener: str,
    principal: str,
    now_ms: int,
    claims: tuple[str, ...] = (),
) -> bytes:
    """The answer without its length prefix. Raises Refused for a malformed request, or one that may not be forwarded.

    The request is authorized here as a request of `principal` from `host`, whatever the forwarding broker checked.
    """
    try:
        header, at = read_request_header(data)
        handler = table.get(header.api_key)
        if handler is None or header.api_key not in allowed or header.api_version not in handler.versions:
            raise Refused(ErrorCode.unsupported_version, f"API {header.api_key} v{header.api_version} is not sent on")
        request = handler.read(header, memoryview(data), at)
    except MalformedRequest as bad:
        raise Refused(ErrorCode.invalid_request, str(bad)) from bad
    access = authorization.access(principal, host, header.api_key, claims)
    context = RequestContext(header, host, listener, principal, access, now_ms, claims=claims)
    try:
        handler.needs.check(access)
        served = handler.serve_at_controller(cast("Never", request), context)
        answer: Fields | Answer = await served if isinstance(served, Awaitable) else served
    except Fault as fault:
        refused = handler.refuse(cast("Never", request), context, int(fault.code), fault.message)
        if refused is None:  # an API that has no field for an error
            raise Refused(fault.code, fault.message) from fault
        answer = refused
    assert isinstance(answer, Mapping), f"{api_name(header.api_key)} has no place at the controller"
    return bytes(encode_response(header.api_key, header.api_version, header.correlation_id, answer)[4:])
