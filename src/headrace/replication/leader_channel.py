"""The connection to one leader: one request at a time, responses read in place.

A fetch response may have megabytes, and the first access to new memory is slow, so the socket reads into one buffer
that the next response reuses. The caller must finish with a response before the next request; a follower does, because
it appends the records at once. The buffer shrinks after many small responses.

A timeout or a lost connection ends the channel; the fetcher opens a new one. Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import struct
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from uuid import UUID

from headrace.client.errors import NoAnswer, Unreachable
from headrace.client.login import encryption, log_in
from headrace.client.server_kind import connect_trouble
from headrace.kernel.errors import ErrorCode
from headrace.kernel.isolation import READ_UNCOMMITTED
from headrace.replication.core.fetch_session import SessionRequest
from headrace.wire import codec
from headrace.wire.apis import ApiKey
from headrace.wire.entities import Body, Entity
from headrace.wire.fetch_request import WantedPartition
from headrace.wire.replica_fetch import (
    FetchAnswer,
    FetchLimits,
    by_topic,
    encode_replica_fetch,
    read_fetch_answer,
)

if TYPE_CHECKING:
    from headrace.client.security import ClientSecurity

_LIST_OFFSETS_VERSION: Final = 9
_EARLIEST: Final = -2
_SMALL_BYTES: Final = 64 * 1024
_LARGEST_BYTES: Final = 1 << 30
# After this many small responses in a row, the load that needed a large buffer is over.
_SMALL_ANSWERS_BEFORE_SHRINKING: Final = 1000
_LENGTH: Final = struct.Struct(">i")
# An event loop may call a timer slightly early.
_GRACE_S: Final = 0.001


class ReplicaFetch(NamedTuple):
    broker: tuple[int, int]  # (id, broker epoch)
    limits: FetchLimits
    partition_max_bytes: int
    session: SessionRequest


def fetch_frame(correlation_id: int, client_id: str, request: ReplicaFetch) -> bytearray:
    """The encoded request, length prefix included."""
    session = request.session
    topics: dict[UUID, list[WantedPartition]] = {}
    for (topic_id, index), at in session.named.items():
        wanted = WantedPartition(
            index, at.leader_epoch, at.offset, at.last_epoch, at.log_start, request.partition_max_bytes
        )
        topics.setdefault(topic_id, []).append(wanted)
    return encode_replica_fetch(
        correlation_id,
        client_id,
        request.broker,
        request.limits,
        (session.session_id, session.epoch),
        topics,
        by_topic(session.forgotten),
    )


class LeaderChannel(Protocol):
    @property
    def closed(self) -> bool: ...
    async def fetch(self, request: ReplicaFetch, timeout_s: float) -> FetchAnswer: ...
    async def earliest_offset(
        self, broker_id: int, topic: str, index: int, leader_epoch: int, timeout_s: float
    ) -> tuple[ErrorCode, int]: ...
    def close(self) -> None: ...


class _OneAnswer(asyncio.BufferedProtocol):
    """Receives one frame into the buffer and passes it on."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.lost: Exception | None = None
        self.waiting: asyncio.Future[memoryview] | None = None
        self._buffer = memoryview(bytearray(_SMALL_BYTES))
        self._filled = 0
        self._small_answers = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        if self._filled < 4:
            return
        (length,) = _LENGTH.unpack_from(self._buffer, 0)
        if not 0 <= length <= _LARGEST_BYTES or self.waiting is None or self._filled > 4 + length:
            self.fail(Unreachable("an answer that is none: not a Headrace broker?"))
            return
        if self._filled < 4 + length:
            if len(self._buffer) < 4 + length:
                larger = memoryview(bytearray(1 << (3 + length).bit_length()))
                larger[: self._filled] = self._buffer[: self._filled]
                self._buffer = larger
            return
        frame = self._buffer[4 : self._filled].toreadonly()
        self._filled = 0
        waiting, self.waiting = self.waiting, None
        self._shrink_after(length)
        if not waiting.done():
            waiting.set_result(frame)

    def _shrink_after(self, length: int) -> None:
        if length >= _SMALL_BYTES or len(self._buffer) == _SMALL_BYTES:
            self._small_answers = 0
            return
        self._small_answers += 1
        if self._small_answers > _SMALL_ANSWERS_BEFORE_SHRINKING:
            self._buffer = memoryview(bytearray(_SMALL_BYTES))

    def connection_lost(self, error: Exception | None) -> None:
        self.fail(Unreachable(f"connection lost ({error})" if error else "connection closed by the broker"))

    def fail(self, fault: Exception) -> None:
        self.lost = self.lost or fault
        waiting, self.waiting = self.waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_exception(self.lost)
        if self.transport is not None:
            self.transport.abort()


