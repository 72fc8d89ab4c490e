"""The list of topics, and one topic: partitions, configuration, readers."""

from __future__ import annotations

import asyncio

from headrace.console.cluster.configs import TOPIC, ConfigEntry, describe, values
from headrace.console.cluster.facts import Partition, Topic
from headrace.console.cluster.offsets import Span, committed_by_group, lag_of, spans
from headrace.console.cluster.pipelines import Flow
from headrace.console.core.listing import Listing, Wanted, listing
from headrace.console.pages.pipelines import flows_of
from headrace.console.rendering import View
from headrace.console.visit import Visit
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import Fault
from headrace.kernel.ids import TopicPartition

_KEYS = ("retention.ms", "cleanup.policy")


@dataclass(frozen=True, slots=True)
class TopicRow:
    name: str
    internal: bool
    partitions: int
    replicas: int
    health: str
    size: int | None
    rate: float | None
    records: int | None = None
    retention_ms: int | None = None
    cleanup: str = ""


@dataclass(frozen=True, slots=True)
class PartitionRow:
    index: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    epoch: int
    first: int | None
    end: int | None
    health: str


@dataclass(frozen=True, slots=True)
class Reader:
    group: str
    type: str
    state: str
    lag: int | None


async def topics(visit: Visit) -> View:
    facts, samples = await visit.cluster.facts(), visit.cluster.samples
    internal = visit.query.get("internal") == "1"
    rows = [
        TopicRow(
            topic.name, topic.internal, len(topic.partitions), topic.replicas, topic.health, topic.size,
            samples.rate_of(topic.name),
        )
        for topic in facts.topics.values()
        if internal or not topic.internal
    ]  # fmt: skip
    columns = {
        "partitions": lambda row: row.partitions,
        "replicas": lambda row: row.replicas,
        "size": lambda row: row.size,
        "rate": lambda row: row.rate,
        "health": lambda row: row.health,
    }
    page = listing(rows, Wanted.of(visit.query, "name"), columns, lambda row: row.name)
    shown = [facts.topics[row.name] for row in page.rows]
    # Offsets and configuration only of the rows on this page: two requests to each broker, and one.
    held, configs = await asyncio.gather(visit.cluster.spans(shown), _configs(visit, shown))
    full = [_with_details(row, facts.topics[row.name], held, configs.get(row.name, {})) for row in page.rows]
    return View(
        "topics.html",
        "Topics",
        {
            "topics": Listing(full, page.total, page.page, page.pages, page.wanted),
            "internal": internal,
            "hidden": sum(topic.internal for topic in facts.topics.values()),
            "exist": bool(facts.topics),
        },
        section="topics",
    )


async def _configs(visit: Visit, shown: list[Topic]) -> dict[str, dict[str, str]]:
    try:
        return await values(visit.cluster.client, (topic.name for topic in shown), _KEYS)
    except Fault:  # the right to describe configurations is not the right to list topics
        return {}


def _with_details(row: TopicRow, topic: Topic, held: dict[TopicPartition, Span], configs: dict[str, str]) -> TopicRow:
    own = [held.get(TopicPartition(topic.name, partition.index)) for partition in topic.partitions]
    retention = configs.get("retention.ms", "")
    return TopicRow(
        row.name, row.internal, row.partitions, row.replicas, row.health, row.size, row.rate,
        sum(span[1] - span[0] for span in own if span is not None) if any(own) else None,
        int(retention) if retention.lstrip("-").isdecimal() else None,
        configs.get("cleanup.policy", ""),
    )  # fmt: skip


async def topic(visit: Visit) -> View:
    found = await visit.cluster.topic(visit.path("topic"))
    client = visit.cluster.client
    held, configs, reading, producers, flows = await asyncio.gather(
        spans(client, [found]), _configuration(visit, found.name), readers(visit, found),
        visit.cluster.producers.of(client, [found]), _flows(visit),
    )  # fmt: skip
    rows = [_partition_row(found.name, partition, held) for partition in found.partitions]
    series = visit.cluster.samples.written.get(found.name)
    times, rates = series.rates() if series is not None else ([], [])
    return View(
        "topic.html",
        found.name,
        {
            "topic": found,
            "partitions": rows,
            "records": sum(row.end - row.first for row in rows if row.end is not None and row.first is not None),
            "rate": visit.cluster.samples.rate_of(found.name),
            "throughput": {"times": times, "values": rates},
            "configs": configs,
            "changed": [entry for entry in configs or () if entry.is_set],
            "readers": reading,
            "producers": producers,
            "flows_that_read": sorted(name for name, flow in flows.items() if found.name in flow.topics),
            "flows_that_write": sorted(
                name
                for name, flow in flows.items()
                if flow.last.target is not None
                and (flow.last.target.kind, flow.last.target.name) == ("topic", found.name)
            ),
            "all_configs": visit.query.get("configs") == "all",
        },
        section="topics",
    )


async def _flows(visit: Visit) -> dict[str, Flow]:
    try:
        return await flows_of(visit)
    except Fault:  # the right to this topic is not the right to the reports of pipelines
        return {}


def _partition_row(topic: str, partition: Partition, held: dict[TopicPartition, Span]) -> PartitionRow:
    span = held.get(TopicPartition(topic, partition.index))
    first, end = span if span is not None else (None, None)
    return PartitionRow(
        partition.index, partition.leader, partition.replicas, partition.isr, partition.epoch, first, end,
        partition.health,
    )  # fmt: skip


async def _configuration(visit: Visit, name: str) -> list[ConfigEntry] | None:
    try:
        return await describe(visit.cluster.client, TOPIC, name)
    except Fault:
        return None


async def readers(visit: Visit, topic: Topic) -> list[Reader]:
    """Groups with a committed offset in the topic, the largest lag first."""
    facts = await visit.cluster.facts()
    client = visit.cluster.client
    positions, held = await asyncio.gather(committed_by_group(client, facts.groups.values()), spans(client, [topic]))
    found = []
    for name, committed in positions.items():
        own = {partition: offset for partition, offset in committed.items() if partition.topic == topic.name}
        if own:
            group = facts.groups[name]
            found.append(Reader(name, group.type, group.state, lag_of(own, held)))
    return sorted(found, key=lambda reader: (-(reader.lag or 0), reader.group))
