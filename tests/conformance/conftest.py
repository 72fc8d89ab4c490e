"""Fixtures: one broker for each file of conformance tests, a new topic name for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.testing import RunningBroker, broker
from tests.support.names import unique


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    with broker() as started:
        yield started


@pytest.fixture(scope="module")
def bootstrap(running: RunningBroker) -> str:
    return running.bootstrap


@pytest.fixture
def topic() -> str:
    return unique("t")
