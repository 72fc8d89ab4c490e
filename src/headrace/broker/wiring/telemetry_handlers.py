"""The handlers of client telemetry. Without `client.telemetry.enable` there are none, so clients do not ask."""

from __future__ import annotations

from collections.abc import Callable

from headrace.cluster.view import ClusterView
from headrace.config import BrokerConfig
from headrace.handlers.dispatch.handler import Handler
from headrace.handlers.telemetry.client_instances import ClientInstances
from headrace.handlers.telemetry.get_telemetry_subscriptions import GetTelemetrySubscriptions
from headrace.handlers.telemetry.push_telemetry import PushTelemetry
from headrace.telemetry.clients.pushed_metrics import PushedMetrics


def telemetry_handlers(config: Callable[[], BrokerConfig], view: ClusterView, pushed: PushedMetrics) -> list[Handler]:
    if not config().client_telemetry_enable:
        return []
    instances = ClientInstances(view)

    def max_bytes() -> int:
        return config().telemetry_max_bytes

    return [GetTelemetrySubscriptions(instances, max_bytes), PushTelemetry(instances, pushed, max_bytes)]
