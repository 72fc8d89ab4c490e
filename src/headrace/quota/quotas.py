"""The quotas of this broker, and the use of each client.

Without quotas a request costs one attribute test: `if quotas.limits_produce: …`, or the call itself, which returns 0 at
once. With quotas, the quota of a client is looked up once and cached until the quotas change.

Use is counted per broker, as in Kafka: on a cluster of three brokers a client may use its rate three times. Owned by
the event loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from headrace.quota.core.entities import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Entity,
    Part,
    QuotaTable,
    by_address,
    candidates,
    ip_candidates,
)
from headrace.quota.core.rate import SampledRate
from headrace.quota.core.token_bucket import TokenBucket

# As in Kafka, the use of a client is dropped after an hour without requests. Checked once per several new clients.
_IDLE_MS = 3_600_000
_SWEEP_EVERY = 256

Meter = TypeVar("Meter", SampledRate, TokenBucket)


class _Meters(Generic[Meter]):
    """The meters of one kind of use, by the key of the measurement."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.table: QuotaTable = {}
        self.is_limited = False
        self._limits: dict[tuple[str, str], tuple[tuple[str | None, str | None], float] | None] = {}
        self._used: dict[tuple[str | None, str | None], Meter] = {}

    def replace(self, table: QuotaTable) -> None:
        self.table = {entity: values for entity, values in table.items() if self.key in values}
        self.is_limited = bool(self.table)
        self._limits.clear()
        if not self.is_limited:
            self._used.clear()

    def limit(self, user: str, client_id: str) -> tuple[tuple[str | None, str | None], float] | None:
        """The key of this client's measurement, and its limit; None if it has no limit."""
        who = (user, client_id)
        try:
            return self._limits[who]
        except KeyError:
            pass
        found = None
        for entity, counted_under in candidates(user, client_id):
            values = self.table.get(entity)
            if values is not None:
                found = (counted_under, values[self.key])
                break
        if len(self._limits) > 100_000:  # clients choose their ids, so the cache must be bounded
            self._limits.clear()
        self._limits[who] = found
        return found

    def meter(self, counted_under: tuple[str | None, str | None], fresh: Meter, now_ms: int) -> Meter:
        if len(self._used) % _SWEEP_EVERY == _SWEEP_EVERY - 1:
            self._forget_idle(now_ms)
        return self._used.setdefault(counted_under, fresh)

    def known(self, counted_under: tuple[str | None, str | None]) -> Meter | None:
        return self._used.get(counted_under)

    def _forget_idle(self, now_ms: int) -> None:
        idle = [who for who, meter in self._used.items() if now_ms - meter.last_used_ms > _IDLE_MS]
        for who in idle:
            del self._used[who]


