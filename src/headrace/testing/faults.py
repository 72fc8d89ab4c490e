"""Faults by request: a test asks the broker to fail the next requests of an API.

    headrace.fail("Produce", error="NOT_LEADER_OR_FOLLOWER", times=2)
    headrace.fail("Produce", drop_answer=True)              # applied, but the client never learns it
    headrace.fail("Fetch", delay=0.5, topic="orders")

The broker's connections call `RequestFaults.serve` instead of the broker. It looks for the first fault that matches the
request, and carries it out around the broker's own answer. Requests without a matching fault pass unchanged.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import random
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

from headrace.broker.environment import Serve
from headrace.kernel.errors import ErrorCode
from headrace.net.connection import Connection
from headrace.net.replies import CLOSE, Answer, FileSlice, Pending, Reply
from headrace.testing.fault_answers import can_refuse, refusal, throttled
from headrace.testing.request_log import RequestLog, SeenRequest
from headrace.testing.request_topics import named_partitions
from headrace.wire.apis import ApiKey
from headrace.wire.codec import MalformedRequest, RequestHeader, read_request_header

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


_KINDS: Final = ("error", "close", "drop_answer", "silent", "corrupt", "throttle")
_FETCH_BY_ID_FROM: Final = 13
_BYTES: Final = (bytes, bytearray, memoryview)


class FaultError(ValueError):
    """The fault does not exist, or its arguments contradict each other."""


@dataclasses.dataclass(eq=False)
class Fault:
    """A fault that a test asked for. `hits` counts the requests that it has failed; `remove` ends it."""

    api: ApiKey
    error: ErrorCode | None = None
    delay_s: float = 0.0
    close: bool = False
    drop_answer: bool = False
    silent: bool = False
    throttle_ms: int = 0
    corrupt: bool = False
    times: int | None = 1
    client_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    probability: float = 1.0
    chance: random.Random = dataclasses.field(default_factory=random.Random)
    hits: int = 0
    removed: bool = False

    def remove(self) -> None:
        self.removed = True

    @property
    def is_over(self) -> bool:
        return self.removed or (self.times is not None and self.hits >= self.times)

    def __str__(self) -> str:
        if self.error is not None:
            return self.error.name.upper()
        named = ("close", "drop_answer", "silent", "corrupt", "throttle_ms", "delay_s")
        return ", ".join(name for name in named if getattr(self, name))


class FaultArguments(TypedDict, total=False):
    """The arguments of `fail`, with `delay` and `throttle` in seconds."""

    error: str | None
    delay: float
    close: bool
    drop_answer: bool
    silent: bool
    throttle: float
    corrupt: bool
    times: int | None
    client_id: str | None
    topic: str | None
    partition: int | None
    probability: float
    seed: int | None


def fault(api: str, **how: Unpack[FaultArguments]) -> Fault:
    """Checks the arguments of `fail`. Raises FaultError."""
    key = next((one for one in ApiKey if one.title.lower() == api.lower()), None)
    if key is None:
        raise FaultError(f"{api!r} is no API of Kafka's protocol; examples are Produce, Fetch and OffsetCommit")
    unknown = sorted(set(how) - set(FaultArguments.__annotations__))
    if unknown:
        raise FaultError(f"a fault has no argument {', '.join(unknown)}")
    chosen = [name for name in _KINDS if how.get(name)]
    delay, throttle = how.get("delay", 0.0), how.get("throttle", 0.0)
    if not chosen and not delay:
        raise FaultError(f"a fault needs one of delay, {', '.join(_KINDS)}")
    if len(chosen) > 1:
        raise FaultError(f"{' and '.join(chosen)} cannot be combined: ask for two faults")
    times, probability = how.get("times", 1), how.get("probability", 1.0)
    if times is not None and times < 1:
        raise FaultError(f"times={times}: must be at least 1, or None for every request")
    if not 0 < probability <= 1:
        raise FaultError(f"probability={probability}: must be above 0 and at most 1")
    if min(delay, throttle) < 0:
        raise FaultError("delay and throttle are seconds: they cannot be negative")
    error = how.get("error")
    return Fault(
        api=key,
        error=None if error is None else _error_code(error),
        delay_s=delay,
        close=how.get("close", False),
        drop_answer=how.get("drop_answer", False),
        silent=how.get("silent", False),
        throttle_ms=round(throttle * 1000),
        corrupt=how.get("corrupt", False),
        times=times,
        client_id=how.get("client_id"),
        topic=how.get("topic"),
        partition=how.get("partition"),
        probability=probability,
        chance=random.Random(how.get("seed")),
    )


def _error_code(name: str) -> ErrorCode:
    try:
        code = ErrorCode[name.lower()]
    except KeyError:
        raise FaultError(f"{name!r} is no error of Kafka's protocol; an example is NOT_LEADER_OR_FOLLOWER") from None
    return code


class RequestFaults:
    """The faults of one broker. `add` may be called from any thread."""

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._broker: Broker | None = None
        # What the fetch sessions of a connection hold: later requests of a session do not name it again.
        self._fetched: dict[Connection, set[tuple[str, int]]] = {}
        self.log = RequestLog()

    def belongs_to(self, broker: Broker) -> None:
        self._broker = broker

    def add(self, fault: Fault) -> Fault:
        """Raises FaultError."""
        assert self._broker is not None
        if fault.error is not None and not can_refuse(fault.api, self._broker.parts.table.get(fault.api)):
            raise FaultError(f"an answer of {fault.api.title} has no error code: use close, drop_answer or silent")
        with self._lock:
            self._faults.append(fault)
        return fault

    def clear(self) -> None:
        with self._lock:
            self._faults.clear()

    def intercept(self, serve: Serve) -> Serve:
        def serve_or_fail(frame: memoryview, connection: Connection) -> Reply:
            return self._serve(serve, frame, connection)

        return serve_or_fail

    # Event loop

    def _serve(self, serve: Serve, frame: memoryview, connection: Connection) -> Reply:
        try:
            header, body_at = read_request_header(frame)
        except (MalformedRequest, IndexError):
            return serve(frame, connection)  # also the bare frames of an old SASL login
        seen = SeenRequest(self._wall_ms(), header)
        self.log.add(seen)
        matched = self._match(header, frame, body_at, connection)
        if matched is None:
            return _noted(serve(frame, connection), seen)
        seen.fault = str(matched)
        if matched.delay_s:
            # The frame is valid only during this call.
            copy = memoryview(bytearray(frame))
            return Pending.of(self._late(serve, matched, header, copy, body_at, connection, seen))
        return _noted(self._carry_out(serve, matched, header, frame, body_at, connection), seen)

    async def _late(
        self,
        serve: Serve,
        fault: Fault,
        header: RequestHeader,
        frame: memoryview,
        body_at: int,
        connection: Connection,
        seen: SeenRequest,
    ) -> Answer:
        await asyncio.sleep(fault.delay_s)
        answer = await _settled(self._carry_out(serve, fault, header, frame, body_at, connection))
        seen.answered(answer)
        return answer

    def _carry_out(
        self,
        serve: Serve,
        fault: Fault,
        header: RequestHeader,
        frame: memoryview,
        body_at: int,
        connection: Connection,
    ) -> Reply:
        assert self._broker is not None
        if fault.close:
            return CLOSE
        if fault.error is not None:
            fetched = self._as_requested(header, self._fetched.get(connection, set()))
            return refusal(self._broker.parts.table, header, frame, body_at, fault.error, fetched)
        reply = serve(frame, connection)
        if fault.drop_answer:
            return Pending.of(_applied_then_closed(reply))
        if fault.silent:
            return Pending.of(_applied_then_silent(reply))
        if fault.throttle_ms:
            connection.throttle(fault.throttle_ms)
            return _changed(reply, lambda answer: throttled(answer, header, fault.throttle_ms))
        if fault.corrupt:
            return _changed(reply, _corrupted)
        return reply

    def _match(self, header: RequestHeader, frame: memoryview, body_at: int, connection: Connection) -> Fault | None:
        if not self._faults:
            return None
        with self._lock:
            self._faults = [one for one in self._faults if not one.is_over]
            candidates = [one for one in self._faults if one.api == header.api_key]
        if not candidates:
            return None
        named = self._named(header, frame, body_at, connection)
        for one in candidates:
            if one.client_id is not None and one.client_id != header.client_id:
                continue
            if one.topic is not None and not any(topic == one.topic for topic, _ in named):
                continue
            if one.partition is not None and not any(
                index == one.partition and one.topic in (None, topic) for topic, index in named
            ):
                continue
            if one.probability < 1 and one.chance.random() >= one.probability:
                continue
            one.hits += 1
            return one
        return None

    def _forget(self, connection: Connection) -> None:
        self._fetched.pop(connection, None)

    def _as_requested(self, header: RequestHeader, named: set[tuple[str, int]]) -> list[tuple[str | bytes, int]]:
        """The partitions with the name or the id of their topic, as the version of a Fetch has it."""
        assert self._broker is not None
        topics = self._broker.parts.gateway.view.current.topics
        if header.api_version < _FETCH_BY_ID_FROM:
            return list(named)
        return [(topics[topic].id.bytes, index) for topic, index in named if topic in topics]

    def _named(
        self, header: RequestHeader, frame: memoryview, body_at: int, connection: Connection
    ) -> set[tuple[str, int]]:
        assert self._broker is not None
        handler = self._broker.parts.table.get(header.api_key)
        if handler is None or header.api_version not in handler.versions:
            return set()
        try:
            request = handler.read(header, frame, body_at)
        except MalformedRequest:
            return set()
        names = self._broker.parts.gateway.view.current.topic_names
        named = named_partitions(request, names)
        if header.api_key == ApiKey.FETCH:
            if connection not in self._fetched:
                self._fetched[connection] = set()
                connection.when_closed(self, partial(self._forget, connection))
            held = self._fetched[connection]
            held |= named
            return held
        return named


def _noted(reply: Reply, seen: SeenRequest) -> Reply:
    if not isinstance(reply, Pending):
        seen.answered(reply)
    elif reply.ready:
        seen.answered(reply.answer)
    else:
        reply.keeper = _NotingRecord(reply, seen)
    return reply


class _NotingRecord:
    """The record of a pending request: also notes the answer in the log of requests."""

    def __init__(self, pending: Pending, seen: SeenRequest) -> None:
        self._pending = pending
        self._seen = seen
        self._inner = pending.keeper

    def settled(self) -> None:
        self._seen.answered(self._pending.answer)
        if self._inner is not None:
            self._inner.settled()

    def explain(self, error: Exception) -> Answer:
        return CLOSE if self._inner is None else self._inner.explain(error)


async def _settled(reply: Reply) -> Answer:
    return await reply if isinstance(reply, Pending) else reply


async def _applied_then_closed(reply: Reply) -> Answer:
    await _settled(reply)
    return CLOSE


async def _applied_then_silent(reply: Reply) -> Answer:
    await _settled(reply)
    return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]


def _changed(reply: Reply, change: Callable[[Answer], Answer]) -> Reply:
    if not isinstance(reply, Pending):
        return change(reply)

    async def later() -> Answer:
        return change(await reply)

    return Pending.of(later())


def _corrupted(answer: Answer) -> Answer:
    """Changes the last byte of the records, if there are any, or of the answer."""
    if answer is None or answer is CLOSE:
        return answer
    pieces = [
        bytearray(part) if isinstance(part, _BYTES) else _read(part)
        for part in (answer if isinstance(answer, list) else [answer])
    ]
    records = [piece for piece, part in zip(pieces, answer, strict=False) if not isinstance(part, (*_BYTES, int))]
    damaged = (records or pieces)[-1]
    damaged[-1] ^= 0xFF
    return list(pieces)


def _read(part: FileSlice) -> bytearray:
    return bytearray(os.pread(part.file.fileno(), part.length, part.position))
