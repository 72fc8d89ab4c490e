"""Usage of clients: counted by topic for the metrics, and compared with their quotas.

A client over its quota gets a throttle time, and the broker also mutes its connection for that time, so a client that
ignores it waits too. Without quotas, metering costs one attribute test per request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import field
from typing import Final, TypeVar

from headrace.handlers.dispatch.context import RequestContext
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode
from headrace.quota import Quotas
from headrace.telemetry.counters import TrafficByTopic

Item = TypeVar("Item")

EXCEEDED: Final = (ErrorCode.throttling_quota_exceeded, "The throttling quota has been exceeded.")


@dataclass
class Metering:
    quotas: Quotas = field(default_factory=Quotas)
    traffic: TrafficByTopic = field(default_factory=TrafficByTopic)
    throttled: Counter[str] = field(default_factory=Counter)
    """Answers that told a client to wait, by quota."""

    def produced(self, context: RequestContext, size_bytes: int) -> int:
        """The wait, in ms, after a produce request of this size."""
        wait = self.quotas.record_produce(context.principal, context.client_id, size_bytes, context.received_at_ms)
        return self._held_back("produce", context, wait)

    def fetched(self, context: RequestContext, size_bytes: int, now_ms: int) -> int:
        """The wait before an answer of this size may be sent. With a wait the bytes are not counted: nothing is
        sent."""
        principal, client_id = context.principal, context.client_id
        wait = self.quotas.record_fetch(principal, client_id, size_bytes, now_ms)
        if wait:
            self.quotas.take_back_fetch(principal, client_id, size_bytes)
        return self._held_back("fetch", context, wait)

    def connected(self, address: str, now_ms: int) -> int:
        """The wait after a connection from this address. With a wait the connection must not be served."""
        return self.quotas.record_connection(address, now_ms) if self.quotas.limits_connections else 0

    def took_time(self, context: RequestContext, busy_ms: float) -> int:
        wait = self.quotas.record_request(context.principal, context.client_id, busy_ms, context.received_at_ms)
        return self._held_back("request", context, wait)

    def admit_mutations(
        self, context: RequestContext, asked: Iterable[tuple[Item, int]], *, strict: bool
    ) -> tuple[list[Item], list[Item], int]:
        """Splits changes (each with its number of partitions) into those allowed and those refused, with the wait.

        Strict, for clients that know THROTTLING_QUOTA_EXCEEDED (KIP-599); for others everything is allowed.
        """
        if not self.quotas.limits_mutations:
            return [item for item, _ in asked], [], 0
        admitted: list[Item] = []
        refused: list[Item] = []
        longest = 0
        for item, partitions in asked:
            wait = self.quotas.record_mutations(
                context.principal, context.client_id, partitions, context.received_at_ms, strict=strict
            )
            (refused if strict and wait else admitted).append(item)
            longest = max(longest, wait)
        return admitted, refused, self._held_back("controller_mutation", context, longest)

    def _held_back(self, quota: str, context: RequestContext, wait: int) -> int:
        if wait:
            self.throttled[quota] += 1
            context.mute(wait)
        return wait
