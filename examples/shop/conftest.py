"""The shop's fixtures: a cluster of the test process, or one that is already there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace as headrace_package
from headrace.api.cluster import Cluster

sys.path.insert(0, str(Path(__file__).parent))
TOPICS = ("orders", "payments", "notifications")


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster with the empty topics of the shop."""
    bootstrap = request.config.getoption("--kafka-bootstrap")
    is_new = request.config.getoption("--headrace-target") == "headrace"
    if is_new:
        bootstrap = request.getfixturevalue("headrace").bootstrap
    elif not bootstrap:
        raise pytest.UsageError("--headrace-target kafka needs --kafka-bootstrap HOST:PORT")
    # A client that tries again soon makes tests of failures short.
    settings = {"topic.metadata.refresh.interval.ms": 50, "retry.backoff.ms": 10, "retry.backoff.max.ms": 100}
    with headrace_package.connect(bootstrap, settings={**settings, "log_level": 0}) as connected:
        for name in () if is_new else set(TOPICS) & set(connected.topics):
            connected.topics.delete(name)
        for name in TOPICS:
            connected.topics.create(name)
        yield connected


@pytest.fixture
def own_broker(request: pytest.FixtureRequest) -> object:
    """The broker of this test. Skips if the suite runs against another cluster."""
    if request.config.getoption("--headrace-target") != "headrace":
        pytest.skip("needs a broker in the test process")
    return request.getfixturevalue("headrace")
