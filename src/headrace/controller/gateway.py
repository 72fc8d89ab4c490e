"""The way to the active controller from any broker: a call on the same broker, the wire to another.

A client's request for the controller may arrive at any broker. The gateway forwards it in an Envelope (KIP-590) with
the client's own header inside, so the controller's answer goes back to the client unchanged. A broker that is not the
controller refuses an envelope, so a request is never forwarded in a circle. While there is no controller, or it cannot
be reached, the gateway retries until the request's deadline. A request whose answer was lost may therefore be executed
twice, as with any retry. If the controller does not answer (frozen, network fault), the gateway moves to its successor
as soon as there is one. It answers shortly before the client's own timeout, while the client still waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from typing import Final, Protocol, TypeVar, cast
from uuid import UUID

from headrace.client.errors import NoAnswer, Unreachable
from headrace.cluster.core.losses import ReplicaKey, ReplicaLosses
from headrace.cluster.view import ClusterView
from headrace.controller.controller import Controller
from headrace.controller.core.topics import NewTopic
from headrace.controller.ledger import Deposed
from headrace.controller.results import PartitionResult, TopicResult
from headrace.coordination.fallback_channel import Connect, ControllerConnection
from headrace.kernel.errors import ErrorCode, Refused
from headrace.kernel.ids import TopicPartition
from headrace.security.principal import written_principal
from headrace.wire import codec
from headrace.wire.apis import ApiKey
from headrace.wire.codec import RequestHeader
from headrace.wire.entities import Body

logger = logging.getLogger(__name__)

Reply = TypeVar("Reply")

# Kafka's id for "a directory that is gone".
LOST_DIRECTORY: Final = UUID(int=1)
# Our own ids, from the range that Kafka reserves and does not use: a full directory, logs that lack records, and a mark
# that a directory is offline.
FULL_DIRECTORY: Final = UUID(int=99)
INCOMPLETE_DIRECTORY: Final = UUID(int=98)
OFFLINE_DIRECTORY: Final = UUID(int=97)
_PAUSE_SECONDS: Final = 0.1
_CONNECT_SECONDS: Final = 5.0
# A controller may have answered just before it was replaced: how long the gateway still waits for that answer.
_LAST_WORDS_SECONDS: Final = 1.0
# A connection without an answer for this long is reopened. A request with a shorter deadline only stops waiting,
# because other requests wait on the same connection and would have to be sent again.
_SILENCE_SECONDS: Final = 5.0
# For requests without a timeout of their own. Most clients wait 30 seconds for an answer, and a new controller is
# elected one session timeout (18 seconds by default) after the old one died.
DEFAULT_TIMEOUT_SECONDS: Final = 25.0
_MARGIN_SHARE: Final = 0.05
_LONGEST_MARGIN_SECONDS: Final = 1.0


class ForwardedClient(Protocol):
    """The client of a request: the controller authorizes it again. A `RequestContext` is one."""

    @property
    def header(self) -> RequestHeader: ...
    @property
    def principal(self) -> str: ...
    @property
    def claims(self) -> tuple[str, ...]: ...
    @property
    def peer_host(self) -> str: ...


class ControllerGateway:
    def __init__(
        self,
        controller: Controller,
        view: ClusterView,
        listener: str,
        own: Callable[[], tuple[int, int]],
        connect: Connect,
    ) -> None:
        """`listener`: the one that brokers use among themselves; `own`: this broker's (id, epoch); `connect`: opens a
        connection to the controller."""
        self.controller = controller
        self.view = view
        self._listener = listener
        self._own = own
        self._connect = connect
        self._opening: asyncio.Task[ControllerConnection] | None = None
        self._connected_to: tuple[int, str, int] | None = None

    async def serve(
        self,
        request: object,
        client: ForwardedClient,
        locally: Callable[[], Awaitable[Reply]],
        *,
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> Reply:
        """Answers a client's request: here if this broker is the controller, otherwise through the controller."""

        async def remotely(connection: ControllerConnection, left: float) -> Reply:
            written = plain(request)
            assert isinstance(written, dict), request
            frame = codec.encode_request(*client.header, written)
            body = {
                "request_data": bytes(frame[4:]),
                "request_principal": written_principal(client.principal, client.claims),
                "client_host_address": client.peer_host.encode(),
            }
            answer = await connection.request(ApiKey.ENVELOPE, body, version=0, timeout=left)
            if answer.error_code == ErrorCode.not_controller:
                raise Deposed("that broker is not the controller")
            if answer.error_code != ErrorCode.none or answer.response_data is None:
                raise Refused(ErrorCode(answer.error_code), "the controller could not open the envelope")
            data = bytes(answer.response_data)
            return cast("Reply", plain(codec.read_response(client.header.api_key, client.header.api_version, data)[1]))

        return await self._to_controller(locally, remotely, timeout)

    async def create_topics(
        self, topics: Sequence[NewTopic], *, timeout: float = DEFAULT_TIMEOUT_SECONDS
    ) -> list[TopicResult]:
        """Creates topics that brokers themselves need. Returns when this broker's image contains them."""

        async def locally() -> list[TopicResult]:
            return await self.controller.create_topics(topics)

        async def remotely(connection: ControllerConnection, left: float) -> list[TopicResult]:
            body = {
                "topics": [_creatable(topic) for topic in topics],
                "timeout": int(left * 1000),
                "validate_only": False,
            }
            answer = await connection.request(ApiKey.CREATE_TOPICS, body, version=7, timeout=left)
            return [TopicResult(str(t.name), ErrorCode(t.error_code), t.error_message) for t in answer.topics]

        results = await self._to_controller(locally, remotely, timeout)
        there = [r.name for r in results if r.error in (ErrorCode.none, ErrorCode.topic_already_exists)]
        await self.view.wait_until(lambda image: all(name in image.topics for name in there), timeout)
        return results

    async def allocate_producer_ids(self, *, timeout: float = DEFAULT_TIMEOUT_SECONDS) -> tuple[int, int]:
        """(first id, size of the block)."""

        async def locally() -> tuple[int, int]:
            return await self.controller.allocate_producer_ids(*self._own())

        async def remotely(connection: ControllerConnection, left: float) -> tuple[int, int]:
            broker_id, epoch = self._own()
            body = {"broker_id": broker_id, "broker_epoch": epoch}
            answer = await connection.request(ApiKey.ALLOCATE_PRODUCER_IDS, body, version=0, timeout=left)
            _raise(answer.error_code, "no block of producer ids")
            return int(answer.producer_id_start), int(answer.producer_id_len)

        return await self._to_controller(locally, remotely, timeout)

    async def controlled_shutdown(self, *, timeout: float = DEFAULT_TIMEOUT_SECONDS) -> bool:
        """Asks the controller to move leadership off this broker. True when it may stop."""

        async def locally() -> bool:
            return await self.controller.controlled_shutdown(*self._own())

        async def remotely(connection: ControllerConnection, left: float) -> bool:
            broker_id, epoch = self._own()
            body = {
                "broker_id": broker_id,
                "broker_epoch": epoch,
                "current_metadata_offset": self.view.current.version,
                "want_fence": False,
                "want_shut_down": True,
            }
            answer = await connection.request(ApiKey.BROKER_HEARTBEAT, body, version=0, timeout=left)
            _raise(answer.error_code, "controlled shutdown")
            return bool(answer.should_shut_down)

        return await self._to_controller(locally, remotely, timeout)

    async def report_losses(self, losses: ReplicaLosses, *, timeout: float = DEFAULT_TIMEOUT_SECONDS) -> None:
        """Reports which replicas of this broker lack records, so that other replicas lead."""

        async def locally() -> None:
            await self.controller.report_replicas(*self._own(), losses)

        directories: list[Body] = [
            {"id_": LOST_DIRECTORY, "topics": _replica_rows(losses.missing)},
            {"id_": INCOMPLETE_DIRECTORY, "topics": _replica_rows(losses.incomplete)},
        ]
        if losses.is_offline:
            directories.append({"id_": OFFLINE_DIRECTORY, "topics": []})
        await self._to_controller(locally, self._reporter(directories, "replicas that lack records"), timeout)

    async def report_full(self, full: Sequence[TopicPartition], *, timeout: float = DEFAULT_TIMEOUT_SECONDS) -> None:
        """Reports that these replicas of this broker are on a full disk, so that other replicas lead."""

        async def locally() -> None:
            await self.controller.report_replicas(*self._own(), None, full)

        topics = self.view.current.topics
        replicas = [(topics[name].id, index) for name, index in full if name in topics]
        directories: list[Body] = [{"id_": FULL_DIRECTORY, "topics": _replica_rows(replicas)}]
        await self._to_controller(locally, self._reporter(directories, "replicas on a full disk"), timeout)

    def _reporter(self, directories: list[Body], what: str) -> Callable[[ControllerConnection, float], Awaitable[None]]:
        async def remotely(connection: ControllerConnection, left: float) -> None:
            broker_id, epoch = self._own()
            body = {"broker_id": broker_id, "broker_epoch": epoch, "directories": directories}
            answer = await connection.request(ApiKey.ASSIGN_REPLICAS_TO_DIRS, body, version=0, timeout=left)
            _raise(answer.error_code, what)

        return remotely

    async def alter_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int]], *, timeout: float = DEFAULT_TIMEOUT_SECONDS
    ) -> list[PartitionResult]:
        """Moves partitions, for a unit whose number of processes changes."""

        async def locally() -> list[PartitionResult]:
            return await self.controller.alter_reassignments(targets)

        async def remotely(connection: ControllerConnection, left: float) -> list[PartitionResult]:
            topics: dict[str, list[Body]] = {}
            for (name, index), replicas in targets.items():
                topics.setdefault(name, []).append({"partition_index": index, "replicas": list(replicas)})
            rows = [{"name": name, "partitions": partitions} for name, partitions in topics.items()]
            body = {"timeout": int(left * 1000), "topics": rows}
            answer = await connection.request(ApiKey.ALTER_PARTITION_REASSIGNMENTS, body, version=0, timeout=left)
            _raise(answer.error_code, "reassignment")
            return [
                PartitionResult(
                    TopicPartition(str(topic.name), int(one.partition_index)),
                    ErrorCode(one.error_code),
                    one.error_message,
                )
                for topic in answer.responses
                for one in topic.partitions
            ]

        return await self._to_controller(locally, remotely, timeout)

    async def unregister_broker(self, broker_id: int, *, timeout: float = DEFAULT_TIMEOUT_SECONDS) -> None:
        """Removes a stopped broker from the cluster."""

        async def locally() -> None:
            await self.controller.unregister_broker(broker_id)

        async def remotely(connection: ControllerConnection, left: float) -> None:
            answer = await connection.request(
                ApiKey.UNREGISTER_BROKER, {"broker_id": broker_id}, version=0, timeout=left
            )
            _raise(answer.error_code, f"broker {broker_id} stays registered")

        await self._to_controller(locally, remotely, timeout)

    async def close(self) -> None:
        await self._disconnect()

    async def _to_controller(
        self,
        locally: Callable[[], Awaitable[Reply]],
        remotely: Callable[[ControllerConnection, float], Awaitable[Reply]],
        timeout: float,
    ) -> Reply:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout - min(_LONGEST_MARGIN_SECONDS, timeout * _MARGIN_SHARE)
        told = ""
        while True:
            try:
                if self.controller.is_active:
                    return await _by(deadline, locally())
                return await self._ask(remotely, deadline)
            except (Deposed, Unreachable, NoAnswer) as fault:
                if fault.message != told:
                    logger.info("the controller did not take a request: %s", fault.message)
                    told = fault.message
                if loop.time() + _PAUSE_SECONDS >= deadline:
                    code = ErrorCode.request_timed_out
                    raise Refused(
                        code, f"no controller took the request within {timeout:g} s ({fault.message})"
                    ) from fault
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _ask(self, remotely: Callable[[ControllerConnection, float], Awaitable[Reply]], deadline: float) -> Reply:
        """One attempt at the controller that the image names, until it answers, is replaced, or the time is over."""
        loop = asyncio.get_running_loop()
        image = self.view.current
        broker = image.brokers.get(image.controller_id)
        endpoint = None if broker is None else broker.endpoint(self._listener)
        if broker is None or endpoint is None or broker.id == self._own()[0]:
            raise Deposed("no controller is known right now")
        opening = await self._opened((broker.epoch, endpoint.host, endpoint.port))

        async def ask() -> Reply:
            try:
                # Other requests wait for the same connection, so it must not be cancelled here.
                connection = await asyncio.shield(opening)
            except asyncio.CancelledError:
                if opening.cancelled():
                    raise Unreachable(f"controller {broker.id} was replaced while we connected to it") from None
                raise
            # The timeout is applied below: the connection's own would close it for all requests.
            return await remotely(connection, max(0.05, deadline - loop.time()) + _SILENCE_SECONDS)

        began = loop.time()
        left = max(0.05, deadline - began)
        answer = asyncio.ensure_future(ask())
        replaced = asyncio.ensure_future(
            self.view.wait_until(lambda now: now.controller_epoch != image.controller_epoch, left)
        )
        try:
            await asyncio.wait((answer, replaced), timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done() and loop.time() < deadline:
                await asyncio.wait((answer,), timeout=min(_LAST_WORDS_SECONDS, deadline - loop.time()))
            if answer.done():
                return answer.result()
            if loop.time() - began >= _SILENCE_SECONDS:
                await self._disconnect(opening)
            raise NoAnswer(f"controller {broker.id} at {endpoint.host}:{endpoint.port} is silent")
        except Unreachable:
            await self._disconnect(opening)
            raise
        finally:
            for waiting in (answer, replaced):
                waiting.cancel()
            await asyncio.gather(answer, replaced, return_exceptions=True)

    async def _opened(self, address: tuple[int, str, int]) -> asyncio.Task[ControllerConnection]:
        """The shared connection to that controller, possibly still opening."""
        opening = self._opening
        if opening is not None and opening.done():
            failed = opening.cancelled() or opening.exception() is not None
            opening = None if failed or opening.result().closed else opening
        if opening is None or self._connected_to != address:
            former, (_, host, port) = self._opening, address
            client_id = f"broker-{self._own()[0]}-controller"
            connect = self._connect(host, port, client_id=client_id, timeout=_CONNECT_SECONDS)
            self._opening = opening = asyncio.ensure_future(connect)
            self._connected_to = address
            await _close(former)
        return opening

    async def _disconnect(self, only: asyncio.Task[ControllerConnection] | None = None) -> None:
        """`only`: does nothing if another connection has replaced that one."""
        opening = self._opening
        if opening is None or (only is not None and only is not opening):
            return
        self._opening = None
        await _close(opening)


async def _close(opening: asyncio.Task[ControllerConnection] | None) -> None:
    """Cancels a task that is still connecting; its waiting requests get an error."""
    if opening is None or opening.cancel() or opening.cancelled() or opening.exception() is not None:
        return
    await opening.result().close()


async def _by(deadline: float, answer: Awaitable[Reply]) -> Reply:
    """A controller waits while it cannot reach the store, but not longer than the request's deadline."""
    try:
        async with asyncio.timeout_at(deadline):
            return await answer
    except TimeoutError:
        raise NoAnswer("this broker is the controller, and the coordination store does not answer it") from None


def _raise(error_code: int, what: str) -> None:
    code = ErrorCode(error_code)
    if code is ErrorCode.not_controller:
        raise Deposed("that broker is not the controller")
    if code is not ErrorCode.none:
        raise Refused(code, f"{what}: the controller answers {code.name}")


def _replica_rows(replicas: Iterable[ReplicaKey]) -> list[Body]:
    topics: dict[UUID, list[Body]] = {}
    for topic_id, index in sorted(replicas):
        topics.setdefault(topic_id, []).append({"partition_index": index})
    return [{"topic_id": topic_id, "partitions": rows} for topic_id, rows in topics.items()]


def _creatable(topic: NewTopic) -> Body:
    return {
        "name": topic.name,
        "num_partitions": topic.partitions,
        "replication_factor": topic.replication_factor,
        "assignments": [{"partition_index": i, "broker_ids": list(r)} for i, r in topic.assignments.items()],
        "configs": [{"name": name, "value": value} for name, value in topic.configs.items()],
    }


def plain(value: object) -> object:
    """A request entity as the mapping that the codec writes."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, timedelta):
        return codec.millis(value)
    if isinstance(value, datetime):
        return int(value.timestamp() * 1000)
    return value
