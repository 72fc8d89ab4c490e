"""Requests between brokers that may be delayed, reordered, lost, duplicated or cut off in one direction.

Less reliable than TCP on purpose: requests of one connection may be reordered and may arrive twice, so that the tested
code cannot rely on the order of a connection. A lost request or answer is a time-out, as with a dead peer.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from headrace.client.errors import NoAnswer, Unreachable
from headrace.kernel.errors import ErrorCode
from headrace.replication.leader_channel import ReplicaFetch, fetch_frame
from headrace.testing.simulation.faults import CALM, Faults
from headrace.testing.simulation.virtual_loop import context_of
from headrace.wire.apis import ApiKey
from headrace.wire.entities import Entity
from headrace.wire.replica_fetch import FetchAnswer, read_fetch_answer

CLIENT: Final = 50  # node number of all clients in a link
# Requests of simulated clients are calls with named values, not wire fields.
Arguments: TypeAlias = dict[str, Any]
Serve = Callable[[int, Arguments], Awaitable[Entity]]  # (api key, body) → answer


class SimulatedNetwork:
    def __init__(self, chance: random.Random) -> None:
        self.faults: Faults = CALM
        self.cut: set[tuple[int, int]] = set()  # (from, to)
        self._held: dict[tuple[int, int], list[Callable[[], None]]] = {}
        self._chance = chance
        self._servers: dict[int, Serve] = {}
        # A sent message arrives even if its sender dies or freezes.
        self._outside = context_of(None)
        self._tasks: set[asyncio.Task[None]] = set()

    def listen(self, broker: int, serve: Serve) -> None:
        self._servers[broker] = serve

    def unplug(self, broker: int) -> None:
        self._servers.pop(broker, None)

    def connector(
        self, own: int, broker_of: Callable[[str, int], int]
    ) -> Callable[..., Awaitable[SimulatedConnection]]:
        """Replaces `Connection.open` for broker `own`."""

        async def open_connection(host: str, port: int, **_: object) -> SimulatedConnection:
            peer = broker_of(host, port)
            await asyncio.sleep(self.delay())
            if peer not in self._servers or (own, peer) in self.cut or (peer, own) in self.cut:
                raise Unreachable(f"cannot connect to broker {peer}")
            return SimulatedConnection(self, own, peer)

        return open_connection

    def delay(self) -> float:
        if self._chance.random() < self.faults.message_very_late:
            return self._chance.uniform(*self.faults.very_late_s)
        return self._chance.uniform(*self.faults.delay_s)

    def send(self, source: int, target: int, deliver: Callable[[], None]) -> None:
        """Sends one message. It arrives once, late, twice or never."""
        if (source, target) in self.cut or self._chance.random() < self.faults.message_lost:
            return
        held = self._held.get((source, target))
        if held is not None:
            held.append(deliver)
            return
        loop = asyncio.get_running_loop()
        loop.call_later(self.delay(), deliver, context=self._outside)
        if self._chance.random() < self.faults.message_doubled:
            loop.call_later(self.delay(), deliver, context=self._outside)

    def hold(self, source: int, target: int) -> None:
        """Holds back messages that are sent from now on; see `taken_out`."""
        self._held[source, target] = []

    def taken_out(self, source: int, target: int) -> list[Callable[[], None]]:
        """Ends `hold`. Returns the held messages; calling one delivers it."""
        return self._held.pop((source, target))

    def request(self, source: int, target: int, api_key: int, body: Arguments, answer: asyncio.Future[Entity]) -> None:
        def arrived() -> None:
            serve = self._servers.get(target)
            if serve is None:
                return
            serving = self._serve(serve, source, target, api_key, body, answer)
            task = asyncio.get_running_loop().create_task(serving, context=context_of(target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        self.send(source, target, arrived)

    async def _serve(
        self, serve: Serve, source: int, target: int, api_key: int, body: Arguments, answer: asyncio.Future[Entity]
    ) -> None:
        try:
            result = await serve(api_key, body)
        except ConnectionError:
            return

        def arrived() -> None:
            if not answer.done():
                answer.set_result(result)

        if self._servers.get(target) is serve:
            self.send(target, source, arrived)


class SimulatedConnection:
    """The part of `client.connection.Connection` that fetchers and the controller's clients use."""

    def __init__(self, network: SimulatedNetwork, own: int, peer: int) -> None:
        self.closed = False
        self._network = network
        self._own = own
        self._peer = peer
        self._waiting: dict[asyncio.Future[Entity], None] = {}

    async def request(self, api_key: int, body: Arguments, *, timeout: float = 10.0, **_: object) -> Entity:
        if self.closed:
            raise Unreachable("closed")
        answer: asyncio.Future[Entity] = asyncio.get_running_loop().create_future()
        self._network.request(self._own, self._peer, api_key, body, answer)
        self._waiting[answer] = None
        try:
            async with asyncio.timeout(timeout):
                return await answer
        except TimeoutError as error:
            self.closed = True
            raise NoAnswer(f"broker {self._peer} gave no answer within {timeout:g} s") from error
        finally:
            self._waiting.pop(answer, None)

    async def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        """Fails all outstanding requests."""
        self.closed = True
        for answer in self._waiting:
            if not answer.done():
                answer.set_exception(Unreachable("closed"))


class SimulatedChannel:
    """The part of `replication.leader_channel` that a fetcher uses."""

    def __init__(self, connection: SimulatedConnection) -> None:
        self._connection = connection

    @property
    def closed(self) -> bool:
        return self._connection.closed

    async def fetch(self, request: ReplicaFetch, timeout_s: float) -> FetchAnswer:
        """Request and answer are encoded, so that a duplicate that arrives later is unchanged."""
        frame = bytes(fetch_frame(0, "follower", request))
        answer: bytes = await self._connection.request(ApiKey.FETCH, {"frame": frame}, timeout=timeout_s)
        return read_fetch_answer(memoryview(answer))

    async def earliest_offset(
        self, broker_id: int, topic: str, index: int, leader_epoch: int, timeout_s: float
    ) -> tuple[ErrorCode, int]:
        body = {"topic": topic, "index": index, "leader_epoch": leader_epoch}
        found: tuple[ErrorCode, int] = await self._connection.request(ApiKey.LIST_OFFSETS, body, timeout=timeout_s)
        return found

    def close(self) -> None:
        self._connection.abort()
