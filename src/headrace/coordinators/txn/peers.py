"""The port to other brokers: one request to one broker by its id, over the inter-broker listener."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Peers(Protocol):
    async def request(
        self, broker_id: int, api_key: int, body: Mapping[str, Any], *, version: int | None = None
    ) -> Any:
        """The answer as kio's entity. Raises a Fault when the broker cannot be reached or gives no answer in time."""
