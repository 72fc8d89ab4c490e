"""A small synchronous client: Spark's workers, and anything else without an event loop.

    client = BlockingClient(["127.0.0.1:9092"])
    client.topics(["clicks"])                                  # names, ids, partitions, leaders
    client.list_offsets([("clicks", 0)], EARLIEST)
    client.commit_offsets("my-group", {("clicks", 0): (42, "")})

`BlockingConnection` is one socket to one broker: a request may be sent before the previous answer was read, so that the
next fetch is on its way while the last one is decoded. `BlockingClient` knows the cluster: who leads a partition, who
coordinates a group, and when to ask again. Fetching and producing are in `blocking_fetch` and `blocking_produce`.

Not safe for two threads at once: each worker or thread has its own.
"""

from __future__ import annotations

import socket
import struct
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from headrace.client.blocking_security import Security
from headrace.client.errors import NoAnswer, Unreachable, Unsupported
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.wire import codec

LATEST: Final = -1
EARLIEST: Final = -2
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1

# The newest version of each API that this client is written for; older brokers are met with their newest.
_NEWEST: Final = {
    "produce": (0, 8),
    "fetch": (1, 11),
    "list_offsets": (2, 7),
    "metadata": (3, 12),
    "offset_commit": (8, 8),
    "offset_fetch": (9, 7),
    "find_coordinator": (10, 3),
    "sasl_handshake": (17, 1),
    "create_topics": (19, 7),
    "delete_topics": (20, 5),
    "delete_records": (21, 2),
    "init_producer_id": (22, 4),
    "add_partitions_to_txn": (24, 3),
    "add_offsets_to_txn": (25, 3),
    "end_txn": (26, 3),
    "txn_offset_commit": (28, 3),
    "sasl_authenticate": (36, 2),
    "create_partitions": (37, 3),
    "delete_groups": (42, 2),
}
_RETRIABLE: Final = frozenset(
    {
        ErrorCode.leader_not_available,
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
_LARGEST_ANSWER: Final = 1 << 30
_T = TypeVar("_T")

TopicPartitionPair = tuple[str, int]


def is_retriable(fault: Fault) -> bool:
    return fault.code in _RETRIABLE


def parse_addresses(text: str) -> list[tuple[str, int]]:
    """`host:port,host:port`. Raises Refused naming the part that is wrong."""
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


class BlockingConnection:
    """One socket to one broker, with the versions that both sides know."""

    def __init__(self, host: str, port: int, *, client_id: str, timeout_s: float, security: Security) -> None:
        self.host, self.port, self.client_id, self.timeout_s = host, port, client_id, timeout_s
        self._correlation_id = 0
        self._buffer = bytearray()
        self._socket = self._open(security)
        try:
            if security.protocol.startswith("SASL"):
                self._authenticate(security)
            self.versions = self._learn_versions()
        except BaseException:
            self.close()
            raise

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def _open(self, security: Security) -> socket.socket:
        try:
            plain = socket.create_connection((self.host, self.port), timeout=self.timeout_s)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return security.tls_context().wrap_socket(plain, server_hostname=self.host) if security.encrypted else plain
        except OSError as error:
            why = "no answer" if isinstance(error, TimeoutError) else (error.strerror or str(error))
            raise Unreachable(f"cannot connect to {self.address} within {self.timeout_s:g} s: {why}") from error

    def _learn_versions(self) -> dict[int, tuple[int, int]]:
        _, answer = codec.read_response(codec.API_VERSIONS, 0, self.exchange_raw(codec.API_VERSIONS, 0, {}))
        return {int(api.api_key): (int(api.min_version), int(api.max_version)) for api in answer.api_keys}

    def _authenticate(self, security: Security) -> None:
        shake = self._read(17, 1, self.exchange_raw(17, 1, {"mechanism": security.mechanism}))
        if shake.error_code is not ErrorCode.none:
            raise Refused(
                shake.error_code, f"{self.address} offers {', '.join(shake.mechanisms)}, not {security.mechanism}"
            )

        def exchange(ours: bytes) -> bytes:
            answer = self._read(36, 1, self.exchange_raw(36, 1, {"auth_bytes": ours}))
            if answer.error_code is not ErrorCode.none:
                raise Refused(
                    answer.error_code, f"{self.address} refused {security.username!r}: {answer.error_message}"
                )
            return bytes(answer.auth_bytes)

        security.authenticate(exchange)

    def version_of(self, api: str) -> tuple[int, int]:
        key, newest = _NEWEST[api]
        if key not in self.versions:
            raise Unsupported(f"{self.address} does not serve {api}")
        lowest, highest = self.versions[key]
        version = min(newest, highest)
        if version < lowest:
            raise Unsupported(f"{self.address} serves {api} v{lowest}–v{highest}, this client speaks up to v{newest}")
        return key, version

    def send(self, *parts: bytes | bytearray | memoryview) -> None:
        try:
            for part in parts:
                self._socket.sendall(part)
        except OSError as error:
            self.close()
            raise Unreachable(f"the connection to {self.address} was lost while sending: {error}") from error

    def send_request(self, api: str, body: Mapping[str, Any]) -> tuple[int, int]:
        """Sends without waiting; `receive` gives the answers in the same order. Returns (api key, version)."""
        key, version = self.version_of(api)
        self._correlation_id += 1
        self.send(codec.encode_request(key, version, self._correlation_id, self.client_id, body))
        return key, version

    def next_header(self, key: int, version: int) -> bytes:
        """The header (v1, not flexible) of a request that its caller writes by hand."""
        self._correlation_id += 1
        client_id = self.client_id.encode()
        return struct.pack(f">hhih{len(client_id)}s", key, version, self._correlation_id, len(client_id), client_id)

    def receive(self, *, reuse_buffer: bool = False, timeout_s: float | None = None) -> memoryview:
        """The next answer's frame. With `reuse_buffer` it is only valid until the next call."""
        try:
            self._socket.settimeout(self.timeout_s if timeout_s is None else timeout_s)
            size = int.from_bytes(self._receive_exactly(memoryview(bytearray(4))), "big", signed=True)
            if not 4 <= size <= _LARGEST_ANSWER:
                raise Unreachable(f"{self.address} sent an answer of {size} bytes: is it a Kafka broker?")
            if not reuse_buffer:
                return self._receive_exactly(memoryview(bytearray(size)))
            if len(self._buffer) < size:
                self._buffer = bytearray(size)
            return self._receive_exactly(memoryview(self._buffer)[:size])
        except TimeoutError as error:
            # The order of answers is spent: a late one would be taken for the next.
            self.close()
            raise NoAnswer(f"{self.address} did not answer within {timeout_s or self.timeout_s:g} s") from error
        except OSError as error:
            self.close()
            raise Unreachable(f"the connection to {self.address} was lost: {error}") from error
        except Unreachable:
            self.close()
            raise

    def _receive_exactly(self, into: memoryview) -> memoryview:
        at = 0
        while at < len(into):
            count = self._socket.recv_into(into[at:])
            if count == 0:
                raise Unreachable(f"{self.address} closed the connection")
            at += count
        return into

    def exchange_raw(self, key: int, version: int, body: Mapping[str, Any]) -> memoryview:
        self._correlation_id += 1
        self.send(codec.encode_request(key, version, self._correlation_id, self.client_id, body))
        return self.receive()

    def _read(self, key: int, version: int, frame: memoryview) -> Any:
        return codec.read_response(key, version, frame)[1]

    def call(self, api: str, body: Mapping[str, Any]) -> Any:
        """One request and its answer, as kio's entity of the version both sides know."""
        key, version = self.send_request(api, body)
        return self._read(key, version, self.receive())

    def close(self) -> None:
        self._socket.close()

    @property
    def closed(self) -> bool:
        return self._socket.fileno() < 0


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
    """The cluster as one caller sees it; connections are opened on first use and kept."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        client_id: str = "headrace",
        timeout_s: float = 30.0,
        connect_timeout_s: float = 10.0,
        security: Security | None = None,
        patience_s: float = 30.0,
    ) -> None:
        self.bootstrap = parse_addresses(bootstrap if isinstance(bootstrap, str) else ",".join(bootstrap))
        self.client_id, self.timeout_s, self.connect_timeout_s = client_id, timeout_s, connect_timeout_s
        self.security = security or Security()
        # How long an answer that says "ask again" is asked again.
        self.patience_s = patience_s
        self._connections: dict[tuple[tuple[str, int], str], BlockingConnection] = {}
        self._map = _ClusterMap()

    # -- connections ------------------------------------------------------------------------------------------------

    def _connect(self, address: tuple[str, int], lane: str = "") -> BlockingConnection:
        """A connection to the address. Who sends ahead of its answers takes a lane of its own: an answer on its way there
        is never read as the answer to somebody's question here."""
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

    def __enter__(self) -> BlockingClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def retrying(self, what: str, attempt: Callable[[], _T], *, patience_s: float | None = None) -> _T:
        """Runs `attempt` again while its fault is one that passes by itself, until the patience is spent."""
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
        # Concurrent transactions say nothing about who coordinates; everything else may mean that leadership moved.
        if fault.code not in (ErrorCode.concurrent_transactions, ErrorCode.unstable_offset_commit):
            self._map.topics.clear()
            self._map.coordinators.clear()

    # -- metadata ---------------------------------------------------------------------------------------------------

    def refresh(self, topics: Iterable[str] | None = ()) -> Any:
        """Asks for metadata of these topics (None = all) and remembers it. Creates nothing."""
        names = None if topics is None else [{"topic_id": None, "name": name} for name in topics]
        body = {
            "topics": names,
            "allow_auto_topic_creation": False,
            "include_cluster_authorized_operations": False,
            "include_topic_authorized_operations": False,
        }
        answer = self.any_connection().call("metadata", body)
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

    def topics(self, names: Iterable[str] | None) -> dict[str, TopicMetadata]:
        """What exists among `names` (None = every topic). A missing topic is simply not in the answer."""
        wanted = None if names is None else list(names)

        def attempt() -> dict[str, TopicMetadata]:
            answer = self.refresh(wanted)
            for topic in answer.topics:
                if topic.error_code not in (ErrorCode.none, ErrorCode.unknown_topic_or_partition):
                    raise Refused(topic.error_code, f"metadata of topic {topic.name!r}: {topic.error_code.name}")
            return {t.name: self._map.topics[t.name] for t in answer.topics if t.error_code is ErrorCode.none}

        return self.retrying("reading metadata", attempt)

    def provoke_creation(self, topic: str) -> None:
        """Asks for a topic in the way that makes a broker with auto.create.topics.enable create it."""
        body = {
            "topics": [{"topic_id": None, "name": topic}],
            "allow_auto_topic_creation": True,
            "include_cluster_authorized_operations": False,
            "include_topic_authorized_operations": False,
        }

        def attempt() -> None:
            (found,) = self.any_connection().call("metadata", body).topics
            if found.error_code is ErrorCode.leader_not_available:
                raise Refused(found.error_code, f"topic {topic!r} is being created")

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
        """The broker that looks after a group (key type 0) or a transactional id (1)."""
        known = self._map.coordinators.get((key_type, key))
        if known is None:
            answer = self.any_connection().call("find_coordinator", {"key": key, "key_type": key_type})
            if answer.error_code is not ErrorCode.none:
                raise Refused(answer.error_code, getattr(answer, "error_message", None) or answer.error_code.name)
            known = int(answer.node_id)
            self._map.brokers[known] = (answer.host, int(answer.port))
            self._map.coordinators[(key_type, key)] = known
        return self.broker(known)

    # -- offsets ----------------------------------------------------------------------------------------------------

    def list_offsets(
        self, partitions: Mapping[TopicPartitionPair, int], *, isolation: int = READ_UNCOMMITTED
    ) -> dict[TopicPartitionPair, int]:
        """Offset at LATEST, EARLIEST or a time (ms) for each partition; -1 where no record is that young."""
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
        """(offset, metadata) of what the group committed; partitions without a commit are left out."""
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

    # -- topics -----------------------------------------------------------------------------------------------------

    def create_topic(
        self, name: str, partitions: int, *, replication_factor: int = -1, configs: Mapping[str, str] | None = None
    ) -> bool:
        """True when it was created, False when it was there already."""
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


def offset_topics(offsets: Mapping[TopicPartitionPair, tuple[int, str]]) -> list[dict[str, Any]]:
    """The `topics` field that OffsetCommit and TxnOffsetCommit share."""
    by_topic: dict[str, list[dict[str, Any]]] = {}
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
