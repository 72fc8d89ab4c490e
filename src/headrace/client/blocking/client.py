"""A small synchronous client: Spark's workers, and anything else without an event loop.

    client = BlockingClient(["127.0.0.1:9092"])
    client.topics(["clicks"])                                  # names, ids, partitions, leaders
    client.list_offsets({("clicks", 0): EARLIEST})
    client.commit_offsets("my-group", {("clicks", 0): (42, "")})

It finds the leader of a partition and the coordinator of a group, and refreshes both when they move. Fetching and
producing are in `blocking.fetch` and `blocking.produce`.

Not safe for two threads at once: each worker or thread has its own.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Self, TypeVar

from headrace.client.blocking.connection import BlockingConnection
from headrace.client.errors import Unreachable
from headrace.client.security import ClientSecurity
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.kernel.isolation import READ_COMMITTED as READ_COMMITTED
from headrace.kernel.isolation import READ_UNCOMMITTED as READ_UNCOMMITTED
from headrace.wire.entities import Entity

LATEST: Final = -1
EARLIEST: Final = -2
# Of DescribeConfigs: the type of the resource, and the source of an entry.
_TOPIC_RESOURCE: Final = 2
_SET_ON_TOPIC: Final = 1

_RETRIABLE: Final = frozenset(
    {
        ErrorCode.leader_not_available,
        ErrorCode.broker_not_available,
        ErrorCode.not_leader_or_follower,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.replica_not_available,
        ErrorCode.offset_not_available,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.concurrent_transactions,
        ErrorCode.unstable_offset_commit,
        ErrorCode.network_exception,
        ErrorCode.request_timed_out,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.kafka_storage_error,
        ErrorCode.not_controller,
    }
)
_T = TypeVar("_T")
# How long a requested topic may be unknown before the client takes it as missing.
_CREATION_S: Final = 2.0

TopicPartitionPair = tuple[str, int]


def is_retriable(fault: Fault) -> bool:
    return fault.code in _RETRIABLE


def _metadata_body(topics: Iterable[str] | None, *, create: bool) -> dict[str, object]:
    return {
        "topics": None if topics is None else [{"topic_id": None, "name": name} for name in topics],
        "allow_auto_topic_creation": create,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }


def parse_addresses(text: str) -> list[tuple[str, int]]:
    """`host:port,host:port`. Raises Refused with the wrong part."""
    addresses: list[tuple[str, int]] = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        host, colon, port = part.rpartition(":")
        if not colon or not port.isdigit() or not 0 < int(port) < 65536 or not host:
            raise Refused(
                ErrorCode.invalid_config, f"bootstrap server {part!r}: write host:port, for example localhost:9092"
            )
        addresses.append((host.strip("[]"), int(port)))
    if not addresses:
        raise Refused(ErrorCode.invalid_config, "bootstrap servers are empty: write host:port[,host:port]")
    return addresses


@dataclass(frozen=True)
class TopicMetadata:
    name: str
    topic_id: uuid.UUID | None
    is_internal: bool
    leaders: dict[int, int]  # partition -> broker id, -1 without a leader

    @property
    def partitions(self) -> list[int]:
        return sorted(self.leaders)


@dataclass
class _ClusterMap:
    brokers: dict[int, tuple[str, int]] = field(default_factory=dict)
    topics: dict[str, TopicMetadata] = field(default_factory=dict)
    coordinators: dict[tuple[int, str], int] = field(default_factory=dict)
    controller: int = -1


class BlockingClient:
    """A cluster for one caller; connections are opened on first use and kept."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        client_id: str = "headrace",
        timeout_s: float = 30.0,
        connect_timeout_s: float = 10.0,
        security: ClientSecurity | None = None,
        patience_s: float = 30.0,
    ) -> None:
        self.bootstrap = parse_addresses(bootstrap if isinstance(bootstrap, str) else ",".join(bootstrap))
        self.client_id, self.timeout_s, self.connect_timeout_s = client_id, timeout_s, connect_timeout_s
        self.security = security or ClientSecurity()
        # How long retriable errors are retried.
        self.patience_s = patience_s
        self._connections: dict[tuple[tuple[str, int], str], BlockingConnection] = {}
        self._map = _ClusterMap()

    def _connect(self, address: tuple[str, int], lane: str = "") -> BlockingConnection:
        """A connection to the address. A caller that pipelines requests uses its own `lane`, so that its answers never
        mix with those of other callers."""
        known = self._connections.get((address, lane))
        if known is not None and not known.closed:
            return known
        fresh = BlockingConnection(
            *address, client_id=self.client_id, timeout_s=self.connect_timeout_s, security=self.security
        )
        fresh.timeout_s = self.timeout_s
        self._connections[(address, lane)] = fresh
        return fresh

    def any_connection(self) -> BlockingConnection:
        addresses = list(dict.fromkeys([*self._map.brokers.values(), *self.bootstrap]))
        refusals = []
        for address in addresses:
            try:
                return self._connect(address)
            except Unreachable as unreachable:
                refusals.append(unreachable.message)
        raise Unreachable("no broker can be reached: " + "; ".join(refusals))

    def broker(self, broker_id: int, lane: str = "") -> BlockingConnection:
        if broker_id not in self._map.brokers:
            self.refresh()
        if broker_id not in self._map.brokers:
            raise Refused(ErrorCode.broker_not_available, f"broker {broker_id} is not in the cluster's metadata")
        return self._connect(self._map.brokers[broker_id], lane)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def retrying(self, what: str, attempt: Callable[[], _T], *, patience_s: float | None = None) -> _T:
        """Repeats `attempt` after a retriable fault, until the time is over."""
        deadline = time.monotonic() + (self.patience_s if patience_s is None else patience_s)
        pause_s = 0.005
        while True:
            try:
                return attempt()
            except Fault as fault:
                if not is_retriable(fault):
                    raise
                if time.monotonic() + pause_s > deadline:
                    raise Refused(fault.code, f"{what}: {fault.message or fault.code.name}") from fault
                self.forget(fault)
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, 0.5)

    def forget(self, fault: Fault) -> None:
        # CONCURRENT_TRANSACTIONS does not mean that the coordinator moved; any other error may.
        if fault.code not in (ErrorCode.concurrent_transactions, ErrorCode.unstable_offset_commit):
            self._map.topics.clear()
            self._map.coordinators.clear()

    def refresh(self, topics: Iterable[str] | None = ()) -> Entity:
        """Fetches and caches metadata of these topics (None = all). Creates no topic."""
        answer = self.any_connection().call("metadata", _metadata_body(topics, create=False))
        self._map.brokers = {int(b.node_id): (b.host, int(b.port)) for b in answer.brokers}
        self._map.controller = int(answer.controller_id)
        for topic in answer.topics:
            if topic.error_code is ErrorCode.none:
                self._map.topics[topic.name] = TopicMetadata(
                    topic.name,
                    getattr(topic, "topic_id", None),
                    bool(topic.is_internal),
                    {int(p.partition_index): int(p.leader_id) for p in topic.partitions},
                )
            else:
                self._map.topics.pop(topic.name, None)
        return answer

    def cluster_id(self) -> str:
        return str(self.retrying("asking for the cluster's id", self.refresh).cluster_id)

    def broker_count(self) -> int:
        """Number of brokers in the cluster's metadata."""
        self.retrying("reading metadata", self.refresh)
        return len(self._map.brokers)

    def topics(self, names: Iterable[str] | None) -> dict[str, TopicMetadata]:
        """The existing topics among `names` (None = every topic). A missing topic is not in the answer."""
        wanted = None if names is None else list(names)

        def attempt() -> dict[str, TopicMetadata]:
            answer = self.refresh(wanted)
            for topic in answer.topics:
                if topic.error_code not in (ErrorCode.none, ErrorCode.unknown_topic_or_partition):
                    raise Refused(topic.error_code, f"metadata of topic {topic.name!r}: {topic.error_code.name}")
            return {t.name: self._map.topics[t.name] for t in answer.topics if t.error_code is ErrorCode.none}

        return self.retrying("reading metadata", attempt)

    def provoke_creation(self, topic: str) -> None:
        """Requests metadata so that a broker with auto.create.topics.enable creates the topic."""
        # Apache Kafka answers "unknown" at first, whether or not it creates the topic.
        deadline = time.monotonic() + _CREATION_S

        def attempt() -> None:
            (found,) = self.any_connection().call("metadata", _metadata_body([topic], create=True)).topics
            unknown = found.error_code is ErrorCode.unknown_topic_or_partition and time.monotonic() < deadline
            if unknown or found.error_code is ErrorCode.leader_not_available:
                raise Refused(ErrorCode.leader_not_available, f"topic {topic!r} is being created")

        self.retrying(f"creating topic {topic!r}", attempt)

    def leader_of(self, partition: TopicPartitionPair) -> int:
        topic, index = partition
        if topic not in self._map.topics:
            self.refresh([topic])
        known = self._map.topics.get(topic)
        if known is None or index not in known.leaders:
            raise Refused(ErrorCode.unknown_topic_or_partition, f"partition {topic}-{index} does not exist")
        leader = known.leaders[index]
        if leader < 0:
            raise Refused(ErrorCode.leader_not_available, f"partition {topic}-{index} has no leader")
        return leader

    def leader(self, partition: TopicPartitionPair, lane: str = "") -> BlockingConnection:
        return self.broker(self.leader_of(partition), lane)

    def coordinator(self, key: str, key_type: int) -> BlockingConnection:
        """The coordinator of a group (key type 0) or a transactional id (1)."""
        known = self._map.coordinators.get((key_type, key))
        if known is None:
            answer = self.any_connection().call("find_coordinator", {"key": key, "key_type": key_type})
            if answer.error_code is not ErrorCode.none:
                raise Refused(answer.error_code, getattr(answer, "error_message", None) or answer.error_code.name)
            known = int(answer.node_id)
            self._map.brokers[known] = (answer.host, int(answer.port))
            self._map.coordinators[(key_type, key)] = known
        return self.broker(known)

    def list_offsets(
        self, partitions: Mapping[TopicPartitionPair, int], *, isolation: int = READ_UNCOMMITTED
    ) -> dict[TopicPartitionPair, int]:
        """Offset at LATEST, EARLIEST or a time (ms) for each partition; -1 if there is no record at or after the
        time."""
        found: dict[TopicPartitionPair, int] = {}

        def attempt() -> dict[TopicPartitionPair, int]:
            by_leader: dict[int, dict[str, list[dict[str, int]]]] = {}
            for (topic, index), timestamp in partitions.items():
                if (topic, index) not in found:
                    ask = {"partition_index": index, "current_leader_epoch": -1, "timestamp": timestamp}
                    by_leader.setdefault(self.leader_of((topic, index)), {}).setdefault(topic, []).append(ask)
            for leader, topics in by_leader.items():
                body = {
                    "replica_id": -1,
                    "isolation_level": isolation,
                    "topics": [{"name": name, "partitions": asks} for name, asks in topics.items()],
                }
                for topic in self.broker(leader).call("list_offsets", body).topics:
                    for part in topic.partitions:
                        if part.error_code is not ErrorCode.none:
                            raise Refused(
                                part.error_code,
                                f"offsets of {topic.name}-{part.partition_index}: {part.error_code.name}",
                            )
                        found[(topic.name, int(part.partition_index))] = int(part.offset)
            return found

        return self.retrying("listing offsets", attempt)

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartitionPair, tuple[int, str]]) -> None:
        """Commits (offset, metadata) per partition for a group without members."""
        body = {
            "group_id": group,
            "generation_id_or_member_epoch": -1,
            "generation_id": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": offset_topics(offsets),
        }

        def attempt() -> None:
            for topic in self.coordinator(group, 0).call("offset_commit", body).topics:
                for part in topic.partitions:
                    if part.error_code is not ErrorCode.none:
                        raise Refused(
                            part.error_code, f"commit of {topic.name}-{part.partition_index}: {part.error_code.name}"
                        )

        self.retrying(f"committing offsets of group {group!r}", attempt)

    def committed_offsets(
        self, group: str, partitions: Iterable[TopicPartitionPair] | None = None, *, require_stable: bool = False
    ) -> dict[TopicPartitionPair, tuple[int, str]]:
        """(offset, metadata) of the group's commits; partitions without a commit are left out."""
        by_topic: dict[str, list[int]] = {}
        for topic, index in partitions or ():
            by_topic.setdefault(topic, []).append(index)
        asked = [{"name": t, "partition_indexes": i} for t, i in by_topic.items()]
        body = {"group_id": group, "topics": None if partitions is None else asked, "require_stable": require_stable}

        def attempt() -> dict[TopicPartitionPair, tuple[int, str]]:
            answer = self.coordinator(group, 0).call("offset_fetch", body)
            if answer.error_code is not ErrorCode.none:
                raise Refused(answer.error_code, answer.error_code.name)
            found: dict[TopicPartitionPair, tuple[int, str]] = {}
            for topic in answer.topics:
                for part in topic.partitions:
                    if part.error_code is not ErrorCode.none:
                        raise Refused(part.error_code, f"{topic.name}-{part.partition_index}: {part.error_code.name}")
                    if part.committed_offset >= 0:
                        found[(topic.name, int(part.partition_index))] = (
                            int(part.committed_offset),
                            part.metadata or "",
                        )
            return found

        return self.retrying(f"reading offsets of group {group!r}", attempt)

    def create_topic(
        self, name: str, partitions: int, *, replication_factor: int = -1, configs: Mapping[str, str] | None = None
    ) -> bool:
        """True if it was created, False if it exists already."""
        topic = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": replication_factor,
            "assignments": [],
            "configs": [{"name": key, "value": value} for key, value in (configs or {}).items()],
        }

        def attempt() -> bool:
            self.refresh()
            answer = self.broker(self._map.controller).call(
                "create_topics", {"topics": [topic], "timeout": 30_000, "validate_only": False}
            )
            (result,) = answer.topics
            if result.error_code is ErrorCode.topic_already_exists:
                return False
            if result.error_code is not ErrorCode.none:
                raise Refused(
                    result.error_code, f"creating topic {name!r}: {result.error_message or result.error_code.name}"
                )
            return True

        created = self.retrying(f"creating topic {name!r}", attempt)

        def visible() -> None:
            if name not in self.topics([name]):
                raise Refused(ErrorCode.leader_not_available, f"topic {name!r} is not visible yet")
            for index in self._map.topics[name].leaders:
                self.leader_of((name, index))

        self.retrying(f"waiting for topic {name!r}", visible)
        return created

    def topic_configs(self, topic: str) -> dict[str, str]:
        """The configuration that was set on the topic itself."""
        asked = {"resource_type": _TOPIC_RESOURCE, "resource_name": topic, "configuration_keys": None}
        body = {"resources": [asked], "include_synonyms": False, "include_documentation": False}

        def attempt() -> dict[str, str]:
            (result,) = self.any_connection().call("describe_configs", body).results
            if result.error_code is not ErrorCode.none:
                raise Refused(
                    result.error_code,
                    f"configuration of topic {topic!r}: {result.error_message or result.error_code.name}",
                )
            return {
                entry.name: entry.value
                for entry in result.configs
                if entry.config_source == _SET_ON_TOPIC and entry.value is not None
            }

        return self.retrying(f"asking for the configuration of topic {topic!r}", attempt)


def offset_topics(offsets: Mapping[TopicPartitionPair, tuple[int, str]]) -> list[dict[str, object]]:
    """The `topics` field that OffsetCommit and TxnOffsetCommit share."""
    by_topic: dict[str, list[dict[str, object]]] = {}
    for (topic, index), (offset, metadata) in offsets.items():
        by_topic.setdefault(topic, []).append(
            {
                "partition_index": index,
                "committed_offset": offset,
                "committed_leader_epoch": -1,
                "committed_metadata": metadata,
            }
        )
    return [{"name": topic, "partitions": parts} for topic, parts in by_topic.items()]