class Quotas:
    """`quotas.record_produce(principal, client_id, size, now_ms)` returns the throttle time in ms."""

    def __init__(
        self,
        *,
        samples: int = 11,
        window_seconds: int = 1,
        controller_samples: int = 11,
        controller_window_seconds: int = 1,
    ) -> None:
        self._samples = samples
        self._window_ms = window_seconds * 1000
        self._burst_seconds = float(controller_samples * controller_window_seconds)
        self._produce: _Meters[SampledRate] = _Meters(PRODUCER_BYTE_RATE)
        self._fetch: _Meters[SampledRate] = _Meters(CONSUMER_BYTE_RATE)
        self._request: _Meters[SampledRate] = _Meters(REQUEST_PERCENTAGE)
        self._mutation: _Meters[TokenBucket] = _Meters(CONTROLLER_MUTATION_RATE)
        self._connection: _Meters[SampledRate] = _Meters(CONNECTION_CREATION_RATE)
        self.table: QuotaTable = {}
        self.limits_produce = self.limits_fetch = self.limits_requests = False
        self.limits_mutations = self.limits_connections = False
        self._all_connections: tuple[SampledRate, float] | None = None

    def replace(
        self, stored: Mapping[Entity, Mapping[str, float]] | Mapping[tuple[Part, ...], Mapping[str, float]]
    ) -> None:
        """Applies the quotas of a new cluster image. Earlier use still counts."""
        self.table = table = {frozenset(entity): values for entity, values in stored.items()}
        for meters in (self._produce, self._fetch, self._request, self._mutation):
            meters.replace(table)
        self._connection.replace(by_address(table))
        self.limits_produce = self._produce.is_limited
        self.limits_fetch = self._fetch.is_limited
        self.limits_requests = self._request.is_limited
        self.limits_mutations = self._mutation.is_limited
        self.limits_connections = self._connection.is_limited or self._all_connections is not None

    def limit_all_connections(self, per_second: float | None) -> None:
        """The limit for connections from all addresses (`max.connection.creation.rate`); None for no limit."""
        meter = SampledRate(self._samples, self._window_ms)
        self._all_connections = None if per_second is None else (meter, per_second)
        self.limits_connections = self._connection.is_limited or self._all_connections is not None

    def record_produce(self, principal: str, client_id: str | None, size_bytes: int, now_ms: int) -> int:
        if not self.limits_produce:
            return 0
        return self._record(self._produce, principal, client_id, size_bytes, now_ms)

    def record_fetch(self, principal: str, client_id: str | None, size_bytes: int, now_ms: int) -> int:
        """If the throttle time is not 0, the broker sends no records, as Kafka, and calls `take_back_fetch`."""
        if not self.limits_fetch:
            return 0
        return self._record(self._fetch, principal, client_id, size_bytes, now_ms)

    def take_back_fetch(self, principal: str, client_id: str | None, size_bytes: int) -> None:
        limit = self._fetch.limit(_user(principal), client_id or "")
        meter = self._fetch.known(limit[0]) if limit else None
        if meter is not None:
            meter.take_back(size_bytes)

    def fetch_allowance(self, principal: str, client_id: str | None, asked_bytes: int) -> int:
        """The maximum size of a fetch response, so that one response does not use more than a whole window."""
        if not self.limits_fetch:
            return asked_bytes
        limit = self._fetch.limit(_user(principal), client_id or "")
        if limit is None:
            return asked_bytes
        return min(asked_bytes, int(limit[1] * (self._samples - 1) * self._window_ms / 1000))

    def record_request(self, principal: str, client_id: str | None, busy_ms: float, now_ms: int) -> int:
        """Records that a request used `busy_ms` of the event loop. The throttle time is at most one window."""
        if not self.limits_requests:
            return 0
        # 100 % is one whole event loop: 1,000 ms of every second.
        wait = self._record(self._request, principal, client_id, busy_ms / 10, now_ms)
        return min(wait, self._window_ms)

    def record_mutations(
        self, principal: str, client_id: str | None, permits: float, now_ms: int, *, strict: bool = True
    ) -> int:
        """Records that a request creates or deletes `permits` partitions.

        Strict (clients that know THROTTLING_QUOTA_EXCEEDED): if the throttle time is not 0, the request is refused and
        not counted. Otherwise the request is executed and counted, and the response has the throttle time.
        """
        if not self.limits_mutations:
            return 0
        limit = self._mutation.limit(_user(principal), client_id or "")
        if limit is None:
            return 0
        bucket = self._mutation.meter(limit[0], TokenBucket(self._burst_seconds), now_ms)
        if strict:
            wait = bucket.wait_ms(limit[1], now_ms)
            if wait == 0:
                bucket.take(permits, limit[1], now_ms)
            return wait
        bucket.take(permits, limit[1], now_ms)
        return bucket.wait_ms(limit[1], now_ms)

    def record_connection(self, address: str, now_ms: int) -> int:
        """Records a connection from `address`. If the result is not 0, close the connection after that time."""
        if not self.limits_connections:
            return 0
        wait = self._record_connection(*self._all_connections, now_ms) if self._all_connections is not None else 0
        if wait:
            return wait
        for entity in ip_candidates(address):
            values = self._connection.table.get(entity)
            if values is not None:
                meter = self._connection.meter((address, None), SampledRate(self._samples, self._window_ms), now_ms)
                return self._record_connection(meter, values[CONNECTION_CREATION_RATE], now_ms)
        return 0

    @staticmethod
    def _record_connection(meter: SampledRate, per_second: float, now_ms: int) -> int:
        """Records one connection. A refused connection does not count."""
        meter.record(1, now_ms)
        wait = meter.wait_ms(per_second, now_ms) if per_second > 0 else 1000
        if wait:
            meter.take_back(1)
        return wait

    def _record(
        self, meters: _Meters[SampledRate], principal: str, client_id: str | None, amount: float, now_ms: int
    ) -> int:
        limit = meters.limit(_user(principal), client_id or "")
        if limit is None:
            return 0
        counted_under, per_second = limit
        meter = meters.known(counted_under)
        if meter is None:
            meter = meters.meter(counted_under, SampledRate(self._samples, self._window_ms), now_ms)
        meter.record(amount, now_ms)
        return meter.wait_ms(per_second, now_ms)


def _user(principal: str) -> str:
    return principal.removeprefix("User:")
