"""Fallback channel to the controller: requests go through the coordination store when the wire does not carry them.

A network may separate a broker from the controller while both reach the store. No session ends, so no broker is
replaced. Without this channel the broker could not change in-sync replicas, and its partitions would wait for a
follower that cannot fetch. The broker tries the wire first; if that fails, it writes a node:

    /cluster/letters/<broker>-<session>-<n>   (ephemeral)   a request frame; later the answer in its place

The sender creates the node and waits for its second version. The active controller (`fallback_reader`) reads and
answers. The sender removes the node. A later controller may answer, the request may be served twice, and it may be
served after its sender gave up, as with a request over the wire whose answer was lost. A request that is too large for
the store waits for the wire.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from headrace.client.connection import Connection
from headrace.client.errors import NoAnswer, Unreachable
from headrace.coordination import paths
from headrace.coordination.store import NoNode, Store, StoreFault
from headrace.coordination.waiting import until
from headrace.wire import codec
from headrace.wire.entities import Body, Entity

logger = logging.getLogger(__name__)

# ZooKeeper closes a connection that sends more than a mebibyte (jute.maxbuffer).
LARGEST_REQUEST_BYTES: Final = 900_000
# Clients' requests use this channel too; they must not fill the store.
_REQUESTS_AT_A_TIME: Final = 16
# A reachable controller accepts a connection at once; otherwise the wire is tried again after a while.
_CONNECT_WITHIN_S: Final = 2.0
_WIRE_AGAIN_AFTER_S: Final = 10.0
# How long the kernel resends unconfirmed bytes. The kernel of a slow controller confirms them.
_UNCONFIRMED_S: Final = 3.0
# A watch is a hint and may be late.
_LOOK_AGAIN_AFTER_S: Final = 1.0


class ControllerConnection(Protocol):
    """The interface of a connection to the controller."""

    @property
    def closed(self) -> bool: ...

    async def request(
        self, api_key: int, body: Body, *, version: int | None = None, timeout: float | None = None
    ) -> Entity: ...

    async def close(self) -> None: ...


Connect = Callable[..., Awaitable[ControllerConnection]]


class ControllerChannel:
    """`open` replaces `Connection.open`; its result is valid until `closed`."""

    def __init__(self, store: Store, broker_id: int, connect: Connect = Connection.open) -> None:
        self._connect = connect
        self._requests = FallbackRequests(store, broker_id)

    async def open(self, host: str, port: int, *, client_id: str, timeout: float) -> ControllerConnection:
        try:
            return await self._connect(
                host,
                port,
                client_id=client_id,
                timeout=min(timeout, _CONNECT_WITHIN_S),
                unconfirmed_s=_UNCONFIRMED_S,
            )
        except (Unreachable, NoAnswer) as fault:
            logger.info("asking the controller through the store: %s", fault.message)
            return FallbackConnection(self._requests, client_id)


class FallbackConnection:
    def __init__(self, requests: FallbackRequests, client_id: str) -> None:
        self._requests = requests
        self._client_id = client_id
        self._closes_at = asyncio.get_running_loop().time() + _WIRE_AGAIN_AFTER_S

    @property
    def closed(self) -> bool:
        """True when the wire should be tried again."""
        return asyncio.get_running_loop().time() >= self._closes_at

    async def request(
        self, api_key: int, body: Body, *, version: int | None = None, timeout: float | None = None
    ) -> Entity:
        chosen = codec.known_versions(api_key)[-1] if version is None else version
        frame = codec.encode_request(api_key, chosen, 0, self._client_id, body)
        answer = await self._requests.ask(bytes(frame[4:]), _WIRE_AGAIN_AFTER_S if timeout is None else timeout)
        return codec.read_response(api_key, chosen, answer)[1]

    async def close(self) -> None:
        self._closes_at = 0.0


class FallbackRequests:
    """Fallback requests of one broker."""

    def __init__(self, store: Store, broker_id: int) -> None:
        self._store = store
        self._broker_id = broker_id
        self._numbers = itertools.count()
        self._room = asyncio.Semaphore(_REQUESTS_AT_A_TIME)
        self._left_over: set[str] = set()
        self._tidying: asyncio.Task[None] | None = None

    async def ask(self, frame: bytes, timeout: float) -> bytes:
        """The answer's bytes. Raises NoAnswer, or Unreachable when the store cannot carry it either."""
        if len(frame) > LARGEST_REQUEST_BYTES:
            raise Unreachable(f"a request of {len(frame)} bytes is too large to go through the store")
        path = paths.fallback_request(self._broker_id, self._store.session_id, next(self._numbers))
        try:
            async with asyncio.timeout(timeout), self._room:
                try:
                    await self._store.create(path, frame, ephemeral=True)
                    answer = await self._answer_in(path)
                finally:
                    self._left_over.add(path)
                    self._tidy_up()
        except TimeoutError as error:
            raise NoAnswer(f"no controller answered the fallback request within {timeout:g} s") from error
        except StoreFault as fault:
            raise Unreachable(
                f"the store takes no fallback requests: {fault.message or type(fault).__name__}"
            ) from fault
        if not answer:
            raise NoAnswer("the controller's answer is too large for the store")
        return answer

    async def _answer_in(self, path: str) -> bytes:
        while True:
            changed = asyncio.Event()
            node = await self._store.get(path, watch=changed.set)
            if node.version > 0:
                return node.data
            await until(changed, _LOOK_AGAIN_AFTER_S)

    def _tidy_up(self) -> None:
        """In the background: the caller does not wait for the deletion."""
        if self._tidying is None or self._tidying.done():
            self._tidying = asyncio.create_task(self._delete_finished(), name="fallback requests: delete")

    async def _delete_finished(self) -> None:
        """Deletes a request. If that fails, the next call deletes it, or it ends with the session."""
        while self._left_over:
            path = min(self._left_over)
            try:
                await self._store.delete(path)
            except NoNode:
                pass
            except StoreFault:
                return
            self._left_over.discard(path)
