"""A pytest plugin that runs kafka-python's own integration tests against a running broker.

The suite starts its own brokers from a Kafka distribution, and its source package does not contain the module for that.
Here a broker is an address, taken from KAFKA_URI.
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
    """The attributes that the suite needs from its broker fixture."""

    replicas = int(os.environ["KAFKA_REPLICAS"])
    partitions = 4

    def __init__(self, broker_id: int) -> None:
        address = urlparse(os.environ["KAFKA_URI"])
        self.broker_id = broker_id
        self.host, self.port = address.hostname, address.port

    def _enrich_client_params(self, params: dict[str, object], **defaults: object) -> dict[str, object]:
        return {**defaults, **params, **_security(), "bootstrap_servers": f"{self.host}:{self.port}"}


def _security() -> dict[str, object]:
    """TLS and SCRAM, if the suite runs on a secured broker."""
    if "SUITE_CA" not in os.environ:
        return {}
    return {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": os.environ["SUITE_CA"],
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": os.environ["SUITE_USER"],
        "sasl_plain_password": os.environ["SUITE_PASSWORD"],
    }


def keep_requested_updates() -> None:
    """kafka-python 3.0.12 forgets the topics of a subscription that is made while it waits for a Metadata answer,
    with any broker (docs/client-problems.md). This failed one run in twenty of its own suite on a busy machine.
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
