"""One cluster as one user sees it: a client with the user's rights, the last facts, and samples over time.

A page reads the facts of a small cluster anew. For a large one this takes longer than a person should wait, so its
pages show the last reading while the next one runs. A change forgets them, so that the next page shows its effect.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from headrace.client.blocking.client import BlockingClient
from headrace.client.cluster_client import ClusterClient
from headrace.console.cluster.facts import ClusterFacts, Topic, read_facts
from headrace.console.cluster.offsets import Span, committed_by_group, lag_of, spans
from headrace.console.cluster.samples import IDLE_S, INTERVAL_S, REST_FACTOR, Samples
from headrace.console.settings import ClusterAddress
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.kernel.ids import TopicPartition
from headrace.serialization.record_decoder import RecordDecoder
from headrace.serialization.registry_client import RegistryClient
from headrace.serialization.registry_login import registry_client

# Partitions and groups of a large cluster. Reading the facts about so many takes a tenth of a second.
_LARGE: Final = 3000
# A page of a large cluster starts the next reading if the last one is older than this: readings compete with pages.
_FRESH_S: Final = 10.0
# The oldest facts that a page of a large cluster shows.
_OLDEST_S: Final = 30.0


class Cluster:
    def __init__(self, address: ClusterAddress, client: ClusterClient) -> None:
        self.name = address.name
        self.address = address
        self.client = client
        self.registry = _registry(address, client)
        self.decoder = None if self.registry is None else RecordDecoder(self.registry)
        self.samples = Samples()
        self._facts: ClusterFacts | None = None
        self._reading = asyncio.Lock()
        self._refresh: asyncio.Task[None] | None = None
        self._sampler: asyncio.Task[None] | None = None
        self._visited_s = 0.0

    async def facts(self, *, fresh: bool = False) -> ClusterFacts:
        """Raises Fault if the cluster does not answer."""
        self._visited_s = time.monotonic()
        known = self._facts
        if fresh or known is None or not _is_large(known) or time.time() - known.at_s > _OLDEST_S:
            known = await self._read()
        elif time.time() - known.at_s > _FRESH_S and (self._refresh is None or self._refresh.done()):
            self._refresh = asyncio.create_task(self._read_quietly())
        if self._sampler is None or self._sampler.done():
            self._sampler = asyncio.create_task(self._sample())
        return known

    async def _read(self) -> ClusterFacts:
        async with self._reading:
            self._facts = await read_facts(self.client, time.time())
            return self._facts

    async def _read_quietly(self) -> None:
        try:
            await self._read()
        except (Fault, TimeoutError):
            pass  # the next page that needs the facts reports it

    def blocking(self) -> BlockingClient:
        """A client for a thread, with connections of its own and the same rights."""
        return BlockingClient(
            self.address.brokers.bootstrap, client_id="headrace-console", timeout_s=self.client.timeout,
            patience_s=self.client.timeout, security=self.client.security,
        )  # fmt: skip

    def forget(self) -> None:
        """After a change: the next page reads again."""
        self._facts = None

    async def topic(self, name: str) -> Topic:
        """Raises Refused if there is none. Reads again before it says so."""
        topic = (await self.facts()).topics.get(name) or (await self.facts(fresh=True)).topics.get(name)
        if topic is None:
            raise Refused(ErrorCode.unknown_topic_or_partition, f"topic {name!r} does not exist")
        return topic

    async def _sample(self) -> None:
        while time.monotonic() - self._visited_s < IDLE_S:
            began = time.perf_counter()
            try:
                await self._round()
            except (Fault, TimeoutError):
                pass  # the pages say that the cluster does not answer; the sampler tries again
            await asyncio.sleep(max(INTERVAL_S, REST_FACTOR * (time.perf_counter() - began)))

    async def _round(self) -> None:
        facts = await self._read()
        found = await spans(self.client, list(facts.topics.values()))
        now_s = time.time()
        self.samples.add_ends(now_s, {partition: end for partition, (_, end) in found.items()})
        by_topic: dict[str, dict[TopicPartition, Span]] = {}
        for partition, span in found.items():
            by_topic.setdefault(partition.topic, {})[partition] = span
        lags = {}
        for group, positions in (await committed_by_group(self.client, facts.groups.values())).items():
            topics = {partition.topic for partition in positions}
            lags[group] = lag_of(positions, {p: s for topic in topics for p, s in by_topic.get(topic, {}).items()})
        self.samples.add_lags(now_s, lags)

    async def close(self) -> None:
        tasks = [task for task in (self._sampler, self._refresh) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.client.close()


def _registry(address: ClusterAddress, client: ClusterClient) -> RegistryClient | None:
    """The registry knows the same user as the brokers."""
    if address.registry is None:
        return None
    return registry_client(address.registry, client.security, timeout_s=client.timeout)


def _is_large(facts: ClusterFacts) -> bool:
    return facts.partitions + len(facts.groups) > _LARGE
