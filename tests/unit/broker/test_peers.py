"""Requests to other brokers: an answer that waits delays no answer to a request of another kind."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from headrace.broker.peers import BrokerPeers
from headrace.client.connection import Connection
from headrace.cluster.core.image import BrokerInfo, ClusterImage, Endpoint
from headrace.cluster.view import ClusterView
from headrace.wire.apis import ApiKey


class OrderedConnection:
    """Answers in request order, as a broker does. The markers wait for a slow partition."""

    closed = False

    def __init__(self, host: str, port: int, slow: asyncio.Event) -> None:
        self.host, self.port = host, port
        self._slow = slow
        self._order = asyncio.Lock()

    async def request(self, api_key: int, body: object, **_: object) -> object:
        async with self._order:
            if api_key == ApiKey.WRITE_TXN_MARKERS:
                await self._slow.wait()
            return api_key, body

    async def close(self) -> None:
        self.closed = True


def test_a_marker_for_a_slow_partition_delays_no_verification(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        opened: list[OrderedConnection] = []
        slow = asyncio.Event()

        async def connect(host: str, port: int, **_: object) -> OrderedConnection:
            opened.append(OrderedConnection(host, port, slow))
            return opened[-1]

        monkeypatch.setattr(Connection, "open", connect)
        view = ClusterView()
        there = BrokerInfo(2, 5, (Endpoint("brokers", "there", 9092, ""),))
        view.publish(ClusterImage(version=1, brokers={2: there}))
        peers = BrokerPeers(view, "brokers")
        marker = asyncio.ensure_future(peers.request(2, ApiKey.WRITE_TXN_MARKERS, {}))
        await asyncio.sleep(0)
        for number in range(3):
            body = cast("Any", {"number": number})
            assert await peers.request(2, ApiKey.ADD_PARTITIONS_TO_TXN, body) == (ApiKey.ADD_PARTITIONS_TO_TXN, body)
        assert not marker.done() and len(opened) == 2, "one connection for each API"
        slow.set()
        await marker
        await peers.close()
        assert all(connection.closed for connection in opened)

    asyncio.run(asyncio.wait_for(play(), 20))
