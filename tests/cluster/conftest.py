"""Fixtures of the fault tests: a topic of the test's own on a healthy cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.faults import NO_NETWORK
from tests.support.cluster import RunningCluster
from tests.support.names import unique
from tests.support.network import Network
from tests.support.start_states import Templates
from tests.support.zookeeper import ZooKeeperServer


@pytest.fixture
def topic(cluster: RunningCluster, request: pytest.FixtureRequest) -> str:
    """`cluster` is the fixture of the test's module."""
    cluster.heal()
    name = unique("".join(c if c.isalnum() else "-" for c in request.node.name.removeprefix("test_")).strip("-"))
    cluster.create_topic(name)
    cluster.wait_in_sync(name)
    return name


@pytest.fixture
def net(cluster: RunningCluster) -> Iterator[Network]:
    """The links between the brokers."""
    if cluster.network is None:
        pytest.skip(str(NO_NETWORK))
    yield cluster.network
    cluster.network.mend()


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Templates]:
    """Broker directories and ZooKeeper nodes to copy, on a ZooKeeper server of the module's own."""
    directory = tmp_path_factory.mktemp("templates")
    with ZooKeeperServer(directory / "zookeeper") as server:
        made = Templates(server, directory)
        yield made
        made.close()
