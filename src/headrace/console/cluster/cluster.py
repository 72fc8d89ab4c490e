"""One cluster as one user sees it: a client with the user's rights, the last facts, and samples over time.

A page reads the facts of a small cluster anew. For a large one this takes longer than a person should wait, so its
pages show the last reading while the next one runs, in a thread with a client of its own: decoding the answers about
ten thousand partitions would stop the event loop for half a second. A change forgets what is kept, so that the next
page shows its effect.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from headrace.client.blocking.client import BlockingClient
from headrace.client.cluster_client import ClusterClient
from headrace.console.cluster import notebook
from headrace.console.cluster.doctor import Doctor
from headrace.console.cluster.facts import ClusterFacts, ListedGroup, Topic, read_facts
from headrace.console.cluster.offsets import Span, committed_by_group, lag_of, spans
from headrace.console.cluster.pipelines import FlowReports
from headrace.console.cluster.producers import Producers
from headrace.console.cluster.recent_changes import RecentChanges
from headrace.console.cluster.samples import IDLE_S, INTERVAL_S, REST_FACTOR, Samples
from headrace.console.core.lag_history import SLOT_S, history, slot_document, slot_key, slot_of
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
# Offsets of the topics of a page of a large cluster are asked again after this time.
_KEPT_S: Final = 5.0
_GROUPS_AT_A_STRETCH: Final = 200
# The first round of samples of a large cluster waits until the first pages are shown.
_FIRST_SAMPLE_S: Final = 3.0
T = TypeVar("T")


class Cluster:
    def __init__(
        self, address: ClusterAddress, client: ClusterClient, principal: str, *, keeps_history: bool = False
    ) -> None:
        """`keeps_history`: the lag is sampled without visitors, too, and written to the cluster."""
        self.principal = principal
        self._keeps_history = keeps_history
        self.name = address.name
        self.address = address
        self.client = client
        self.registry = _registry(address, client)
        self.decoder = None if self.registry is None else RecordDecoder(self.registry)
        self.samples = Samples()
        self.flow_reports = FlowReports()
        self.producers = Producers()
        self.recent_changes = RecentChanges()
        self.doctor = Doctor(address.brokers.bootstrap, client.security)
        self._facts: ClusterFacts | None = None
        self._reading = asyncio.Lock()
        self._refresh: asyncio.Task[None] | None = None
        self._sampler: asyncio.Task[None] | None = None
        self._visited_s = 0.0
        self._slot: int | None = None
        self._visited = asyncio.Event()
        self._held: dict[str, tuple[float, dict[TopicPartition, Span]]] = {}
        self._committed: dict[str, tuple[float, dict[TopicPartition, int]]] = {}

    async def facts(self, *, fresh: bool = False) -> ClusterFacts:
        """Raises Fault if the cluster does not answer."""
        self._visited_s = time.monotonic()
        self._visited.set()
        known = self._facts
        if fresh or known is None or not is_large(known) or time.time() - known.at_s > _OLDEST_S:
            known = await self._read(self.client)
        elif time.time() - known.at_s > _FRESH_S and (self._refresh is None or self._refresh.done()):
            self._refresh = asyncio.create_task(self._read_quietly())
        if self._sampler is None or self._sampler.done():
            self._sampler = asyncio.create_task(self._sample())
        return known

    async def _read(self, client: ClusterClient) -> ClusterFacts:
        asked_s = time.time()
        async with self._reading:
            known = self._facts
            # A reading that began after this question answers it, too.
            if known is None or known.at_s < asked_s:
                known = self._take(await read_facts(client, time.time()))
            return known

    def _take(self, facts: ClusterFacts) -> ClusterFacts:
        self._facts = facts
        self.recent_changes.see(facts)
        return facts

    async def spans(self, topics: Sequence[Topic]) -> dict[TopicPartition, Span]:
        """First offset and end of each partition whose leader answers; of a large cluster, some seconds old."""
        if self._facts is None or not is_large(self._facts):
            return await spans(self.client, topics)
        now_s = time.monotonic()
        self._held = {name: kept for name, kept in self._held.items() if now_s - kept[0] < _KEPT_S}
        missing = [topic for topic in topics if topic.name not in self._held]
        if missing:
            by_topic: dict[str, dict[TopicPartition, Span]] = {topic.name: {} for topic in missing}
            for partition, span in (await spans(self.client, missing)).items():
                by_topic[partition.topic][partition] = span
            self._held |= {name: (now_s, found) for name, found in by_topic.items()}
        return {place: span for topic in topics for place, span in self._held[topic.name][1].items()}

    async def committed(self, groups: Sequence[ListedGroup]) -> dict[str, dict[TopicPartition, int]]:
        """Committed offsets by group; of a large cluster, some seconds old."""
        if self._facts is None or not is_large(self._facts):
            return await committed_by_group(self.client, groups)
        now_s = time.monotonic()
        self._committed = {name: kept for name, kept in self._committed.items() if now_s - kept[0] < _KEPT_S}
        missing = [group for group in groups if group.id not in self._committed]
        if missing:
            found = await committed_by_group(self.client, missing)
            self._committed |= {name: (now_s, positions) for name, positions in found.items()}
        return {group.id: self._committed[group.id][1] for group in groups if group.id in self._committed}

    async def _read_quietly(self) -> None:
        try:
            async with self._reading:
                self._take(await self._in_thread(lambda client: read_facts(client, time.time())))
        except (Fault, TimeoutError):
            pass  # the next page that needs the facts reports it

    def blocking(self) -> BlockingClient:
        """A client for a thread, with connections of its own and the same rights."""
        return BlockingClient(
            self.address.brokers.bootstrap, client_id="headrace-console", timeout_s=self.client.timeout,
            patience_s=self.client.timeout, security=self.client.security,
        )  # fmt: skip

    async def _in_thread(self, work: Callable[[ClusterClient], Awaitable[T]]) -> T:
        """Runs the work on an event loop in a thread, with a client that has the same rights."""

        async def run() -> T:
            async with ClusterClient(
                self.address.brokers.bootstrap, client_id="headrace-console", timeout=self.client.timeout,
                security=self.client.security,
            ) as client:  # fmt: skip
                return await work(client)

        return await asyncio.to_thread(lambda: asyncio.run(run()))

    def forget(self) -> None:
        """After a change: the next page reads again."""
        self._facts = None
        self._held, self._committed = {}, {}

    async def topic(self, name: str) -> Topic:
        """Raises Refused if there is none. Reads again before it says so."""
        topic = (await self.facts()).topics.get(name) or (await self.facts(fresh=True)).topics.get(name)
        if topic is None:
            raise Refused(ErrorCode.unknown_topic_or_partition, f"topic {name!r} does not exist")
        return topic

    async def _sample(self) -> None:
        if self._facts is not None and is_large(self._facts):
            await asyncio.sleep(_FIRST_SAMPLE_S)
        while self._keeps_history or time.monotonic() - self._visited_s < IDLE_S:
            # Processor time: a round that waits for a busy machine or a slow broker costs nothing.
            began = time.process_time()
            try:
                await self._round()
            except (Fault, TimeoutError):
                pass  # the pages say that the cluster does not answer; the sampler tries again
            is_idle = time.monotonic() - self._visited_s >= IDLE_S
            rest_s = max(INTERVAL_S, REST_FACTOR * (time.process_time() - began))
            self._visited.clear()
            # A page ends the long rest.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._visited.wait() if is_idle else asyncio.sleep(rest_s), SLOT_S)

    async def _round(self) -> None:
        in_thread = self._facts is not None and is_large(self._facts)
        facts, found, committed = await (self._in_thread(_whole) if in_thread else _whole(self.client))
        self._take(facts)
        now_s = time.time()
        self.samples.add_ends(now_s, {partition: end for partition, (_, end) in found.items()})
        by_topic: dict[str, dict[TopicPartition, Span]] = {}
        for partition, span in found.items():
            by_topic.setdefault(partition.topic, {})[partition] = span
        lags = {}
        reads: dict[tuple[str, str], int] = {}
        for at, group in enumerate(facts.groups, start=1):
            positions = committed.get(group)
            if at % _GROUPS_AT_A_STRETCH == 0:
                await asyncio.sleep(0)
            if positions is None:
                continue
            for partition, offset in positions.items():
                reads[group, partition.topic] = reads.get((group, partition.topic), 0) + offset
            topics = {partition.topic for partition in positions}
            lags[group] = lag_of(positions, {p: s for topic in topics for p, s in by_topic.get(topic, {}).items()})
        self.samples.add_lags(now_s, lags)
        self.samples.add_reads(now_s, reads)
        await self._remember(now_s, {group: lag for group, lag in lags.items() if lag is not None})

    async def _remember(self, now_s: float, lags: dict[str, int]) -> None:
        """Writes the lag of this moment once in a slot; at first reads what earlier consoles wrote."""
        if self._slot == slot_of(now_s) or not lags:
            return
        is_first, self._slot = self._slot is None, slot_of(now_s)

        def exchange() -> dict[str, list[tuple[float, int]]]:
            with self.blocking() as client:
                known = history(notebook.read(client, f"lag/{self.principal}/"), now_s) if is_first else {}
                if self._keeps_history:
                    notebook.write(client, slot_key(self.principal, slot_of(now_s)), slot_document(now_s, lags))
            return known

        try:
            self.samples.seed_lags(await asyncio.to_thread(exchange))
        except Fault:
            pass  # the user may not use the topic: the history is that of this process

    async def close(self) -> None:
        tasks = [task for task in (self._sampler, self._refresh) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.doctor.close()
        await self.client.close()


async def _whole(
    client: ClusterClient,
) -> tuple[ClusterFacts, dict[TopicPartition, Span], dict[str, dict[TopicPartition, int]]]:
    """Everything that a sample needs."""
    facts = await read_facts(client, time.time())
    found = await spans(client, list(facts.topics.values()))
    return facts, found, await committed_by_group(client, facts.groups.values())


def _registry(address: ClusterAddress, client: ClusterClient) -> RegistryClient | None:
    """The registry knows the same user as the brokers."""
    if address.registry is None:
        return None
    return registry_client(address.registry, client.security, timeout_s=client.timeout)


def is_large(facts: ClusterFacts) -> bool:
    return facts.partitions + len(facts.groups) > _LARGE
