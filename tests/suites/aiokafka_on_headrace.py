"""A pytest plugin that runs aiokafka's own tests against a running broker.

The suite starts Kafka in a container. This plugin replaces the container library with one that starts nothing, and
takes the address from KAFKA_URI. Tests that need the container (SSL, SASL, Kerberos, ACLs) are not run.
"""

from __future__ import annotations

import os
import sys
import types
from typing import Any
from urllib.parse import urlparse


class Container:
    """Runs nothing in a container and reports success."""

    def exec_run(self, *_: object, **__: object) -> tuple[int, bytes]:
        return 0, b""

    def stop(self) -> None:
        """Does nothing: there is no container."""


class Docker:
    def __init__(self) -> None:
        self.containers = types.SimpleNamespace(run=lambda **_: Container())

    def close(self) -> None:
        """Does nothing: there is no connection."""


_docker = types.ModuleType("docker")
_docker.from_env = Docker  # type: ignore[attr-defined]
_docker.models = types.SimpleNamespace(  # type: ignore[attr-defined]
    containers=types.SimpleNamespace(Container=Container)
)
sys.modules["docker"] = _docker


def pytest_configure() -> None:
    from tests import _testutil, conftest  # type: ignore[attr-defined]

    address = urlparse(os.environ["KAFKA_URI"])
    server = conftest.KafkaServer  # type: ignore[attr-defined]

    def running(_host: str, _port: int, *rest: Any) -> Any:
        return server(address.hostname, address.port, *rest)

    conftest.KafkaServer = running  # type: ignore[attr-defined]
    conftest.wait_kafka = lambda *_: True  # type: ignore[attr-defined]
    _testutil.KerberosUtils.create_keytab = lambda *_: None
