"""The port to other brokers: one request to one broker by its id, over the inter-broker listener."""

from __future__ import annotations

from typing import Protocol

from headrace.wire.entities import Body, Entity


class Peers(Protocol):
    async def request(self, broker_id: int, api_key: int, body: Body, *, version: int | None = None) -> Entity:
        """The answer as kio's entity. Raises a Fault when the broker cannot be reached or gives no answer in time."""
