"""The kinds of resources that have a configuration: their number on the wire, their name in the cluster image, and the
resource of the authorizer that protects them."""

from __future__ import annotations

from typing import Final

from headrace.handlers.dispatch.authorization import Access
from headrace.security.acl.model import CLUSTER_NAME, Operation, ResourceType

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32

NAMES: Final = {
    TOPIC: "topic",
    BROKER: "broker",
    BROKER_LOGGER: "broker-logger",
    CLIENT_METRICS: "client-metrics",
    GROUP: "group",
}
NUMBERS: Final = {name: number for number, name in NAMES.items()}


def require_config(access: Access, operation: Operation, kind: int, name: str) -> None:
    """Raises Refused unless the client may read or change the configuration. Types without a resource of their own
    need the right on the cluster."""
    if kind == TOPIC:
        access.require(operation, ResourceType.TOPIC, name)
    elif kind == GROUP:
        access.require(operation, ResourceType.GROUP, name)
    elif kind in NAMES:
        access.require(operation, ResourceType.CLUSTER, CLUSTER_NAME)
