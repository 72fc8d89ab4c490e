"""A client of a whole cluster: finds the right broker for a request and keeps one connection to each.

    async with ClusterClient("127.0.0.1:9092") as client:
        await client.request(LIST_GROUPS, {...}, node=2)
        await client.to_controller(CREATE_TOPICS, {...})
        await client.to_coordinator("my-group", OFFSET_FETCH, {...})
        leaders = await client.leaders(["orders"])

The client retries only what is always safe: finding the controller, a coordinator or the metadata while the cluster
returns a retriable error. Connections are opened on first use and shared by one loop's tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Unpack

from headrace.client.connection import Connection, RequestOptions
from headrace.client.errors import NoAnswer, Unreachable
from headrace.client.security import ClientSecurity
from headrace.client.server_kind import trouble_with
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.kernel.ids import TopicPartition
from headrace.wire.apis import ApiKey
from headrace.wire.entities import Body, Entity

GROUP, TRANSACTION, SHARE = 0, 1, 2

# Retriable errors while leadership or coordinators move; the delay is short because moves are.
_TRANSIENT: Final = frozenset(
    {
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.not_coordinator,
        ErrorCode.leader_not_available,
        ErrorCode.not_controller,
    }
)
_PAUSE_SECONDS: Final = 0.1
_CONNECT_SECONDS: Final = 10.0
# A broker answers its first request well within this.
_PROMPT_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Node:
    id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(slots=True)
class Metadata:
    """The last Metadata answer."""

    cluster_id: str | None = None
    controller_id: int = -1
    nodes: dict[int, Node] = field(default_factory=dict)
    topics: dict[str, Entity] = field(default_factory=dict)


def parse_bootstrap(text: str) -> list[tuple[str, int]]:
    """`host:port,[::1]:port,host` → addresses; a missing port is 9092. Raises ValueError with the bad part."""
    addresses = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        bare = part.split("://", 1)[-1]
        host, _, port = bare.rpartition(":") if ":" in bare and not bare.endswith("]") else (bare, "", "9092")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"bootstrap address {part!r}: must be host:port with a port from 1 to 65535")
        addresses.append((host.strip("[]"), int(port)))
    if not addresses:
        raise ValueError(f"bootstrap servers {text!r}: must name at least one host:port")
    return addresses


class ClusterClient:
    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str = "headrace",
        timeout: float = 30.0,
        security: ClientSecurity | None = None,
    ) -> None:
        self.addresses = parse_bootstrap(bootstrap)
        self.client_id = client_id
        self.timeout = timeout
        self.security = security
        self.metadata = Metadata()
        self._connections: dict[int, Connection] = {}
        self._bootstrap: Connection | None = None
        self._opening: dict[int, asyncio.Lock] = {}

    async def __aenter__(self) -> ClusterClient:
        await self.refresh(topics=())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        for connection in (*self._connections.values(), *([self._bootstrap] if self._bootstrap else [])):
            await connection.close()
        self._connections.clear()
        self._bootstrap = None

    async def any_connection(self) -> Connection:
        """A connection to some broker: one already open, else the first bootstrap address that answers."""
        for connection in self._connections.values():
            if not connection.closed:
                return connection
        if self._bootstrap is not None and not self._bootstrap.closed:
            return self._bootstrap
        failures = []
        known = [(node.host, node.port) for node in self.metadata.nodes.values()]
        for host, port in dict.fromkeys([*self.addresses, *known]):
            try:
                self._bootstrap = await self._first_contact(host, port)
            except (Unreachable, NoAnswer) as fault:
                failures.append(fault.message)
                continue
            return self._bootstrap
        raise Unreachable("; ".join(failures))

    async def _first_contact(self, host: str, port: int) -> Connection:
        """A server of another protocol closes the connection or waits for more bytes. So an address that fails or takes
        long is probed again, and the error names the server that is there."""
        opening = asyncio.create_task(self._open(host, port))
        try:
            async with asyncio.timeout(_PROMPT_SECONDS):
                return await asyncio.shield(opening)
        except (Unreachable, NoAnswer, TimeoutError):
            encrypted = self.security is not None and self.security.encrypted
            timeout_s = min(self.timeout, _CONNECT_SECONDS)
            trouble = await asyncio.to_thread(trouble_with, host, port, timeout_s=timeout_s, encrypted=encrypted)
            if trouble is None:
                return await opening
            opening.cancel()
            raise Unreachable(trouble) from None

    async def _open(self, host: str, port: int) -> Connection:
        timeout = min(self.timeout, _CONNECT_SECONDS)
        return await Connection.open(host, port, client_id=self.client_id, timeout=timeout, security=self.security)

    async def connection(self, node_id: int) -> Connection:
        async with self._opening.setdefault(node_id, asyncio.Lock()):
            known = self._connections.get(node_id)
            if known is not None and not known.closed:
                return known
            if node_id not in self.metadata.nodes:
                await self.refresh(topics=())
            node = self.metadata.nodes.get(node_id)
            if node is None:
                raise Refused(ErrorCode.broker_not_available, f"broker {node_id} is not in the cluster")
            opened = await self._open(node.host, node.port)
            self._connections[node_id] = opened
            return opened

    async def refresh(self, topics: Iterable[str] | None = None, *, allow_auto_creation: bool = False) -> Metadata:
        """Refreshes the metadata; `topics=None` means all topics, `()` none."""
        connection = await self.any_connection()
        wanted = None if topics is None else [{"topic_id": None, "name": name} for name in topics]
        answer = await connection.request(
            ApiKey.METADATA, {"topics": wanted, "allow_auto_topic_creation": allow_auto_creation}, timeout=self.timeout
        )
        self.metadata.cluster_id = answer.cluster_id
        self.metadata.controller_id = int(answer.controller_id)
        self.metadata.nodes = {
            int(broker.node_id): Node(int(broker.node_id), str(broker.host), int(broker.port), broker.rack)
            for broker in answer.brokers
        }
        if topics is None:
            self.metadata.topics = {}
        self.metadata.topics |= {str(topic.name): topic for topic in answer.topics if topic.name is not None}
        return self.metadata

    async def request(
        self, api_key: int, body: Body, *, node: int | None = None, **options: Unpack[RequestOptions]
    ) -> Entity:
        """Sends a request to one broker by id, or to any."""
        connection = await (self.any_connection() if node is None else self.connection(node))
        options.setdefault("timeout", self.timeout)
        return await connection.request(api_key, body, **options)

    async def to_controller(self, api_key: int, body: Body, **options: Unpack[RequestOptions]) -> Entity:
        if self.metadata.controller_id not in self.metadata.nodes:
            await self.refresh(topics=())
        controller = self.metadata.controller_id
        return await self.request(
            api_key, body, node=controller if controller in self.metadata.nodes else None, **options
        )

    async def coordinator(self, key: str, key_type: int = GROUP) -> int:
        """The broker that coordinates a group or transactional id; waits while none is available. Raises NoAnswer after
        the time-out: callers that run for long retry a Fault, and would end with a TimeoutError."""
        try:
            async with asyncio.timeout(self.timeout):
                return await self._found_coordinator(key, key_type)
        except TimeoutError as fault:
            raise NoAnswer(f"no coordinator for {key!r} within {self.timeout:g} s") from fault

    async def _found_coordinator(self, key: str, key_type: int) -> int:
        while True:
            connection = await self.any_connection()
            answer = await connection.request(
                ApiKey.FIND_COORDINATOR,
                {"key": key, "key_type": key_type, "coordinator_keys": [key]},
                timeout=self.timeout,
            )
            found = answer.coordinators[0] if hasattr(answer, "coordinators") else answer
            code = ErrorCode(found.error_code)
            if code is ErrorCode.none:
                node = Node(int(found.node_id), str(found.host), int(found.port))
                self.metadata.nodes.setdefault(node.id, node)
                return node.id
            if code not in _TRANSIENT:
                raise Refused(code, found.error_message or f"no coordinator for {key!r}")
            await asyncio.sleep(_PAUSE_SECONDS)

    async def to_coordinator(
        self, key: str, api_key: int, body: Body, *, key_type: int = GROUP, **options: Unpack[RequestOptions]
    ) -> Entity:
        return await self.request(api_key, body, node=await self.coordinator(key, key_type), **options)

    async def leaders(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        """Leader of every partition of these topics; raises the topic's own error if one is unknown."""
        names = list(topics)
        metadata = await self.refresh(names)
        found: dict[TopicPartition, int] = {}
        for name in names:
            topic = metadata.topics.get(name)
            if topic is None or topic.error_code:
                code = ErrorCode.unknown_topic_or_partition if topic is None else ErrorCode(topic.error_code)
                gone = code is ErrorCode.unknown_topic_or_partition
                raise Refused(code, f"topic {name!r} does not exist" if gone else f"topic {name!r}: {code.name}")
            for partition in topic.partitions:
                found[TopicPartition(name, int(partition.partition_index))] = int(partition.leader_id)
        return found


def check(code: int, message: str | None, what: str) -> None:
    """Raises the fault of an answer's error code; `what` names the resource."""
    error = ErrorCode(code)
    if error is not ErrorCode.none:
        raise Refused(error, f"{what}: {message or error.name}")


__all__ = ["GROUP", "SHARE", "TRANSACTION", "ClusterClient", "Fault", "Metadata", "Node", "check", "parse_bootstrap"]
