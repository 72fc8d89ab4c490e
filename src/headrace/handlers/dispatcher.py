"""A frame to its handler, and the handler's answer to bytes.

Refusals as Kafka has them: an API or version that is not served closes the connection, except for ApiVersions, whose
refusal a client of any age can read. Bytes that are not the request they claim to be close it too. A fault becomes that
API's error answer; a bug becomes UNKNOWN_SERVER_ERROR after one log line with the traceback.
"""

from __future__ import annotations

import logging
import struct
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from headrace.handlers.api_versions import unsupported_version_answer
from headrace.handlers.context import ANONYMOUS, RequestContext
from headrace.handlers.error_answers import error_answer
from headrace.handlers.metering import Metering
from headrace.handlers.replica_only import ReplicaOnly
from headrace.handlers.request_metrics import Outstanding, RequestMetrics
from headrace.handlers.table import Answer, FrameHandler, Handler, HandlerTable, ReadsItself, RefusesItself
from headrace.kernel.errors import ErrorCode, Fault
from headrace.net.connection import Connection
from headrace.net.replies import CLOSE, Close, Later, Parts, Promise, Reply
from headrace.wire.apis import ApiKey, api_name
from headrace.wire.codec import (
    MalformedRequest,
    RequestHeader,
    encode_response,
    read_request,
    read_request_header,
    throttle_time_at,
)

log = logging.getLogger("headrace.requests")


class Dispatcher:
    """Serves the frames of every connection. Owned by the event loop."""

    def __init__(
        self,
        table: HandlerTable,
        metrics: RequestMetrics,
        metering: Metering | None = None,
        replica_only: ReplicaOnly | None = None,
    ) -> None:
        self._table = table
        self._replica_only = ReplicaOnly() if replica_only is None else replica_only
        self._metrics = metrics
        self._metering = Metering() if metering is None else metering
        # Asked once: checking a protocol costs more than serving a small request.
        self._frame_handlers: dict[int, FrameHandler] = {h.api_key: h for h in table if isinstance(h, FrameHandler)}
        self._handlers: dict[int, Handler] = {h.api_key: h for h in table if not isinstance(h, FrameHandler)}
        self._readers: dict[int, Callable[[memoryview, int, int], Any]] = {
            h.api_key: h.read_body for h in table if isinstance(h, ReadsItself)
        }
        self._versions: dict[int, range] = {h.api_key: h.versions for h in table}

    def serve(self, frame: memoryview, connection: Connection) -> Reply:
        started = time.perf_counter()
        try:
            header, at = read_request_header(frame)
        except MalformedRequest as bad:
            log.warning("%s: closed, %s", connection, bad)
            return CLOSE
        api_key = header.api_key
        if header.api_version not in self._versions.get(api_key, ()):
            return self._refuse_version(header, connection)
        context = RequestContext(
            header,
            connection.peer_host,
            connection.listener,
            ANONYMOUS,
            time.time_ns() // 1_000_000,
            connection.throttle,
            connection.when_closed,
        )
        try:
            frame_handler = self._frame_handlers.get(api_key)
            if frame_handler is not None:
                reply = frame_handler.serve_frame(frame, at, context)
            else:
                read_body = self._readers.get(api_key)
                if read_body is None:
                    request = read_request(header, frame, at)
                else:
                    request = read_body(frame, at, header.api_version)
                reply = self._call(self._handlers[api_key], request, context, connection)
        except MalformedRequest as bad:
            log.warning("%s: closed, %s", connection, bad)
            return CLOSE
        except Exception as error:
            reply = self._failed(self._table.get(api_key), None, context, connection, error)
        if type(reply) is Promise:
            if not reply.ready:
                explain = partial(self._failed, self._table.get(api_key), None, context, connection)
                reply.keeper = Outstanding(self._metrics, api_key, started, explain)
        elif isinstance(reply, Later):
            reply.answer = self._metrics.timed(api_key, started, reply.answer)
        else:
            took_s = time.perf_counter() - started
            self._metrics.served(api_key, took_s)
            if self._metering.quotas.limits_requests:
                wait_ms = self._metering.took_time(context, took_s * 1000)
                if wait_ms:
                    _tell_wait(reply, header, wait_ms)
        return reply

    def _call(self, handler: Handler, request: Any, context: RequestContext, connection: Connection) -> Reply:
        try:
            self._replica_only.check(handler.api_key, context.header.api_version, request, context.listener)
            answer = handler(request, context)
        except Exception as error:
            return self._failed(handler, request, context, connection, error)
        if isinstance(answer, dict):
            return self._encode(context, answer)
        if isinstance(answer, list | Promise):
            return answer
        return Later(self._await(handler, request, context, connection, answer))

    async def _await(
        self,
        handler: Handler,
        request: Any,
        context: RequestContext,
        connection: Connection,
        answer: Awaitable[Answer] | Awaitable[Parts],
    ) -> bytearray | Parts | Close:
        try:
            result: Answer | Parts = await answer
            return result if isinstance(result, list) else self._encode(context, result)
        except Exception as error:
            return self._failed(handler, request, context, connection, error)

    def _encode(self, context: RequestContext, answer: Answer) -> bytearray:
        header = context.header
        return encode_response(header.api_key, header.api_version, header.correlation_id, answer)

    def _failed(
        self,
        handler: Handler | FrameHandler | None,
        request: Any,
        context: RequestContext,
        connection: Connection,
        error: Exception,
    ) -> bytearray | Close:
        header = context.header
        if isinstance(error, Fault):
            code, message = int(error.code), error.message
        else:
            code, message = int(ErrorCode.unknown_server_error), "the broker failed to serve this; its log says why"
            log.error("%s: %s v%d failed", connection, api_name(header.api_key), header.api_version, exc_info=error)
        try:
            if request is not None and isinstance(handler, RefusesItself):
                answer: Answer | None = handler.refuse(request, context, code, message)
            else:
                answer = error_answer(header.api_key, header.api_version, code, message)
            if answer is not None:
                return self._encode(context, answer)
        except Exception:
            log.exception("%s: no error answer for %s v%d", connection, api_name(header.api_key), header.api_version)
        log.warning(
            "%s: closed, %s v%d cannot say %s", connection, api_name(header.api_key), header.api_version, message
        )
        return CLOSE

    def _refuse_version(self, header: RequestHeader, connection: Connection) -> Reply:
        if header.api_key == ApiKey.API_VERSIONS:
            handler = self._table.get(ApiKey.API_VERSIONS)
            assert handler is not None
            answer = unsupported_version_answer(handler.versions)
            return encode_response(ApiKey.API_VERSIONS, 0, header.correlation_id, answer)
        log.warning("%s: closed, %s v%d is not served", connection, api_name(header.api_key), header.api_version)
        return CLOSE


def _tell_wait(reply: Reply, header: RequestHeader, wait_ms: int) -> None:
    """Writes the wait into an answer that is made already: how long it took to make is known only then."""
    at = throttle_time_at(header.api_key, header.api_version)
    first = reply[0] if isinstance(reply, list) and reply else reply
    if at is not None and isinstance(first, bytearray) and len(first) >= at + 4:
        (told,) = struct.unpack_from(">i", first, at)
        struct.pack_into(">i", first, at, max(told, wait_ms))
