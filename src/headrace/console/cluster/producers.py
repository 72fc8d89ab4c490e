"""Who writes to topics: producers with an id, from the producer state that leaders keep for each partition.

A transactional producer is known by its transactional id. Another idempotent producer has a number only. A producer
without an id leaves no trace in the log. The sequence number of a producer in a partition counts its records, so its
rate is known from two readings.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Final

from headrace.client.cluster_client import ClusterClient
from headrace.console.cluster.administration import transactions
from headrace.console.cluster.facts import Topic
from headrace.console.cluster.offsets import partitions_of
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import Fault
from headrace.wire.apis import ApiKey

# A producer that has not written for this long is history.
RECENT_MS: Final = 3_600_000
# More partitions than this are not asked for one page.
_MOST_PARTITIONS: Final = 2_000
_SEQUENCES: Final = 1 << 31
# Readings that are nearer than this give no rate.
_SHORTEST_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Producer:
    name: str
    """The transactional id, else the number of the producer."""
    is_transactional: bool
    topic: str
    rate: float | None
    last_ms: int


class Producers:
    """Remembers the last reading of each producer, for rates. Owned by the event loop."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, str], tuple[float, int]] = {}
        self._rates: dict[tuple[int, str], float] = {}

    async def of(self, client: ClusterClient, topics: Iterable[Topic]) -> list[Producer]:
        """Empty for topics whose producers the user may not see."""
        states = await _states(client, list(topics))
        names = await _transactional_ids(client)
        now_s, found = time.monotonic(), []
        for (producer, topic), (sequence, last_ms) in sorted(states.items()):
            name = names.get(producer)
            rate = self._rate((producer, topic), now_s, sequence)
            if time.time() * 1000 - last_ms <= RECENT_MS or name is not None:
                found.append(Producer(name or f"producer {producer}", name is not None, topic, rate, last_ms))
        return found

    def _rate(self, key: tuple[int, str], now_s: float, sequence: int) -> float | None:
        before = self._seen.get(key)
        if before is None:
            self._seen[key] = now_s, sequence
        elif now_s - before[0] >= _SHORTEST_S:
            # Sequence numbers begin again at 0 after the largest. A new epoch of a producer starts there, too.
            grown = sequence - before[1]
            grown = grown if grown >= 0 else sequence if before[1] < _SEQUENCES // 2 else grown + _SEQUENCES
            self._rates[key] = grown / (now_s - before[0])
            self._seen[key] = now_s, sequence
        return self._rates.get(key)


async def _transactional_ids(client: ClusterClient) -> Mapping[int, str]:
    try:
        return {one.producer: one.id for one in await transactions(client)}
    except Fault:
        return {}


async def _states(client: ClusterClient, topics: list[Topic]) -> dict[tuple[int, str], tuple[int, int]]:
    """(producer id, topic) → (records as its sequence numbers count them, time of the last one)."""
    by_node: dict[int, dict[str, list[int]]] = {}
    for partition, node in list(partitions_of(topics).items())[:_MOST_PARTITIONS]:
        if node >= 0:
            by_node.setdefault(node, {}).setdefault(partition.topic, []).append(partition.partition)

    async def ask(node: int, wanted: Mapping[str, list[int]]) -> dict[tuple[int, str], tuple[int, int]]:
        body = {"topics": [{"name": name, "partition_indexes": parts} for name, parts in wanted.items()]}
        try:
            answer = await client.request(ApiKey.DESCRIBE_PRODUCERS, body, node=node)
        except Fault:
            return {}
        found: dict[tuple[int, str], tuple[int, int]] = {}
        for topic in answer.topics:
            for part in topic.partitions:
                for state in part.active_producers if not part.error_code else ():
                    key = int(state.producer_id), str(topic.name)
                    sequence, last_ms = found.get(key, (0, 0))
                    found[key] = (
                        sequence + max(0, int(state.last_sequence) + 1),
                        max(last_ms, int(state.last_timestamp)),
                    )
        return found

    states: dict[tuple[int, str], tuple[int, int]] = {}
    for some in await asyncio.gather(*(ask(node, wanted) for node, wanted in by_node.items())):
        for key, (sequence, last_ms) in some.items():
            before = states.get(key, (0, 0))
            states[key] = before[0] + sequence, max(before[1], last_ms)
    return states
