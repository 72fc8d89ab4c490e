"""Finds partitions without a leader or with too few in-sync replicas: missing replicas, since when, remedy.

Partitions that lack the same brokers are one finding, so a dead broker gives one line, not one per partition. The
details of a finding name the partitions.

The leader knows since when a replica is missing and answers DescribeQuorum for its partitions. Kafka's brokers do not
answer it for ordinary partitions; then the finding has no time.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.cli.checks.findings import Finding, State, since, together, well
from headrace.cli.cluster import UnhealthyPartition, unhealthy_partitions
from headrace.cli.support.connection import existing_topics
from headrace.client.cluster_client import ClusterClient
from headrace.kernel.errors import Fault
from headrace.kernel.plurals import counted
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.answers.describe_quorum import PartitionData as DescribeQuorumPartition
    from headrace.wire.messages.answers.metadata import MetadataResponseTopic

_NAME: Final = "replicas"
_NAMED_TOPICS: Final = 3


@dataclass(frozen=True, slots=True)
class OutOfSync:
    """The leader's knowledge about a replica: since when it is out of sync, or since when the leader leads."""

    since_ms: int | None
    led_since_ms: int
    records_behind: int | None


@dataclass(frozen=True, slots=True)
class Lacking:
    """One partition that lacks replicas. `known` is empty if the leader does not report it."""

    partition: str
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    min_isr: int
    known: dict[int, OutOfSync]

    @property
    def topic(self) -> str:
        return self.partition.rpartition("-")[0]

    @property
    def missing(self) -> tuple[int, ...]:
        """Without a leader the last in-sync replicas are missing: one of them has to restart."""
        return self.isr or self.replicas if self.leader is None else tuple(sorted(set(self.replicas) - set(self.isr)))

    @property
    def kind(self) -> tuple[object, ...]:
        """Partitions of the same kind are one finding."""
        refuses = len(self.isr) < self.min_isr
        return self.leader is None, refuses, (len(self.isr), self.min_isr) if refuses else None, self.missing


async def replicas(client: ClusterClient) -> list[Finding]:
    topics = {str(t.name): t for t in await existing_topics(client, None)}
    least = await _min_isr(client, list(topics))
    rows = await unhealthy_partitions(client)
    known = await _known(client, rows)
    kinds: dict[tuple[object, ...], list[Lacking]] = {}
    for row in rows:
        one = Lacking(
            row["partition"], row["leader"], tuple(row["replicas"]), tuple(row["isr"]),
            least.get(row["partition"].rpartition("-")[0], 1), known.get(row["partition"], {}),
        )  # fmt: skip
        kinds.setdefault(one.kind, []).append(one)
    now_ms = int(time.time() * 1000)
    findings = [_lacking(some, set(client.metadata.nodes), now_ms) for some in kinds.values()]
    findings += _too_few_replicas(topics, least)
    findings.sort(key=lambda finding: finding.state is not State.FAIL)
    total = sum(len(t.partitions) for t in topics.values())
    return findings or well(_NAME, f"{counted(total, 'partition')}, all in sync")


def _lacking(some: Sequence[Lacking], live: set[int], now_ms: int) -> Finding:
    """One finding for partitions that lack the same brokers."""
    first = some[0]
    down = [broker for broker in first.missing if broker not in live]
    remedy = f"start {_brokers(down)}" if down else f"look at the log and disk of {_brokers(first.missing)}"
    details = tuple(sorted(f"{one.partition}: {_state_of(one, live, now_ms)}" for one in some))
    state = State.WARN if first.leader is not None and len(first.isr) >= first.min_isr else State.FAIL
    if len(some) == 1:
        found = f"{first.partition} {_state_of(first, live, now_ms)}"
        return Finding(_NAME, state, found, remedy, about=("topic", first.topic))
    topics = Counter(one.topic for one in some)
    named = [f"{topic} ({count})" for topic, count in sorted(topics.items())[:_NAMED_TOPICS]]
    others = len(topics) - len(named)
    where = together([*named, *([counted(others, "other topic")] if others else [])])
    found = f"{counted(len(some), 'partition')} {_state_of_many(some, live, now_ms)}: {where}"
    return Finding(_NAME, state, found, remedy, details, ("topic", min(topics)))


def _state_of(one: Lacking, live: set[int], now_ms: int) -> str:
    if one.leader is None:
        return f"has no leader: {_brokers(one.missing)} {'are' if len(one.missing) > 1 else 'is'} down"
    out = "; ".join(_broker_state(broker, one, live, now_ms) for broker in one.missing)
    return f"{_acks(one, 'has', 'lacks')}: {out}"


def _broker_state(broker: int, one: Lacking, live: set[int], now_ms: int) -> str:
    text = f"broker {broker} is {'out of sync' if broker in live else 'down, out of sync'}"
    found = one.known.get(broker)
    if found is None:
        return text
    if found.since_ms is not None:
        text += f" since {since(found.since_ms, now_ms)}"
    else:
        text += f" at least since broker {one.leader} took the lead at {since(found.led_since_ms, now_ms)}"
    return text if found.records_behind is None else f"{text}, {counted(found.records_behind, 'record')} behind"


