"""Store of the registry on its topic: reads from memory, writes by one instance at a time.

Every instance follows the topic (`LogReader`). The leader also executes writes. It takes all waiting writes, applies
each to a copy of the state that is ahead of the topic (`_decided`), appends their records in one transaction, waits
until its own reader has replayed them, and then answers. So a client that has its answer finds its schema on the
leader, and after a restart on every other instance.

After a failed write it is unknown whether its records are in the topic. The leader then drops the copy, fences again
and reads to the end before the next write.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import Final

from headrace.client.cluster_client import ClusterClient
from headrace.client.security import ClientSecurity
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault
from headrace.kernel.json_values import JsonValue
from headrace.records.builder import Record
from headrace.registry.core.errors import Code, RegistryError, StoreFailed, Unprocessable
from headrace.registry.core.operations import LARGEST_SCHEMA_BYTES, Decision
from headrace.registry.core.records import TOPIC, noop_entry
from headrace.registry.core.schema_types import USUAL_TYPES
from headrace.registry.core.state import State
from headrace.registry.store.election import Election, Identity
from headrace.registry.store.fenced_writer import FencedWriter
from headrace.registry.store.reader import LogReader
from headrace.registry.store.topic import SchemasTopic, retrying

_log = logging.getLogger(__name__)
_WRITES_AT_ONCE: Final = 500
# Another instance leads by now.
_FENCED: Final = (ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch)

Operation = Callable[[State], Decision]


class NotLeading(Exception):
    """Another instance is the leader."""

    def __init__(self, leader: Identity) -> None:
        super().__init__(leader.url)
        self.leader = leader


@dataclass(frozen=True, slots=True)
class StoreSettings:
    bootstrap: str
    identity: Identity
    topic: str = TOPIC
    group: str = "schema-registry"
    session_timeout_ms: int = 10_000
    timeout_s: float = 30.0
    security: ClientSecurity | None = None
    """The registry's own login, with which it reads and writes its topic."""
    types: tuple[str, ...] = USUAL_TYPES
    """Types of schemas that clients may register. Schemas of other types that the topic has stay readable."""


