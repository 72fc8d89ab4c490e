"""A pytest plugin that points kafka-python's own integration tests at a running broker.

The suite starts brokers of its own from a Kafka distribution; its source package leaves out the module that does so.
Here a broker is simply an address, taken from KAFKA_URI.
"""

from __future__ import annotations

import os
import sys
import types
from urllib.parse import urlparse

_service = types.ModuleType("test.service")
_service.ExternalService = type("ExternalService", (), {})  # type: ignore[attr-defined]
_service.SpawnedService = type("SpawnedService", (), {})  # type: ignore[attr-defined]
sys.modules["test.service"] = _service


class RunningBroker:
    """What the suite asks of its broker fixture."""

    replicas = int(os.environ["KAFKA_REPLICAS"])
    partitions = 4

    def __init__(self, broker_id: int) -> None:
        address = urlparse(os.environ["KAFKA_URI"])
        self.broker_id = broker_id
        self.host, self.port = address.hostname, address.port

    def _enrich_client_params(self, params: dict[str, object], **defaults: object) -> dict[str, object]:
        return {**defaults, **params, "bootstrap_servers": f"{self.host}:{self.port}"}


def keep_requested_updates() -> None:
    """kafka-python 3.0.12 forgets the topics of a subscription that is made while it waits for an answer to Metadata,
    whatever the broker (docs/client-problems.md). One run in twenty of its own suite failed by that on a busy machine.
    """
    from kafka.cluster import ClusterMetadata

    request, update = ClusterMetadata.metadata_request, ClusterMetadata.update_metadata

    def metadata_request(self: ClusterMetadata) -> object:
        self.requested_topics = set(self._topics)
        return request(self)

    def update_metadata(self: ClusterMetadata, metadata: object) -> object:
        result = update(self, metadata)
        if self._topics - self.requested_topics:
            self.request_update()
        return result

    ClusterMetadata.metadata_request, ClusterMetadata.update_metadata = metadata_request, update_metadata


def pytest_configure() -> None:
    from test.integration import fixtures  # type: ignore[import-not-found]

    keep_requested_updates()
    fixtures.KafkaFixture.instance = staticmethod(lambda broker_id, **_: RunningBroker(broker_id))
