"""Requests that a simulated broker serves: brokers' requests with the real handlers, clients' with the real partitions.

Client requests are simpler than on the wire: one partition, values instead of batches. The server reports answers to
clients to the history at the moment it decides them.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Final

from headrace.cluster.view import ClusterView
from headrace.controller.controller import Controller
from headrace.handlers.cluster.alter_partition import AlterPartition
from headrace.handlers.cluster.assign_replicas_to_dirs import AssignReplicasToDirs
from headrace.handlers.cluster.broker_heartbeat import BrokerHeartbeat
from headrace.handlers.data.current_leaders import Leaders
from headrace.handlers.data.fetch import Fetch
from headrace.handlers.data.fetch_sessions import FetchSessions
from headrace.handlers.dispatch.authorization import OPEN, UNRESTRICTED
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.fallback_requests import FALLBACK_APIS
from headrace.handlers.dispatch.forwarded_requests import serve_forwarded
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.clock import Clock
from headrace.kernel.errors import ErrorCode, Fault
from headrace.replication.offset_lookup import EARLIEST, LATEST
from headrace.replication.partitions import Partitions
from headrace.security.principal import ANONYMOUS
from headrace.testing.simulation.history import History
from headrace.testing.simulation.log import SimulatedSlice, encode
from headrace.testing.simulation.network import Arguments
from headrace.wire import codec
from headrace.wire.apis import ApiKey
from headrace.wire.entities import Entity
from headrace.wire.fetch_request import read_fetch_request

if TYPE_CHECKING:
    from headrace.testing.simulation.broker import SimulatedBroker

CONSUME: Final = -1
LATEST_OFFSET: Final = -2
DELETE_RECORDS: Final = -3
LISTENER: Final = "INTERNAL"
_READ_BYTES: Final = 400


class SimulatedClock(Clock):
    """The clock of a simulated broker, for its handlers."""

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    def wall_ms(self) -> int:
        return self._partitions.wall_ms()

    def monotonic_ms(self) -> int:
        return self._partitions.monotonic_ms()


class SimulatedServer:
    def __init__(self, broker: SimulatedBroker, history: History) -> None:
        self._broker = broker
        self._history = history
        self._partitions = partitions = broker.partitions
        sessions = FetchSessions()
        self._fetches = Fetch(partitions, Leaders(broker.view), sessions, clock=SimulatedClock(partitions))
        partitions.subscribe(lambda one: sessions.leads_more(partitions.monotonic_ms()) if one.is_leader else None)
        self._of_brokers = broker.table

    async def __call__(self, api_key: int, body: Arguments) -> Entity:
        if not self._broker.is_up:
            raise ConnectionError
        handler = self._of_brokers.get(api_key)
        if handler is not None:
            return await self._inner(api_key, handler.versions[-1], body)
        if api_key == ApiKey.FETCH:
            return await self._fetch(**body)
        if api_key == ApiKey.LIST_OFFSETS:
            return self._earliest(**body)
        if api_key == ApiKey.PRODUCE:
            return await self._produce(**body)
        if api_key == LATEST_OFFSET:
            return self._latest(**body)
        if api_key == DELETE_RECORDS:
            return await self._delete(**body)
        assert api_key == CONSUME
        return self._consume(**body)

    # Brokers

    async def _inner(self, api_key: int, version: int, body: Arguments) -> Entity:
        """Encodes request and answer, and uses the broker's own handler table."""
        frame = bytes(codec.encode_request(api_key, version, 0, "broker", body)[4:])
        answer = await serve_forwarded(
            self._of_brokers,
            frame,
            FALLBACK_APIS,
            authorization=OPEN,
            host="",
            listener=LISTENER,
            principal=ANONYMOUS,
            now_ms=0,
        )
        return codec.read_response(api_key, version, answer)[1]

    async def _fetch(self, frame: bytes) -> bytes:
        """Keeps fetch sessions, as a broker does."""
        header, at = codec.read_request_header(memoryview(frame)[4:])
        request = read_fetch_request(memoryview(frame)[4:], at, header.api_version)
        context = RequestContext(header, "", LISTENER, ANONYMOUS, UNRESTRICTED, self._partitions.monotonic_ms())
        answer = self._fetches.serve(request, context)
        parts = answer if isinstance(answer, list) else await answer
        if not self._broker.is_up:
            raise ConnectionError
        assert isinstance(parts, list)
        whole = (part.data if isinstance(part, SimulatedSlice) else part for part in parts)
        return b"".join(whole)[4:]  # type: ignore[arg-type]  # the log gives no other slices

    def _earliest(self, topic: str, index: int, leader_epoch: int) -> tuple[ErrorCode, int]:
        try:
            return ErrorCode.none, self._partitions.led(topic, index).offset_for(EARLIEST, None, leader_epoch).offset
        except Fault as fault:
            return fault.code, -1

    # Clients

    async def _produce(self, topic: str, index: int, values: list[int], timeout_ms: int) -> tuple[ErrorCode, int]:
        try:
            partition = self._partitions.led(topic, index)
            appended = partition.append(encode(values), acks=-1, now_ms=0)
        except Fault as fault:
            return fault.code, -1
        first = appended.first_offset
        answered: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

        def decided(code: ErrorCode) -> None:
            if self._broker.is_up and not answered.done():
                self._history.answered(self._broker.id, partition, first, values, code)
                answered.set_result(code)

        partition.when_committed(appended.last_offset + 1, decided)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await answered, first
        except TimeoutError:
            return ErrorCode.request_timed_out, -1

    def _consume(self, topic: str, index: int, offset: int) -> tuple[ErrorCode, bytes, uuid.UUID | None]:
        try:
            partition = self._partitions.held(topic, index)
            read = partition.read(offset, _READ_BYTES)
        except Fault as fault:
            return fault.code, b"", None
        data = b"" if read.slice is None else read.slice.data  # type: ignore[attr-defined]
        return ErrorCode.none, data, partition.topic_id

    def _latest(self, topic: str, index: int) -> tuple[ErrorCode, int]:
        try:
            partition = self._partitions.led(topic, index)
            offset = partition.offset_for(LATEST).offset
        except Fault as fault:
            return fault.code, -1
        self._history.latest_named(self._broker.id, partition, offset)
        return ErrorCode.none, offset

    async def _delete(self, topic: str, index: int, share: float, timeout_ms: int) -> tuple[ErrorCode, int]:
        """Deletes this share of the committed records, oldest first."""
        try:
            partition = self._partitions.led(topic, index)
            start = partition.log_start_offset
            offset = start + int(share * (partition.high_watermark - start))
            self._history.deleting(partition, offset)
            code = await partition.wait_deleted(partition.delete_records_before(offset), timeout_ms)
        except Fault as fault:
            return fault.code, -1
        return code, offset


def brokers_handlers(controller: Controller, view: ClusterView) -> list[Handler]:
    """Handlers of brokers' requests to the controller, over the wire or as fallback requests."""
    return [handler(controller, view) for handler in (AlterPartition, BrokerHeartbeat, AssignReplicasToDirs)]
