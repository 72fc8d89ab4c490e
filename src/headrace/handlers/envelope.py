"""Envelope (key 58, version 0): a client's request that another broker sent on to the controller (KIP-590).

Brokers only. The request inside is served as if its client had come here; its answer goes back as bytes. Only requests
that have their place at the controller are opened, and only while this broker is the controller.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, ClassVar, Final

from headrace.controller.controller import Controller
from headrace.handlers.context import RequestContext
from headrace.handlers.error_answers import error_answer
from headrace.handlers.table import FrameHandler, HandlerTable, RefusesItself
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault
from headrace.wire.codec import MalformedRequest, encode_response, read_request, read_request_header

# What Kafka lets through: the requests that change the cluster.
FORWARDED: Final = frozenset({19, 20, 33, 37, 43, 44, 45, 46, 49, 51, 57, 64})


@dataclass(frozen=True)
class Envelope:
    controller: Controller
    table: HandlerTable

    api_key: ClassVar[int] = 58
    versions: ClassVar[range] = range(1)
    is_advertised: ClassVar[bool] = False

    async def __call__(self, request: Any, context: RequestContext) -> dict[str, Any]:
        if not self.controller.is_active:
            return {"response_data": None, "error_code": int(ErrorCode.not_controller)}
        try:
            header, at = read_request_header(request.request_data)
            handler = self.table.get(header.api_key)
            if (
                handler is None
                or isinstance(handler, FrameHandler)
                or header.api_key not in FORWARDED
                or header.api_version not in handler.versions
            ):
                return {"response_data": None, "error_code": int(ErrorCode.unsupported_version)}
            inner = read_request(header, request.request_data, at)
        except MalformedRequest:
            return {"response_data": None, "error_code": int(ErrorCode.invalid_request)}
        principal = bytes(request.request_principal or b"").decode(errors="replace") or context.principal
        host = bytes(request.client_host_address).decode(errors="replace")
        inner_context = RequestContext(header, host, context.listener, principal, context.received_at_ms)
        try:
            # Some handlers do a part at the broker that the client came to; that part is done.
            answer: Any = getattr(handler, "at_controller", handler)(inner, inner_context)
            if isinstance(answer, Awaitable):
                answer = await answer
        except Fault as fault:
            code, message = int(fault.code), fault.message
            if isinstance(handler, RefusesItself):
                answer = handler.refuse(inner, inner_context, code, message)
            else:
                answer = error_answer(header.api_key, header.api_version, code, message)
        if isinstance(answer, list):
            return {"response_data": b"".join(bytes(part) for part in answer)[4:], "error_code": 0}
        frame = encode_response(header.api_key, header.api_version, header.correlation_id, answer)
        return {"response_data": bytes(frame[4:]), "error_code": 0}
