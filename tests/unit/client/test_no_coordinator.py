"""A client that finds no coordinator in time raises a fault, which callers that run for long retry."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.client.cluster_client import ClusterClient
from headrace.client.errors import NoAnswer
from headrace.kernel.errors import ErrorCode
from headrace.registry.store.election import Election, Identity


class Loading:
    """A broker that knows no coordinator."""

    async def request(self, *_: object, **__: object) -> SimpleNamespace:
        return SimpleNamespace(error_code=int(ErrorCode.coordinator_not_available), error_message=None)


class OfBroker(ClusterClient):
    def __init__(self) -> None:
        super().__init__("127.0.0.1:1", timeout=0.05)

    async def any_connection(self) -> Any:
        return Loading()


def test_no_coordinator_in_time_is_a_fault() -> None:
    with pytest.raises(NoAnswer, match="no coordinator for 'orders' within"):
        asyncio.run(OfBroker().coordinator("orders"))


def test_the_election_of_a_registry_outlives_a_time_without_coordinator() -> None:
    async def nothing(_: Identity | None) -> None:
        pass

    async def still_runs() -> bool:
        client = OfBroker()
        election = Election(client, "schema-registry", Identity("127.0.0.1", 8081), 10_000, nothing)
        running = asyncio.create_task(election.run())
        ended, _ = await asyncio.wait({running}, timeout=0.2)  # longer than the time-out of the client
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return not ended

    assert asyncio.run(still_runs())