class WireChannel:
    def __init__(self, address: str, client_id: str, answers: _OneAnswer) -> None:
        self._address = address
        self._client_id = client_id
        self._answers = answers
        self._correlation_id = 0
        self._loop = asyncio.get_running_loop()
        self._deadline = 0.0
        self._asked = ("", 0.0)
        self._timer: asyncio.TimerHandle | None = None
        self._renew_at: float | None = None

    @classmethod
    async def open(
        cls, host: str, port: int, *, client_id: str, timeout_s: float, security: ClientSecurity | None = None
    ) -> WireChannel:
        """Raises Unreachable with the address, and Refused if the authentication fails."""
        try:
            async with asyncio.timeout(timeout_s):
                _, answers = await asyncio.get_running_loop().create_connection(
                    _OneAnswer, host, port, **encryption(host, security)
                )
        except (OSError, TimeoutError) as error:
            raise Unreachable(connect_trouble(host, port, error, timeout_s)) from error
        channel = cls(f"{host}:{port}", client_id, answers)
        if security is not None and security.uses_sasl:
            try:
                channel._renew_at = await log_in(partial(channel._ask_to_log_in, timeout_s), security, channel._address)
            except BaseException:  # also if cancelled: the socket must not stay open
                channel.close()
                raise
        return channel

    async def _ask_to_log_in(self, timeout_s: float, api_key: ApiKey, version: int, body: Body) -> Entity:
        frame = codec.encode_request(api_key, version, self._next_id(), self._client_id, body)
        return codec.read_response(api_key, version, await self._ask(frame, "the login", timeout_s))[1]

    @property
    def closed(self) -> bool:
        """Whether a request needs a new channel: this one is closed, or its SASL session ends soon."""
        if self._renew_at is not None and self._loop.time() >= self._renew_at:
            return True
        return self._answers.lost is not None

    async def fetch(self, request: ReplicaFetch, timeout_s: float) -> FetchAnswer:
        frame = fetch_frame(self._next_id(), self._client_id, request)
        return read_fetch_answer(await self._ask(frame, "fetch", timeout_s))

    async def earliest_offset(
        self, broker_id: int, topic: str, index: int, leader_epoch: int, timeout_s: float
    ) -> tuple[ErrorCode, int]:
        wanted = {"partition_index": index, "current_leader_epoch": leader_epoch, "timestamp": _EARLIEST}
        body = {
            "replica_id": broker_id,
            "isolation_level": READ_UNCOMMITTED,
            "topics": [{"name": topic, "partitions": [wanted]}],
        }
        frame = codec.encode_request(ApiKey.LIST_OFFSETS, _LIST_OFFSETS_VERSION, self._next_id(), self._client_id, body)
        answer = await self._ask(frame, "list offsets", timeout_s)
        _, answered = codec.read_response(ApiKey.LIST_OFFSETS, _LIST_OFFSETS_VERSION, answer)
        found = answered.topics[0].partitions[0]
        return found.error_code, int(found.offset)

    def _next_id(self) -> int:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        return self._correlation_id

    async def _ask(self, frame: bytearray, what: str, timeout_s: float) -> memoryview:
        answers = self._answers
        if answers.lost is not None:
            raise Unreachable(f"{self._address}: {answers.lost}")
        assert answers.waiting is None, "one request at a time"
        assert answers.transport is not None
        loop = self._loop
        future: asyncio.Future[memoryview] = loop.create_future()
        answers.waiting = future
        answers.transport.write(frame)
        self._deadline = loop.time() + timeout_s
        self._asked = (what, timeout_s)
        if self._timer is None or self._timer.when() > self._deadline:
            self._watch()
        try:
            return await future
        except asyncio.CancelledError:
            self.close()
            raise

    def _watch(self) -> None:
        """Uses one timer for many requests: if it fires for an older deadline, it is set again for the present one."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._deadline, self._look_at_deadline)

    def _look_at_deadline(self) -> None:
        self._timer = None
        if self._answers.waiting is None or self._answers.lost is not None:
            return
        if self._deadline > self._loop.time() + _GRACE_S:
            self._watch()
        else:
            what, timeout_s = self._asked
            self._answers.fail(NoAnswer(f"{self._address} gave no answer to {what} within {timeout_s:g} s"))

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._answers.fail(Unreachable("closed by us"))
