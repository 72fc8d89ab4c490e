from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from headrace.testing.in_process import RunningBroker, broker
from tests.support.registry import RunningRegistry, registry


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    with broker() as started:
        yield started


@pytest.fixture(scope="module")
def server(running: RunningBroker) -> Iterator[RunningRegistry]:
    with registry(running.bootstrap) as started:
        yield started


@pytest.fixture
def subject() -> str:
    return f"s-{uuid.uuid4().hex[:8]}"
