"""pytest fixtures. `pytest_plugins = ["headrace.testing.fixtures"]` loads them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.testing.in_process import RunningBroker, broker


@pytest.fixture
def headrace_broker() -> Iterator[RunningBroker]:
    """A new broker for one test."""
    with broker() as running:
        yield running
