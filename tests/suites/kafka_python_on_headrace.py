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


def pytest_configure() -> None:
    from test.integration import fixtures  # type: ignore[import-not-found]

    fixtures.KafkaFixture.instance = staticmethod(lambda broker_id, **_: RunningBroker(broker_id))