class SchemaStore:
    def __init__(self, settings: StoreSettings) -> None:
        self.settings = settings
        self.state = State()
        self.leader: Identity | None = None
        self._clients = {name: self._client(name) for name in ("reader", "writer", "election", "asker")}
        self._reader = LogReader(self._topic("reader"), self.state)
        self._asker = self._topic("asker")
        self._writer = FencedWriter(self._topic("writer"), f"{settings.group}-{settings.topic}", settings.timeout_s)
        self._election = Election(
            self._clients["election"], settings.group, settings.identity, settings.session_timeout_ms, self._on_leader
        )
        self._waiting: asyncio.Queue[tuple[Operation, asyncio.Future[JsonValue]]] = asyncio.Queue()
        self._decided: State | None = None
        self._leader_known = asyncio.Event()
        self._leader_changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def _client(self, name: str) -> ClusterClient:
        return ClusterClient(
            self.settings.bootstrap,
            client_id=f"headrace-registry-{name}",
            timeout=self.settings.timeout_s,
            security=self.settings.security,
        )

    def _topic(self, client: str) -> SchemasTopic:
        return SchemasTopic(self._clients[client], self.settings.topic)

    @property
    def cluster_id(self) -> str:
        return self._clients["asker"].metadata.cluster_id or ""

    @property
    def is_leader(self) -> bool:
        return self.leader == self.settings.identity

    async def start(self) -> None:
        """Returns when the topic has been read and the store can serve reads. Raises Fault if no broker answers in
        time."""
        timeout_s = self.settings.timeout_s
        await retrying(self._asker.create, timeout_s)
        await retrying(self._asker.leader, timeout_s)
        self._tasks = [asyncio.create_task(self._reader.run(), name="registry reader")]
        await self.catch_up()
        self._tasks.append(asyncio.create_task(self._election.run(), name="registry election"))
        self._tasks.append(asyncio.create_task(self._write_all(), name="registry writer"))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with contextlib.suppress(Fault, TimeoutError):
            async with asyncio.timeout(2):
                await self._election.leave()
        for client in self._clients.values():
            await client.close()

    async def catch_up(self) -> None:
        """Returns when the state includes all records that are committed now."""
        try:
            async with asyncio.timeout(self.settings.timeout_s):
                await self._reader.reached(await retrying(self._asker.end, self.settings.timeout_s))
        except TimeoutError as fault:
            raise StoreFailed(
                Code.TIMEOUT,
                f"topic {self.settings.topic} was not read to its end within {self.settings.timeout_s:g} s",
            ) from fault
        except Fault as fault:
            raise StoreFailed(Code.STORE, f"topic {self.settings.topic}: {fault.message}") from fault

    async def write(self, operation: Operation) -> JsonValue:
        """Executes a write and returns its reply. Raises NotLeading or RegistryError."""
        leader = await self.known_leader()
        if leader != self.settings.identity:
            raise NotLeading(leader)
        future: asyncio.Future[JsonValue] = asyncio.get_running_loop().create_future()
        self._waiting.put_nowait((operation, future))
        try:
            async with asyncio.timeout(self.settings.timeout_s):
                return await future
        except TimeoutError as fault:
            raise StoreFailed(
                Code.TIMEOUT,
                f"the write was not committed within {self.settings.timeout_s:g} s: look it up, then retry",
            ) from fault

    async def known_leader(self) -> Identity:
        """The leader. Waits during an election. Raises 50004 after the time-out."""
        try:
            async with asyncio.timeout(self.settings.timeout_s):
                while self.leader is None:
                    await self._leader_known.wait()
                return self.leader
        except TimeoutError as fault:
            raise StoreFailed(
                Code.NO_LEADER, f"group {self.settings.group} has had no leader for {self.settings.timeout_s:g} s"
            ) from fault

    async def until_another_leads(self, leader: Identity) -> None:
        while self.leader == leader:
            await self._leader_changed.wait()

    async def _on_leader(self, leader: Identity | None) -> None:
        if leader == self.leader:
            return
        _log.info("writes go to %s", leader.url if leader else "no instance")
        self.leader = leader
        self._decided = None
        self._leader_changed.set()
        self._leader_changed = asyncio.Event()
        if leader is None:
            self._leader_known.clear()
        else:
            self._leader_known.set()

    async def _write_all(self) -> None:
        while True:
            batch = [await self._waiting.get()]
            while not self._waiting.empty() and len(batch) < _WRITES_AT_ONCE:
                batch.append(self._waiting.get_nowait())
            try:
                await self._write_batch(batch)
            except (Fault, TimeoutError, StoreFailed) as fault:
                self._decided = None
                reason = fault.message if isinstance(fault, Fault | RegistryError) else "no answer in time"
                _log.warning("writing %s: %s", self.settings.topic, reason)
                for _, future in batch:
                    _fail(future, StoreFailed(Code.STORE, f"topic {self.settings.topic}: {reason}: try again"))

    async def _write_batch(self, batch: list[tuple[Operation, asyncio.Future[JsonValue]]]) -> None:
        """Once more with a new producer if nothing was written: the partition or its coordinator may have moved since
        the last write, or the coordinator has forgotten the producer of a registry that was idle for days."""
        is_fresh = self._decided is None
        try:
            await self._append(batch)
        except (Fault, TimeoutError) as fault:
            is_fenced = isinstance(fault, Fault) and fault.code in _FENCED
            if is_fresh or is_fenced or self._writer.may_be_committed:
                raise
            self._decided = None
            await self._append(batch)

    async def _append(self, batch: list[tuple[Operation, asyncio.Future[JsonValue]]]) -> None:
        decided = self._decided or await self._take_over()
        self._decided = decided
        records: list[Record] = []
        answers: list[tuple[asyncio.Future[JsonValue], JsonValue]] = []
        now_ms = int(time.time() * 1000)
        for operation, future in batch:
            try:
                decision = operation(decided)
                made = [Record(*entry.encoded(), timestamp_ms=now_ms) for entry in decision.records]
                _check_sizes(made)
            except Exception as error:
                # A defect in one operation fails this request only. The writer serves the others.
                answers.append((future, error))
                continue
            for entry in decision.records:
                decided.replay(entry)
            records += made
            answers.append((future, decision.reply))
        if records:
            await self._reader.reached(await self._writer.append(records))
        for future, reply in answers:
            if isinstance(reply, Exception):
                _fail(future, reply)
            elif not future.done():
                future.set_result(reply)

    async def _take_over(self) -> State:
        """Fences older writers, writes a NOOP record and reads up to it. Returns a copy of the state."""
        if not self.is_leader:
            raise StoreFailed(Code.NO_LEADER, "another instance has become the leader")
        await self._writer.take_over()
        key, value = noop_entry().encoded()
        mark = Record(key, value, timestamp_ms=int(time.time() * 1000))
        await self._reader.reached(await self._writer.append([mark]))
        return self.state.copy()


def _check_sizes(records: list[Record]) -> None:
    for record in records:
        size = len(record.key or b"") + len(record.value or b"")
        if size > LARGEST_SCHEMA_BYTES:
            raise Unprocessable(
                Code.TOO_LARGE,
                f"The record of the schema has {size} bytes; the largest allowed is {LARGEST_SCHEMA_BYTES}: "
                "split the schema with references",
            )


def _fail(future: asyncio.Future[JsonValue], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
