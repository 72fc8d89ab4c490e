"""Requests to other brokers of the cluster: for each API one connection to each of them, opened on first use.

A broker answers in request order, and some answers wait for the replicas of a slow partition: those to WriteTxnMarkers,
Produce and WriteShareGroupState. On a shared connection they would delay the answers about all other partitions, and a
producer would wait for the verification of its transaction.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from headrace.cluster.view import ClusterView
from headrace.kernel.errors import ErrorCode, Refused
from headrace.wire.entities import Body, Entity

if TYPE_CHECKING:
    from headrace.client.connection import Connection
    from headrace.client.security import ClientSecurity

_TIMEOUT_S: Final = 10.0


class BrokerPeers:
    """Owned by the event loop. A standalone broker never opens a connection here."""

    def __init__(self, view: ClusterView, listener: str, security: ClientSecurity | None = None) -> None:
        self._view = view
        self._listener = listener
        self._security = security
        # By the id of the broker and the API key.
        self._connections: dict[tuple[int, int], Connection] = {}
        self._opening: dict[tuple[int, int], asyncio.Lock] = {}

    async def request(self, broker_id: int, api_key: int, body: Body, *, version: int | None = None) -> Entity:
        """The answer as kio's entity. Raises a Fault when the broker cannot be reached or gives no answer in time."""
        connection = await self._connection(broker_id, api_key)
        return await connection.request(api_key, body, version=version, timeout=_TIMEOUT_S)

    async def _connection(self, broker_id: int, api_key: int) -> Connection:
        from headrace.client.connection import Connection

        key = (broker_id, api_key)
        async with self._opening.setdefault(key, asyncio.Lock()):
            broker = self._view.current.brokers.get(broker_id)
            endpoint = broker.endpoint(self._listener) if broker is not None else None
            if endpoint is None:
                raise Refused(ErrorCode.broker_not_available, f"broker {broker_id} is not there")
            known = self._connections.get(key)
            if known is not None:
                if not known.closed and (known.host, known.port) == (endpoint.host, endpoint.port):
                    return known
                await known.close()
            opened = await Connection.open(endpoint.host, endpoint.port, timeout=_TIMEOUT_S, security=self._security)
            self._connections[key] = opened
            return opened

    async def close(self) -> None:
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            await connection.close()
