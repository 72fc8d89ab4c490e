"""GetTelemetrySubscriptions (key 71, version 0): which metrics a client shall push, and how often (KIP-714).

A client without an instance id gets one. A question before the end of the push interval gets THROTTLING_QUOTA_EXCEEDED,
unless the subscriptions have changed.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Final

from headrace.handlers.dispatch.authorization import NOTHING, Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.handlers.telemetry.client_instances import ClientInstances
from headrace.kernel.dataclass import dataclass
from headrace.records.compression import Codec
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.get_telemetry_subscriptions import (
        GetTelemetrySubscriptionsRequest,
        GetTelemetrySubscriptionsResponse,
    )

# In Kafka's order of preference.
ACCEPTED: Final = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)


@dataclass(frozen=True)
class GetTelemetrySubscriptions(Handler):
    instances: ClientInstances
    max_bytes: Callable[[], int]

    api_key: ClassVar[ApiKey] = ApiKey.GET_TELEMETRY_SUBSCRIPTIONS
    versions: ClassVar[range] = range(1)
    needs: ClassVar[Needs] = NOTHING

    def serve(
        self, request: GetTelemetrySubscriptionsRequest, context: RequestContext
    ) -> GetTelemetrySubscriptionsResponse:
        client = self.instances.instance(request.client_instance_id or uuid.uuid4(), context)
        client.ask(context.received_at_ms)
        return {
            "throttle_time": 0,
            "error_code": 0,
            "client_instance_id": client.id,
            "subscription_id": client.subscription_id,
            "accepted_compression_types": [int(codec) for codec in ACCEPTED],
            "push_interval": client.interval_ms,
            "telemetry_max_bytes": self.max_bytes(),
            "delta_temporality": True,
            "requested_metrics": list(client.metrics),
        }

    def refuse(
        self, request: GetTelemetrySubscriptionsRequest, context: RequestContext, error_code: int, message: str
    ) -> GetTelemetrySubscriptionsResponse:
        return {
            "error_code": error_code,
            "client_instance_id": None,
            "subscription_id": 0,
            "push_interval": 0,
            "telemetry_max_bytes": 0,
        }
