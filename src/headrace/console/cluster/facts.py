"""Facts about a whole cluster: a fixed number of questions, whatever the number of topics and groups.

Metadata and DescribeCluster go to one broker; DescribeLogDirs and ListGroups to every broker at the same time. A broker
that does not answer leaves its part empty, and `silent` names it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from headrace.client.cluster_client import ClusterClient, Node
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault
from headrace.kernel.ids import INTERNAL_TOPICS, ZERO_UUID, uuid_to_text
from headrace.wire.apis import ApiKey
from headrace.wire.entities import Entity

HEALTHY, UNDER_REPLICATED, OFFLINE = "healthy", "under-replicated", "offline"


@dataclass(frozen=True, slots=True)
class Partition:
    index: int
    leader: int | None
    epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]

    @property
    def health(self) -> str:
        if self.leader is None:
            return OFFLINE
        return UNDER_REPLICATED if len(self.isr) < len(self.replicas) else HEALTHY


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    id: str
    internal: bool
    partitions: tuple[Partition, ...]
    size: int | None
    under_replicated: int
    offline: int

    @property
    def replicas(self) -> int:
        return max((len(partition.replicas) for partition in self.partitions), default=0)

    @property
    def health(self) -> str:
        return OFFLINE if self.offline else UNDER_REPLICATED if self.under_replicated else HEALTHY


@dataclass(frozen=True, slots=True)
class Broker:
    id: int
    address: str
    rack: str | None
    controller: bool
    up: bool
    leads: int
    replicas: int
    in_sync: int


@dataclass(frozen=True, slots=True)
class LogDirectory:
    broker: int
    path: str
    partitions: int
    held: int
    total: int | None
    free: int | None
    error: str | None


@dataclass(frozen=True, slots=True)
class ListedGroup:
    id: str
    type: str
    state: str
    protocol: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    cluster_id: str | None
    brokers: tuple[Broker, ...]
    topics: Mapping[str, Topic]
    directories: tuple[LogDirectory, ...]
    groups: Mapping[str, ListedGroup]
    group_states: tuple[str, ...]
    silent: tuple[str, ...]
    at_s: float

    @property
    def partitions(self) -> int:
        return sum(len(topic.partitions) for topic in self.topics.values())

    @property
    def under_replicated(self) -> int:
        return sum(topic.under_replicated for topic in self.topics.values())

    @property
    def offline(self) -> int:
        return sum(topic.offline for topic in self.topics.values())


async def read_facts(client: ClusterClient, now_s: float) -> ClusterFacts:
    """Raises Fault if no broker answers."""
    metadata = await client.refresh(None)
    nodes = dict(metadata.nodes)
    topics = list(metadata.topics.values())
    silent: dict[str, None] = {}

    async def ask(node: int, api_key: int, body: Mapping[str, object]) -> Entity:
        try:
            return await client.request(api_key, body, node=node)
        except Fault as fault:
            silent[f"broker {node}: {fault.message or fault.code.name}"] = None
            return None

    groups_body: dict[str, list[str]] = {"states_filter": [], "types_filter": []}
    fenced, *answers = await asyncio.gather(
        _fenced(client),
        *(ask(node, ApiKey.DESCRIBE_LOG_DIRS, {"topics": None}) for node in nodes),
        *(ask(node, ApiKey.LIST_GROUPS, groups_body) for node in nodes),
    )
    logs = dict(zip(nodes, answers[: len(nodes)], strict=True))
    listed = dict(zip(nodes, answers[len(nodes) :], strict=True))
    directories, sizes = _directories(logs)
    found = {str(topic.name): _topic(topic, sizes) for topic in topics if not topic.error_code}
    groups = _groups(listed)
    return ClusterFacts(
        metadata.cluster_id,
        _brokers(nodes, fenced, metadata.controller_id, found),
        dict(sorted(found.items())),
        directories,
        groups,
        tuple(sorted({group.state for group in groups.values()})),
        tuple(silent),
        now_s,
    )


async def _fenced(client: ClusterClient) -> dict[int, Node]:
    """Brokers that are registered but not running; empty if the cluster does not report them."""
    body = {"include_cluster_authorized_operations": False, "endpoint_type": 1, "include_fenced_brokers": True}
    try:
        found = await client.request(ApiKey.DESCRIBE_CLUSTER, body)
    except Fault:
        return {}
    fenced = [one for one in found.brokers if getattr(one, "is_fenced", False)]
    return {int(one.broker_id): Node(int(one.broker_id), str(one.host), int(one.port), one.rack) for one in fenced}


def _topic(topic: Entity, sizes: Mapping[str, int]) -> Topic:
    partitions = tuple(
        sorted(
            (
                Partition(
                    int(p.partition_index), int(p.leader_id) if p.leader_id >= 0 else None, int(p.leader_epoch),
                    tuple(map(int, p.replica_nodes)), tuple(map(int, p.isr_nodes)),
                )
                for p in topic.partitions
            ),
            key=lambda partition: partition.index,
        )
    )  # fmt: skip
    name = str(topic.name)
    return Topic(
        name,
        uuid_to_text(topic.topic_id or ZERO_UUID),
        bool(topic.is_internal) or name in INTERNAL_TOPICS or name.startswith("_"),
        partitions,
        sizes.get(name),
        sum(partition.health == UNDER_REPLICATED for partition in partitions),
        sum(partition.health == OFFLINE for partition in partitions),
    )


def _brokers(
    nodes: Mapping[int, Node], fenced: Mapping[int, Node], controller: int, topics: Mapping[str, Topic]
) -> tuple[Broker, ...]:
    leads: dict[int, int] = {}
    holds: dict[int, int] = {}
    in_sync: dict[int, int] = {}
    for topic in topics.values():
        for partition in topic.partitions:
            if partition.leader is not None:
                leads[partition.leader] = leads.get(partition.leader, 0) + 1
            for node in partition.replicas:
                holds[node] = holds.get(node, 0) + 1
            for node in partition.isr:
                in_sync[node] = in_sync.get(node, 0) + 1
    return tuple(
        Broker(
            node.id, f"{node.host}:{node.port}", node.rack, node.id == controller, node.id in nodes,
            leads.get(node.id, 0), holds.get(node.id, 0), in_sync.get(node.id, 0),
        )
        for node in sorted({**fenced, **nodes}.values(), key=lambda node: node.id)
    )  # fmt: skip


def _directories(answers: Mapping[int, Entity]) -> tuple[tuple[LogDirectory, ...], dict[str, int]]:
    """All log directories, and the bytes of each topic over all replicas."""
    found: list[LogDirectory] = []
    sizes: dict[str, int] = {}
    for node, answer in answers.items():
        for directory in answer.results if answer is not None else ():
            held = partitions = 0
            for topic in directory.topics:
                size = sum(int(p.partition_size) for p in topic.partitions)
                sizes[str(topic.name)] = sizes.get(str(topic.name), 0) + size
                held += size
                partitions += len(topic.partitions)
            total, free = int(getattr(directory, "total_bytes", -1)), int(getattr(directory, "usable_bytes", -1))
            found.append(
                LogDirectory(
                    node, str(directory.log_dir), partitions, held, total if total >= 0 else None,
                    free if free >= 0 else None,
                    ErrorCode(directory.error_code).name if directory.error_code else None,
                )
            )  # fmt: skip
    return tuple(found), sizes


def _groups(answers: Mapping[int, Entity]) -> dict[str, ListedGroup]:
    found = {}
    for node, answer in answers.items():
        for group in answer.groups if answer is not None else ():
            kind = str(getattr(group, "group_type", "classic") or "classic").lower()
            name = str(group.group_id)
            found[name] = ListedGroup(
                name, kind, str(getattr(group, "group_state", "")), str(group.protocol_type), node
            )
    # In the order of names: lists begin with it, and sorting what is in order costs little.
    return dict(sorted(found.items()))


def leaders(topics: Sequence[Topic]) -> dict[tuple[str, int], int]:
    return {
        (topic.name, partition.index): -1 if partition.leader is None else partition.leader
        for topic in topics
        for partition in topic.partitions
    }
