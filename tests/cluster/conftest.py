"""What fault tests share: a topic of the test's own on a cluster that is whole."""

from __future__ import annotations

import pytest

from tests.support.cluster import RunningCluster
from tests.support.names import unique


@pytest.fixture
def topic(cluster: RunningCluster, request: pytest.FixtureRequest) -> str:
    """`cluster` is the fixture of the test's module."""
    cluster.heal()
    name = unique("".join(c if c.isalnum() else "-" for c in request.node.name.removeprefix("test_")).strip("-"))
    cluster.create_topic(name)
    cluster.wait_in_sync(name)
    return name