def _state_of_many(some: Sequence[Lacking], live: set[int], now_ms: int) -> str:
    first = some[0]
    if first.leader is None:
        return f"have no leader, because {_brokers(first.missing)} {'are' if len(first.missing) > 1 else 'is'} down"
    parts = []
    for broker in first.missing:
        known = [one.known[broker] for one in some if broker in one.known]
        times = [found.since_ms if found.since_ms is not None else found.led_since_ms for found in known]
        began = f" since {since(min(times), now_ms)}" if times else ""
        parts.append(f"broker {broker} is {'out of sync' if broker in live else 'down'}{began}")
    return f"{_acks(first, 'have', 'lack')}, because {together(parts)}"


def _acks(one: Lacking, has: str, lacks: str) -> str:
    if len(one.isr) >= one.min_isr:
        return f"{lacks} in-sync replicas"
    count = counted(len(one.isr), "in-sync replica")
    return f"{has} {count}, min.insync.replicas is {one.min_isr}, so acks=all is refused"


def _brokers(ids: Sequence[int]) -> str:
    return f"broker{'s' if len(ids) > 1 else ''} {together([str(broker) for broker in ids])}"


def _too_few_replicas(topics: dict[str, MetadataResponseTopic], least: dict[str, int]) -> list[Finding]:
    found = {
        name: factor
        for name, topic in sorted(topics.items())
        if (factor := min((len(p.replica_nodes) for p in topic.partitions), default=0)) < least.get(name, 1)
    }
    told = [
        f"{name} has {counted(factor, 'replica')} and asks for {least[name]} in sync: acks=all can never succeed"
        for name, factor in found.items()
    ]
    if not found:
        return []
    if len(found) == 1:
        name, factor = next(iter(found.items()))
        remedy = f"headrace configs set topic/{name} min.insync.replicas={max(1, factor)}, or give it more replicas"
        return [Finding(_NAME, State.FAIL, told[0], remedy, about=("topic", name))]
    return [
        Finding(
            _NAME,
            State.FAIL,
            f"{counted(len(found), 'topic')} ask for more in-sync replicas than they have replicas: "
            "acks=all can never succeed",
            "give them more replicas, or lower min.insync.replicas (headrace configs set topic/NAME …) of each",
            tuple(told),
            ("topic", next(iter(found))),
        )
    ]


async def _known(client: ClusterClient, rows: Sequence[UnhealthyPartition]) -> dict[str, dict[int, OutOfSync]]:
    """Knowledge of the leaders by partition and broker. One request per leader."""
    led: dict[int, dict[str, list[dict[str, int]]]] = {}
    for row in rows:
        if row["leader"] is not None:
            topic, _, index = row["partition"].rpartition("-")
            led.setdefault(row["leader"], {}).setdefault(topic, []).append({"partition_index": int(index)})
    missing = {row["partition"]: row["missing"] for row in rows}
    found: dict[str, dict[int, OutOfSync]] = {}
    for leader, topics in led.items():
        body = {"topics": [{"topic_name": name, "partitions": parts} for name, parts in topics.items()]}
        try:
            answer = await client.request(ApiKey.DESCRIBE_QUORUM, body, node=leader)
        except (Fault, TimeoutError):
            continue
        for topic in answer.topics if not answer.error_code else ():
            for part in topic.partitions:
                if not part.error_code:
                    name = f"{topic.topic_name}-{part.partition_index}"
                    found[name] = _out_of_sync(part, leader, missing[name])
    return found


def _out_of_sync(part: DescribeQuorumPartition, leader: int, missing: Sequence[int]) -> dict[int, OutOfSync]:
    states = {int(state.replica_id): state for state in (*part.current_voters, *part.observers)}
    ahead = states[leader]
    found = {}
    for broker in missing:
        state = states.get(broker)
        if state is not None:
            caught_up = int(state.last_caught_up_timestamp)
            behind = max(0, ahead.log_end_offset - state.log_end_offset) if state.log_end_offset >= 0 else None
            found[broker] = OutOfSync(caught_up if caught_up > 0 else None, int(ahead.last_fetch_timestamp), behind)
    return found


async def _min_isr(client: ClusterClient, names: list[str]) -> dict[str, int]:
    if not names:
        return {}
    keys = ["min.insync.replicas"]
    resources = [{"resource_type": 2, "resource_name": name, "configuration_keys": keys} for name in names]
    body = {"resources": resources, "include_synonyms": False, "include_documentation": False}
    answer = await client.request(ApiKey.DESCRIBE_CONFIGS, body)
    return {str(r.resource_name): int(r.configs[0].value) for r in answer.results if r.configs}
