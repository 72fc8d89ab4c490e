"""What the view knows about the cluster at one moment, and how it is read: a fixed number of requests to each broker,
whatever the number of topics and groups."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from headrace.client.blocking.client import BlockingClient
from headrace.client.cluster_client import ClusterClient
from headrace.client.security import ClientSecurity
from headrace.console.cluster import groups
from headrace.console.cluster.facts import ClusterFacts, read_facts
from headrace.console.cluster.offsets import Span, committed_by_group, lag_of, spans
from headrace.console.cluster.pipelines import Flow, FlowReports
from headrace.console.cluster.samples import Samples
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import Fault
from headrace.kernel.ids import TopicPartition

_CLIENT_ID = "headrace-top"


@dataclass(frozen=True, slots=True)
class GroupFacts:
    lag: int | None
    topics: int | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    facts: ClusterFacts
    spans: Mapping[TopicPartition, Span]
    groups: Mapping[str, GroupFacts]
    readers: Mapping[str, tuple[str, ...]]
    """Topic → groups with a committed offset in it."""
    flows: Mapping[str, Flow]
    samples: Samples

    def records(self, topic: str) -> int | None:
        """None if a leader does not answer."""
        own = [
            self.spans.get(TopicPartition(topic, partition.index)) for partition in self.facts.topics[topic].partitions
        ]
        return sum(end - first for first, end in filter(None, own)) if all(own) else None


class Watch:
    """Reads snapshots. Owned by the event loop."""

    def __init__(self, bootstrap: str, security: ClientSecurity | None, timeout_s: float) -> None:
        self.bootstrap = bootstrap
        self._security = security
        self._timeout_s = timeout_s
        self._samples = Samples()
        self._reports = FlowReports()
        self.client = ClusterClient(bootstrap, client_id=_CLIENT_ID, timeout=timeout_s, security=security)

    async def read(self) -> Snapshot:
        """Raises Fault if the cluster does not answer."""
        facts = await read_facts(self.client, time.time())
        held, committed, flows = await asyncio.gather(
            spans(self.client, list(facts.topics.values())),
            committed_by_group(self.client, facts.groups.values()),
            asyncio.to_thread(self._flows),
        )
        now_s = time.time()
        self._samples.add_ends(now_s, {partition: end for partition, (_, end) in held.items()})
        by_topic: dict[str, dict[TopicPartition, Span]] = {}
        for partition, span in held.items():
            by_topic.setdefault(partition.topic, {})[partition] = span
        found, readers = {}, dict[str, list[str]]()
        for name in facts.groups:
            positions = committed.get(name)
            topics = {partition.topic for partition in positions or ()}
            own = {p: s for topic in topics for p, s in by_topic.get(topic, {}).items()}
            lag = None if positions is None else lag_of(positions, own)
            found[name] = GroupFacts(lag, None if positions is None else len(topics))
            for topic in topics:
                readers.setdefault(topic, []).append(name)
        self._samples.add_lags(now_s, {name: one.lag for name, one in found.items()})
        return Snapshot(
            facts, held, found, {topic: tuple(sorted(names)) for topic, names in readers.items()}, flows, self._samples
        )

    def _flows(self) -> dict[str, Flow]:
        try:
            with BlockingClient(
                self.bootstrap, client_id=_CLIENT_ID, timeout_s=self._timeout_s, patience_s=self._timeout_s,
                security=self._security,
            ) as client:  # fmt: skip
                return self._reports.read(client)
        except Fault:
            return {}  # without the right to read the topic there are no flows to show

    async def positions(
        self, snapshot: Snapshot, group: str
    ) -> tuple[groups.Description | None, list[groups.Position], str]:
        """Members and positions of a group, or the reason why they are unknown."""
        listed = snapshot.facts.groups.get(group)
        if listed is None:
            return None, [], f"group {group} does not exist any more"
        try:
            described = await groups.describe(self.client, listed)
            rows = await groups.positions(self.client, snapshot.facts, listed, described.members)
        except Fault as fault:
            return None, [], fault.message or fault.code.name
        return described, rows, ""

    async def close(self) -> None:
        await self.client.close()
