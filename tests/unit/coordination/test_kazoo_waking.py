"""Requests while the ensemble is away do not stop the thread that makes them."""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionClosedError

from headrace.coordination.kazoo_waking import NeverWaiting
from tests.support.ports import free_port


@pytest.mark.timeout(30)
def test_thousands_of_requests_to_an_ensemble_that_is_away_fail_without_waiting() -> None:
    client = KazooClient(hosts=f"127.0.0.1:{free_port()}", handler=NeverWaiting())
    client.start_async()
    try:
        last = [client.get_async("/controller") for _ in range(3000)][-1]
        assert isinstance(last.exception, ConnectionClosedError)
    finally:
        client.stop()
        client.close()
