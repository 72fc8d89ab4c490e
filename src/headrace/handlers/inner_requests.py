"""A request that did not come over its sender's own connection: in an envelope, or in a letter through the store.

Served by the same handlers as any other, to the bytes of its answer. Which APIs may come that way is the carrier's
matter.
"""

from __future__ import annotations

from collections.abc import Awaitable, Container
from typing import Any

from headrace.handlers.context import RequestContext
from headrace.handlers.error_answers import error_answer
from headrace.handlers.table import FrameHandler, HandlerTable, RefusesItself
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.wire.codec import MalformedRequest, encode_response, read_request, read_request_header


async def serve_inner(
    table: HandlerTable, data: bytes, allowed: Container[int], *, host: str, listener: str, principal: str, now_ms: int
) -> bytes:
    """The answer without its length prefix. Raises Refused for a request that may not come this way or is none."""
    try:
        header, at = read_request_header(data)
        handler = table.get(header.api_key)
        if (
            handler is None
            or isinstance(handler, FrameHandler)
            or header.api_key not in allowed
            or header.api_version not in handler.versions
        ):
            raise Refused(ErrorCode.unsupported_version, f"API {header.api_key} v{header.api_version} is not sent on")
        request = read_request(header, data, at)
    except MalformedRequest as bad:
        raise Refused(ErrorCode.invalid_request, str(bad)) from bad
    context = RequestContext(header, host, listener, principal, now_ms)
    try:
        # Some handlers do a part at the broker that the client came to; that part is done.
        answer: Any = getattr(handler, "at_controller", handler)(request, context)
        if isinstance(answer, Awaitable):
            answer = await answer
    except Fault as fault:
        code, message = int(fault.code), fault.message
        if isinstance(handler, RefusesItself):
            answer = handler.refuse(request, context, code, message)
        else:
            answer = error_answer(header.api_key, header.api_version, code, message)
        if answer is None:  # an API that has no place for an error
            raise Refused(fault.code, message) from fault
    if isinstance(answer, list):
        return b"".join(bytes(part) for part in answer)[4:]
    return bytes(encode_response(header.api_key, header.api_version, header.correlation_id, answer)[4:])
