"""The clients that ask for telemetry subscriptions: what each shall push, how often, and when a request is too early.

A subscription is a CLIENT_METRICS resource (`metrics`, `interval.ms`, `match`). A client gets the union of all that
match it, with the shortest interval. When a subscription changes, the subscription id of the client changes, and its
next push gets UNKNOWN_SUBSCRIPTION_ID, after which it asks again. Mirrors Kafka's ClientMetricsManager. Owned by the
event loop.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from headrace.cluster.view import ClusterView
from headrace.config.keys import CLIENT_METRICS_KEYS
from headrace.handlers.dispatch.context import RequestContext
from headrace.kernel.checksum import crc32c
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Refused
from headrace.kernel.ids import uuid_to_text

ALL_METRICS: Final = "*"
_DEFAULT_INTERVAL_MS: Final = 300_000
_MOST_CLIENTS: Final = 16_384
_LEAST_KEPT_MS: Final = 60_000
_KIND: Final = "client-metrics"


@dataclass(frozen=True, slots=True)
class Subscription:
    metrics: tuple[str, ...]
    interval_ms: int
    match: tuple[tuple[str, re.Pattern[str]], ...]

    @classmethod
    def of(cls, overrides: Mapping[str, str]) -> Subscription:
        values = {
            key.name: key.parse(overrides[key.name]) if key.name in overrides else key.default
            for key in CLIENT_METRICS_KEYS.values()
        }
        pairs = (item.partition("=") for item in values["match"])
        match = tuple((name.strip(), re.compile(pattern.strip())) for name, _, pattern in pairs)
        return cls(tuple(values["metrics"]), int(values["interval.ms"]), match)

    def matches(self, facts: Mapping[str, str | None]) -> bool:
        found = ((facts.get(name), pattern) for name, pattern in self.match)
        return all(fact is not None and pattern.fullmatch(fact) for fact, pattern in found)


class ClientInstance:
    def __init__(self, id: uuid.UUID, metrics: Sequence[str], interval_ms: int, version: int) -> None:
        self.id = id
        self.metrics = metrics
        self.interval_ms = interval_ms
        # The version of the subscriptions that this was computed from.
        self.version = version
        self.subscription_id = _subscription_id(id, metrics, interval_ms)
        self.is_terminating = False
        self.kept_until_ms = 0
        self._asked_ms = 0
        self._pushed_ms = 0

    def ask(self, now_ms: int) -> None:
        """Raises Refused if the last request was less than an interval ago."""
        if now_ms - max(self._asked_ms, self._pushed_ms) < self.interval_ms:
            raise _too_early(self.id)
        self._asked_ms = now_ms

    def push(self, now_ms: int, *, terminating: bool) -> None:
        # The first push after a question may come early: clients spread their pushes over the interval.
        if self._asked_ms > self._pushed_ms or now_ms - self._pushed_ms >= self.interval_ms:
            self._pushed_ms = now_ms
        elif not terminating:
            raise _too_early(self.id)


class ClientInstances:
    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._known: dict[uuid.UUID, ClientInstance] = {}
        self._configs: Mapping[tuple[str, str], Mapping[str, str]] = {}
        self._subscriptions: list[Subscription] = []
        self._version = 0

    def __len__(self) -> int:
        return len(self._known)

    def instance(self, id: uuid.UUID, context: RequestContext) -> ClientInstance:
        """The client, with the subscriptions of this moment."""
        self._follow()
        now_ms = context.received_at_ms
        for expired in [known.id for known in self._known.values() if known.kept_until_ms <= now_ms]:
            del self._known[expired]
        known = self._known.pop(id, None)
        if known is None or known.version != self._version:
            known = self._made(id, context)
            context.when_closed(("telemetry", id), partial(self._forget, id))
        self._known[id] = known  # the most recent request is last
        known.kept_until_ms = now_ms + max(_LEAST_KEPT_MS, 3 * known.interval_ms)
        if len(self._known) > _MOST_CLIENTS:
            del self._known[next(iter(self._known))]
        return known

    def _forget(self, id: uuid.UUID) -> None:
        self._known.pop(id, None)

    def _follow(self) -> None:
        configs = self._view.current.configs
        if configs is self._configs:
            return
        self._configs = configs
        found = [Subscription.of(values) for (kind, _), values in configs.items() if kind == _KIND and values]
        if found != self._subscriptions:
            self._subscriptions = found
            self._version += 1

    def _made(self, id: uuid.UUID, context: RequestContext) -> ClientInstance:
        facts = _facts(id, context)
        matching = [subscription for subscription in self._subscriptions if subscription.matches(facts)]
        metrics = sorted({name for subscription in matching for name in subscription.metrics})
        if ALL_METRICS in metrics:
            metrics = [ALL_METRICS]
        interval_ms = min([_DEFAULT_INTERVAL_MS, *(subscription.interval_ms for subscription in matching)])
        return ClientInstance(id, metrics, interval_ms, self._version)


def _facts(id: uuid.UUID, context: RequestContext) -> dict[str, str | None]:
    peer = context.peer
    name, version = (None, None) if peer is None or peer.software is None else peer.software
    return {
        "client_instance_id": uuid_to_text(id),
        "client_id": context.client_id,
        "client_software_name": name,
        "client_software_version": version,
        "client_source_address": context.peer_host,
        "client_source_port": None if peer is None else str(peer.peer_port),
    }


def _subscription_id(id: uuid.UUID, metrics: Sequence[str], interval_ms: int) -> int:
    """As in Kafka: a checksum of the subscription, mixed with the hash of the client's id."""
    checksum = crc32c(f"[{', '.join(metrics)}]{interval_ms}".encode())
    both = (id.int >> 64) ^ (id.int & 0xFFFFFFFFFFFFFFFF)
    mixed = checksum ^ (both >> 32) ^ (both & 0xFFFFFFFF)
    return mixed - (1 << 32) if mixed >= 1 << 31 else mixed


def _too_early(id: uuid.UUID) -> Refused:
    return Refused(
        ErrorCode.throttling_quota_exceeded, f"client {uuid_to_text(id)} asks before the end of its push interval"
    )
