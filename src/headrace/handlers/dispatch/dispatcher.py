"""Calls the handler of a frame and encodes its answer.

Refusals as in Kafka: an API or version that is not served closes the connection, except for ApiVersions, whose error
answer every client can read. A malformed request closes it too. A fault becomes that
API's error answer; a bug becomes UNKNOWN_SERVER_ERROR after one log line with the traceback.
"""

from __future__ import annotations

import logging
import struct
import time
from collections.abc import Coroutine
from functools import partial
from types import CoroutineType
from typing import Never, cast

from headrace.handlers.cluster.api_versions import unsupported_version_answer
from headrace.handlers.dispatch.authorization import OPEN, UNRESTRICTED, Authorization
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.error_answers import error_answer
from headrace.handlers.dispatch.handler import Fields, Handler
from headrace.handlers.dispatch.login import Logins
from headrace.handlers.dispatch.metering import Metering
from headrace.handlers.dispatch.replica_only import ReplicaOnly
from headrace.handlers.dispatch.request_metrics import Outstanding, RequestMetrics
from headrace.handlers.dispatch.table import HandlerTable
from headrace.kernel.clock import SYSTEM_CLOCK, Clock
from headrace.kernel.errors import ErrorCode, Fault
from headrace.net.connection import Connection
from headrace.net.replies import CLOSE, Close, Pending, Reply
from headrace.wire.apis import ApiKey, api_name
from headrace.wire.codec import (
    MalformedRequest,
    RequestHeader,
    encode_response,
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
        authorization: Authorization = OPEN,
        logins: Logins | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._wall_ms = clock.wall_ms
        self._handlers = table.by_key
        self._replica_only = ReplicaOnly() if replica_only is None else replica_only
        self._guarded = self._replica_only.guarded
        self._authorization = authorization
        self._logins = Logins(table, {}, clock) if logins is None else logins
        self._metrics = metrics
        self._metering = Metering() if metering is None else metering

    def serve(self, frame: memoryview, connection: Connection, *, admitted: bool = False) -> Reply:
        """`admitted`: the login has accepted the frame."""
        if connection.guarded and not admitted:
            return self._logins.serve(frame, connection, self._serve_admitted)
        started = time.perf_counter()
        try:
            header, body_at = read_request_header(frame)
        except MalformedRequest as bad:
            log.warning("%s: closed, %s", connection, bad)
            return CLOSE
        handler = self._handlers.get(header.api_key)
        if handler is None or header.api_version not in handler.versions:
            return self._refuse_version(header, connection)
        authorization, principal = self._authorization, connection.principal
        access = UNRESTRICTED
        if not authorization.is_open:
            access = authorization.access(principal, connection.peer_host, header.api_key, connection.claims)
        context = RequestContext(
            header,
            connection.peer_host,
            connection.listener,
            principal,
            access,
            self._wall_ms(),
            connection.claims,
            connection,
        )
        request: object = None
        kind: type = Close
        try:
            request = handler.read(header, frame, body_at)
            if header.api_key in self._guarded:
                self._replica_only.check(header.api_key, header.api_version, request, context.listener)
            if access is not UNRESTRICTED and handler.needs.request is not None:
                handler.needs.check(access)
            # A handler serves what it has read. Calls of `cast` here would cost every request two more calls.
            served = handler.serve(request, context)  # type: ignore[arg-type]
            kind = type(served)
            reply: Reply = self._encode(context, served) if kind is dict else served  # type: ignore[arg-type, assignment]
        except MalformedRequest as bad:
            log.warning("%s: closed, %s", connection, bad)
            return CLOSE
        except Exception as error:  # a fault or a bug: the client gets its error answer
            reply = self._failed(handler, request, context, connection, error)
        if kind is Pending or kind is CoroutineType:
            return self._pending(reply, handler, request, context, connection, started)
        took_s = time.perf_counter() - started
        self._metrics.served(header.api_key, took_s)
        if self._metering.quotas.limits_requests:
            wait_ms = self._metering.took_time(context, took_s * 1000)
            if wait_ms:
                _write_throttle_time(reply, header, wait_ms)
        return reply

    def _serve_admitted(self, frame: memoryview, connection: Connection) -> Reply:
        return self.serve(frame, connection, admitted=True)

    def _pending(
        self,
        reply: object,
        handler: Handler,
        request: object,
        context: RequestContext,
        connection: Connection,
        started: float,
    ) -> Pending:
        if type(reply) is Pending:
            # The request may be a view of the frame, which is invalid when the answer comes.
            explain = partial(self._failed, handler, None, context, connection)
            pending = reply
        else:
            explain = partial(self._failed, handler, request, context, connection)
            pending = Pending.of(self._encode_later(context, cast("Coroutine[None, None, Fields]", reply)))
        if not pending.ready:
            pending.keeper = Outstanding(self._metrics, context.header.api_key, started, explain)
        return pending

    async def _encode_later(self, context: RequestContext, served: Coroutine[None, None, Fields]) -> bytearray:
        return self._encode(context, await served)

    def _encode(self, context: RequestContext, answer: Fields) -> bytearray:
        header = context.header
        return encode_response(header.api_key, header.api_version, header.correlation_id, answer)

    def _failed(
        self, handler: Handler, request: object, context: RequestContext, connection: Connection, error: Exception
    ) -> bytearray | Close:
        header = context.header
        if isinstance(error, Fault):
            code, message = int(error.code), error.message
        else:
            code, message = int(ErrorCode.unknown_server_error), "the broker failed to serve this; its log says why"
            log.error("%s: %s v%d failed", connection, api_name(header.api_key), header.api_version, exc_info=error)
        try:
            answer: Fields | None
            if request is None:
                answer = error_answer(header.api_key, header.api_version, code, message)
            else:
                answer = handler.refuse(cast("Never", request), context, code, message)
            if answer is not None:
                return self._encode(context, answer)
        except Exception:  # a bug in the error answer itself must not end more than this connection
            log.exception("%s: no error answer for %s v%d", connection, api_name(header.api_key), header.api_version)
        log.warning(
            "%s: closed, %s v%d has no field for the error: %s",
            connection,
            api_name(header.api_key),
            header.api_version,
            message,
        )
        return CLOSE

    def _refuse_version(self, header: RequestHeader, connection: Connection) -> Reply:
        if header.api_key == ApiKey.API_VERSIONS:
            answer = unsupported_version_answer(self._handlers[ApiKey.API_VERSIONS].versions)
            return encode_response(ApiKey.API_VERSIONS, 0, header.correlation_id, answer)
        log.warning("%s: closed, %s v%d is not served", connection, api_name(header.api_key), header.api_version)
        return CLOSE


def _write_throttle_time(reply: Reply, header: RequestHeader, wait_ms: int) -> None:
    """Writes the throttle time into an encoded answer: the time of the request is known only then."""
    at = throttle_time_at(header.api_key, header.api_version)
    first = reply[0] if isinstance(reply, list) and reply else reply
    if at is not None and isinstance(first, bytearray) and len(first) >= at + 4:
        (written,) = struct.unpack_from(">i", first, at)
        struct.pack_into(">i", first, at, max(written, wait_ms))
