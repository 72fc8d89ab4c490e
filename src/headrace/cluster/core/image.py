"""The cluster image: everything that brokers agree on, as one immutable value with a version.

A request takes `view.current` once and uses it to its end, so it sees one consistent state. A newer image shares every
unchanged part with the older one, so "did this topic change?" is an identity check (see `delta`).
The mappings are plain dicts for speed; no code may write to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Final
from uuid import UUID

from headrace.cluster.core.losses import NO_LOSSES, Loss, ReplicaLosses
from headrace.kernel.dataclass import dataclass
from headrace.security.acl.model import Entry, ResourcePattern

NO_LEADER: Final = -1

# (entity type, name) pairs in Kafka's order of types; the name None means the default of that type.
QuotaEntity = tuple[tuple[str, str | None], ...]
# ('topic' | 'broker' | 'broker-logger' | 'client-metrics' | 'group' | 'user', name); the cluster-wide broker default
# is ('broker', ''). A 'user' resource has SCRAM credentials (`credentials`); DescribeConfigs never returns them.
ConfigResource = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Endpoint:
    listener: str
    host: str
    port: int
    security_protocol: str


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """A registered broker. `epoch` is the creation id of its registration, so a restarted broker has a new one.
    `fenced`: its session has ended."""

    id: int
    epoch: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    fenced: bool = False
    shutting_down: bool = False
    features: tuple[tuple[str, int, int], ...] = ()  # (name, lowest, highest level) that it supports
    log_dirs: tuple[tuple[str, ...], ...] = ()  # each log directory by its names: as configured, and absolute
    cordoned_log_dirs: tuple[str, ...] = ()  # as its configuration file says; a dynamic value replaces it
    # Id and path of each directory that may have a log of this broker, also of those that were missing at its start.
    directories: tuple[tuple[str, str], ...] = ()
    losses: ReplicaLosses = NO_LOSSES
    # Id of each of `directories` that was missing, and the epoch of the last registration with it.
    missing_since: tuple[tuple[str, int], ...] = ()

    def endpoint(self, listener: str) -> Endpoint | None:
        for endpoint in self.endpoints:
            if endpoint.listener == listener:
                return endpoint
        return None


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """State of one partition. `eligible` are the eligible leader replicas (KIP-966): not in the ISR, but known to have
    all committed records.
    """

    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    eligible: tuple[int, ...] = ()
    last_known_eligible: tuple[int, ...] = ()

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding or self.removing)


@dataclass(frozen=True, slots=True)
class TopicInfo:
    name: str
    id: UUID
    partitions: tuple[PartitionInfo, ...]
    is_internal: bool = False


@dataclass(frozen=True, slots=True)
class ClusterImage:
    version: int = -1
    cluster_id: str = ""
    controller_id: int = -1
    controller_epoch: int = 0
    brokers: Mapping[int, BrokerInfo] = field(default_factory=dict)  # brokers that are alive
    # Brokers that are registered and not alive. They keep their replicas and may get new ones until unregistered.
    fenced_brokers: Mapping[int, BrokerInfo] = field(default_factory=dict)
    topics: Mapping[str, TopicInfo] = field(default_factory=dict)
    topic_names: Mapping[UUID, str] = field(default_factory=dict)
    # Topics whose deletion this image has replayed, oldest first. An image that was loaded from the nodes has none: a
    # missing topic may have been deleted, or its nodes may be lost. Topics in this mapping were certainly deleted.
    deleted_topics: Mapping[UUID, str] = field(default_factory=dict, compare=False)
    configs: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=dict)
    quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)
    features: Mapping[str, int] = field(default_factory=dict)
    acls: Mapping[ResourcePattern, tuple[Entry, ...]] = field(default_factory=dict)
    next_producer_id: int = 0

    def partition(self, topic: str, index: int) -> PartitionInfo | None:
        found = self.topics.get(topic)
        if found is None or not 0 <= index < len(found.partitions):
            return None
        return found.partitions[index]

    def topic_by_id(self, topic_id: UUID) -> TopicInfo | None:
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topics[name]

    def config_of(self, resource_type: str, name: str) -> Mapping[str, str]:
        return self.configs.get((resource_type, name), {})

    def registered(self, broker_id: int) -> BrokerInfo | None:
        """The broker, alive or not."""
        return self.brokers.get(broker_id) or self.fenced_brokers.get(broker_id)

    def losses_of(self, topic: str, index: int) -> dict[int, Loss]:
        """The live replicas of the partition that lack records, each with its loss."""
        found: dict[int, Loss] = {}
        known = self.topics[topic]
        for replica in known.partitions[index].replicas:
            broker = self.brokers.get(replica)
            if broker is not None and broker.losses:
                loss = broker.losses.of(known.id, index)
                if loss is not Loss.NONE:
                    found[replica] = loss
        return found

    def is_alive(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.fenced

    def partitions(self) -> Iterator[tuple[str, int, PartitionInfo]]:
        for topic in self.topics.values():
            for index, info in enumerate(topic.partitions):
                yield topic.name, index, info


EMPTY_IMAGE: Final = ClusterImage()
