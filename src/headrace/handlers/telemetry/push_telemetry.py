"""PushTelemetry (key 72, version 0): metrics of a client, which the metrics endpoint then shows (KIP-714).

Errors as in Kafka, in this order: INVALID_REQUEST without an instance id or after a terminating push,
THROTTLING_QUOTA_EXCEEDED before the end of the push interval, UNKNOWN_SUBSCRIPTION_ID, UNSUPPORTED_COMPRESSION_TYPE,
TELEMETRY_TOO_LARGE, and INVALID_RECORD for metrics that cannot be read.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, ClassVar, Final

from headrace.handlers.dispatch.authorization import NOTHING, Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.handlers.telemetry.client_instances import ClientInstance, ClientInstances
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import CorruptBatch, ErrorCode, Refused
from headrace.kernel.ids import uuid_to_text
from headrace.records.compression import Codec, decompress
from headrace.telemetry.clients.otlp import InvalidTelemetry, Point, read_points
from headrace.telemetry.clients.pushed_metrics import PushedMetrics
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

# The second is the id of the metadata topic, which Kafka reserves too.
_RESERVED: Final = (None, uuid.UUID(int=0), uuid.UUID(int=1))
# A compressed push may become this much larger.
_DECOMPRESSED_FACTOR: Final = 10
# A larger push is read in a thread: reading takes about a microsecond per byte.
_READ_AT_ONCE_BYTES: Final = 4096


@dataclass(frozen=True)
class PushTelemetry(Handler):
    instances: ClientInstances
    pushed: PushedMetrics
    max_bytes: Callable[[], int]

    api_key: ClassVar[ApiKey] = ApiKey.PUSH_TELEMETRY
    versions: ClassVar[range] = range(1)
    needs: ClassVar[Needs] = NOTHING

    def serve(
        self, request: PushTelemetryRequest, context: RequestContext
    ) -> PushTelemetryResponse | Coroutine[None, None, PushTelemetryResponse]:
        instance_id = request.client_instance_id
        if instance_id in _RESERVED or instance_id is None:
            raise Refused(ErrorCode.invalid_request, "the push names no client instance id")
        client = self.instances.instance(instance_id, context)
        try:
            self._check(request, client, context.received_at_ms)
        finally:
            client.is_terminating = bool(request.terminating)
        # The request is a view of the frame.
        data, codec = bytes(request.metrics), Codec(int(request.compression_type))
        if len(data) > _READ_AT_ONCE_BYTES:
            return self._read_in_thread(client, context, codec, data)
        return self._taken(client, context, self._points(codec, data))

    async def _read_in_thread(
        self, client: ClientInstance, context: RequestContext, codec: Codec, data: bytes
    ) -> PushTelemetryResponse:
        return self._taken(client, context, await asyncio.to_thread(self._points, codec, data))

    def _taken(self, client: ClientInstance, context: RequestContext, points: list[Point]) -> PushTelemetryResponse:
        if points:
            self.pushed.pushed(
                client.id,
                context.client_id or "",
                points,
                interval_ms=client.interval_ms,
                now_ms=context.received_at_ms,
            )
        return {"throttle_time": 0, "error_code": 0}

    def _points(self, codec: Codec, data: bytes) -> list[Point]:
        if not data:
            return []
        try:
            return list(read_points(decompress(codec, data, _DECOMPRESSED_FACTOR * self.max_bytes())))
        except CorruptBatch as damage:
            raise InvalidTelemetry(damage.message) from None

    def _check(self, request: PushTelemetryRequest, client: ClientInstance, now_ms: int) -> None:
        name = uuid_to_text(client.id)
        if client.is_terminating:
            raise Refused(ErrorCode.invalid_request, f"client {name} has sent its last push before")
        client.push(now_ms, terminating=bool(request.terminating))
        if request.subscription_id != client.subscription_id:
            raise Refused(
                ErrorCode.unknown_subscription_id,
                f"client {name} pushes for subscription {request.subscription_id}, its subscription is "
                f"{client.subscription_id}",
            )
        if int(request.compression_type) not in tuple(Codec):
            raise Refused(
                ErrorCode.unsupported_compression_type, f"compression type {request.compression_type} is unknown"
            )
        if len(request.metrics) > self.max_bytes():
            raise Refused(
                ErrorCode.telemetry_too_large,
                f"a push of {len(request.metrics)} bytes is larger than telemetry.max.bytes={self.max_bytes()}",
            )

    def refuse(
        self, request: PushTelemetryRequest, context: RequestContext, error_code: int, message: str
    ) -> PushTelemetryResponse:
        return {"throttle_time": 0, "error_code": error_code}
