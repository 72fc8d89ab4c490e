"""`headrace doctor` warns about a ZooKeeper that is open to other programs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headrace.cli.checks.findings import State
from headrace.cli.checks.zookeeper import ZooKeeperServer, judge, zookeeper
from headrace.client.cluster_client import ClusterClient
from headrace.testing.process import BrokerProcess
from tests.support.zookeeper import ZooKeeperServer as RunningZooKeeper

SECURED = {
    "listener.security.protocol.map": "CLIENTS:SASL_SSL",
    "zookeeper.set.acl": "true",
    "zookeeper.ssl.client.enable": "true",
}
SOUND = ZooKeeperServer("192.0.2.1:2182", (3, 9, 5))


@pytest.mark.parametrize(
    ("settings", "server", "words"),
    [
        ({}, SOUND, []),
        ({"zookeeper.set.acl": "false"}, SOUND, ["zookeeper.set.acl=false: every client"]),
        (
            {"zookeeper.set.acl": "false", "listener.security.protocol.map": "", "authorizer.class.name": "x"},
            SOUND,
            ["zookeeper.set.acl=false: every client"],
        ),
        # Nothing secret is in the store.
        ({"zookeeper.set.acl": "false", "listener.security.protocol.map": "A:SSL"}, SOUND, []),
        ({"zookeeper.ssl.client.enable": "false"}, SOUND, ["connection to ZooKeeper is not encrypted"]),
        ({"zookeeper.ssl.client.enable": "false"}, ZooKeeperServer("127.0.0.1:2181", (3, 9, 5)), []),
        ({}, ZooKeeperServer("192.0.2.1:2182", None, ("envi", "dump")), ["answers envi and dump to every client"]),
        ({}, ZooKeeperServer("192.0.2.1:2182", None, (), True), ["the admin server of 192.0.2.1:2182"]),
    ],
)
def test_cve_2024_51504_and_2025_58457_each_opening_is_a_warning(
    settings: dict[str, str], server: ZooKeeperServer, words: list[str]
) -> None:
    found = judge(SECURED | settings, [server])
    if not words:
        assert [one.state for one in found] == [State.OK], found
        return
    assert [one.state for one in found] == [State.WARN] * len(words)
    for one, text in zip(found, words, strict=True):
        assert text in one.found and one.remedy


@pytest.mark.parametrize(
    ("version", "is_sound"),
    [
        ((3, 4, 9), False),  # CVE-2018-8012
        ((3, 8, 2), False),  # CVE-2023-44981
        ((3, 9, 0), False),
        ((3, 9, 2), False),  # CVE-2024-51504
        ((3, 9, 3), False),  # CVE-2025-58457
        ((3, 9, 4), False),  # CVE-2026-24281
        ((3, 8, 5), False),
        ((3, 8, 6), True),
        ((3, 9, 5), True),
        ((3, 10, 0), True),
    ],
)
def test_a_version_with_known_vulnerabilities_is_a_warning(version: tuple[int, ...], is_sound: bool) -> None:
    """CVE-2018-8012, CVE-2023-44981, CVE-2024-51504, CVE-2025-58457, CVE-2026-24281."""
    [found] = judge(SECURED, [ZooKeeperServer("192.0.2.1:2182", version)])
    assert (found.state is State.OK) is is_sound
    assert is_sound or found.remedy == "upgrade it to 3.8.6 or 3.9.5"


@pytest.mark.needs("zookeeper")
def test_a_running_ensemble_is_examined(tmp_path: Path) -> None:
    server = RunningZooKeeper(tmp_path / "zookeeper", extra="4lw.commands.whitelist=srvr,envi,cons\n")
    server.start()
    broker = None
    try:
        settings = {
            "zookeeper.connect": server.connect,
            "broker.id": "1",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
        broker = BrokerProcess(settings, tmp_path / "broker")

        async def examined() -> list[str]:
            assert broker is not None
            async with ClusterClient(broker.bootstrap) as client:
                return [one.found for one in await zookeeper(client)]

        found = asyncio.run(examined())
    finally:
        if broker is not None:
            broker.stop()
        server.stop()
    assert len(found) == 2, found
    assert found[0].startswith("zookeeper.set.acl=false")
    assert found[1] == f"{server.connect} answers envi and cons to every client"
