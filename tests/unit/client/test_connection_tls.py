"""The brokers' own client through TLS: certificates and host names are checked, and the error says what is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.client.cluster_client import ClusterClient
from headrace.client.connection import Connection
from headrace.client.errors import Unreachable
from headrace.client.security import ClientSecurity
from headrace.testing.in_process import RunningBroker
from headrace.testing.in_process import broker as running_broker
from tests.support.certificates import Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def broker(authority: Authority) -> Iterator[RunningBroker]:
    issued = authority.issue("broker", hosts=("127.0.0.1",))
    with running_broker({"listeners": "SSL://127.0.0.1:0", **issued.properties()}) as running:
        yield running


def settings(authority: Authority, **more: str) -> ClientSecurity:
    given = {"security.protocol": "SSL", "ssl.ca.location": str(authority.certificate)}
    return ClientSecurity.from_settings({**given, **{name.replace("_", "."): text for name, text in more.items()}})


def opened(broker: RunningBroker, security: ClientSecurity | None, host: str = "127.0.0.1") -> int:
    async def run() -> int:
        async with ClusterClient(f"{host}:{broker.port}", timeout=10, security=security) as client:
            return len(client.metadata.nodes)

    return asyncio.run(run())


def test_a_trusted_broker_is_used(broker: RunningBroker, authority: Authority) -> None:
    assert opened(broker, settings(authority)) == 1


def test_a_name_that_the_certificate_does_not_hold_is_refused(broker: RunningBroker, authority: Authority) -> None:
    async def run() -> None:
        await Connection.open("localhost", broker.port, security=settings(authority))

    with pytest.raises(Unreachable, match=r"not trusted \(Hostname mismatch.*or connect by a name that it holds"):
        asyncio.run(run())
    assert opened(broker, settings(authority, ssl_endpoint_identification_algorithm=""), "localhost") == 1


def test_another_authority_is_refused(broker: RunningBroker, tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="shows a certificate that is not trusted"):
        opened(broker, settings(Authority.make(tmp_path)))


def test_plain_text_to_a_tls_listener_is_explained(broker: RunningBroker) -> None:
    with pytest.raises(Unreachable, match=r"speaks TLS: set security\.protocol=SSL for this client"):
        opened(broker, None)


def test_tls_to_a_plain_listener_is_explained(authority: Authority) -> None:
    with (
        running_broker() as plain,
        pytest.raises(Unreachable, match=r"speaks plain text: set security\.protocol=PLAINTEXT for this client"),
    ):
        opened(plain, settings(authority))
