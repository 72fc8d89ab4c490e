"""One session with a ZooKeeper ensemble through kazoo: its connection, its lease, and calls from the event loop.

kazoo has its own threads. Every result, watch and state change moves to the event loop before a caller sees it. The
session repeats no request: a lost connection becomes `ConnectionLost` (outcome unknown), an ended session
`SessionExpired`, and the caller decides.

The lease (docs/reference/coordination.md). The ensemble ends a session after one session timeout without a request.
Every answer proves that a server received the request after the broker sent it, so the session lives at least until
that moment plus the timeout. The lease is two thirds of it, because the server that answered may die before the
ensemble's leader learns of the request. A heartbeat renews the lease while there are no other requests. A new session
has no lease until its first answer.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kazoo import exceptions as kazoo
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry

from headrace.coordination.companion import Companion
from headrace.coordination.handshake import Client
from headrace.coordination.kazoo_faults import fault_of
from headrace.coordination.kazoo_log import RateLimitedLog, rate_limited_logger
from headrace.coordination.store import ConnectionLost, SessionEvent, SessionExpired, StoreFailed, StoreFault, Watch
from headrace.coordination.waiting import until
from headrace.coordination.zookeeper_tls import TlsHandler

if TYPE_CHECKING:
    from kazoo.security import ACL

    from headrace.security.tls.client_context import ClientTls

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")

LEASE_SHARE: Final = 2 / 3
_HEARTBEATS_PER_SESSION: Final = 6
_PAUSE: Final = 0.1
_CLOSE_WITHIN: Final = 2.0


class ZooKeeperSession:
    def __init__(
        self,
        hosts: str,
        *,
        session_timeout: float,
        default_acl: list[ACL] | None,
        credentials: tuple[str, str] | None,
        tls: ClientTls | None,
    ) -> None:
        self._hosts = hosts
        self._asked_timeout = session_timeout
        self._tls = tls
        self._loop: asyncio.AbstractEventLoop | None = None
        self._callbacks: list[Callable[[SessionEvent], None]] = []
        self._lease_ends_at = 0.0
        self._session_id = 0
        self._connected = asyncio.Event()
        self._heartbeat: asyncio.Task[None] | None = None
        self._closed = False
        self._companion: Companion | None = None
        self._disconnected_since: float | None = None
        self._kazoo_log = RateLimitedLog()
        self.client = Client(
            hosts=hosts,
            timeout=session_timeout,
            default_acl=default_acl,
            auth_data=[("digest", ":".join(credentials))] if credentials else None,
            # Reconnects without a limit and with short delays: a broker without its session does not serve.
            connection_retry=KazooRetry(max_tries=-1, delay=0.1, backoff=1.5, max_delay=1.0, max_jitter=0.2),
            logger=rate_limited_logger(self._kazoo_log),
            handler=None if tls is None else TlsHandler(tls),
            use_ssl=tls is not None,
        )

    async def connect(self, timeout: float) -> None:
        """Raises TimeoutError if no server answers within `timeout` seconds."""
        self._loop = asyncio.get_running_loop()
        self.client.add_listener(self._state_changed)
        self.client.start_async()
        try:
            async with asyncio.timeout(timeout):
                await self._first_answer()
        except BaseException:  # also when the start is cancelled: kazoo's threads must end
            await self.close()
            raise
        self._heartbeat = asyncio.create_task(self._beat(), name="zookeeper heartbeat")

    async def _first_answer(self) -> None:
        """A starting server accepts connections before it serves requests, so this waits for an answer."""
        await self._connected.wait()
        while True:
            try:
                await self.call(self.client.exists_async, "/")
                return
            except (ConnectionLost, SessionExpired):
                await asyncio.sleep(_PAUSE)

    def start_companion(self) -> None:
        """Starts the process that ends this session as soon as the broker's process dies (`companion`)."""
        companion = Companion(self._hosts, self.session_timeout, self._tls)
        why_not = companion.start()
        if why_not is not None:
            logger.warning("if this process is killed, its session ends by its timeout only: %s", why_not)
            return
        self._companion = companion
        self._update_companion()

    def _update_companion(self) -> None:
        if self._companion is not None and self.client.client_id:
            self._companion.session_is(*self.client.client_id)

    def _state_changed(self, state: str) -> None:
        """Called in kazoo's thread."""
        session = self.client.client_id[0] if state == KazooState.CONNECTED and self.client.client_id else 0
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._session_changed, state, session)

    def _session_changed(self, state: str, session: int) -> None:
        if self._closed:
            return
        if state == KazooState.CONNECTED:
            if session != self._session_id:
                # Another session id: the old session has ended, even if kazoo has not reported LOST.
                if self._session_id:
                    self._expired()
                self._session_id, self._lease_ends_at = session, 0.0
                self._update_companion()
            self._kazoo_log.connected()
            if self._disconnected_since is not None:
                logger.info("connected to ZooKeeper again after %.1f s", time.monotonic() - self._disconnected_since)
                self._disconnected_since = None
            self._connected.set()
            self._notify(SessionEvent.CONNECTED)
        elif state == KazooState.SUSPENDED:
            self._connected.clear()
            self._disconnected_since = time.monotonic()
            logger.warning("connection to ZooKeeper lost; reconnecting")
            self._notify(SessionEvent.SUSPENDED)
        elif state == KazooState.LOST:
            self._connected.clear()
            self._expired()

    def _expired(self) -> None:
        if self._session_id:
            logger.warning("the session with ZooKeeper has expired")
            self._session_id, self._lease_ends_at = 0, 0.0
            self._notify(SessionEvent.EXPIRED)

    def _notify(self, event: SessionEvent) -> None:
        for callback in tuple(self._callbacks):
            callback(event)

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def session_timeout(self) -> float:
        # The timeout that the ensemble granted. It may differ from the requested one.
        granted = float(self.client._session_timeout) / 1000
        return granted or self._asked_timeout

    def lease_ends_at(self) -> float:
        return self._lease_ends_at

    def on_session(self, callback: Callable[[SessionEvent], None]) -> None:
        self._callbacks.append(callback)
        if self._connected.is_set() and not self._closed:
            callback(SessionEvent.CONNECTED)

    async def _beat(self) -> None:
        while not self._closed:
            try:
                await self.call(self.client.exists_async, "/")
            except StoreFault:
                pass
            await asyncio.sleep(self.session_timeout / _HEARTBEATS_PER_SESSION)

    async def close(self) -> None:
        """Ends the session at once, and with it our ephemeral nodes. If the ensemble does not answer, it ends the
        session by its timeout, so this waits for two seconds only."""
        if self._closed:
            return
        self._closed = True
        self._connected.set()  # wakes the calls that wait for a connection; they find `_closed` set
        self._lease_ends_at = 0.0
        self._kazoo_log.silence()
        if self._heartbeat is not None:
            self._heartbeat.cancel()
            await asyncio.gather(self._heartbeat, return_exceptions=True)
        loop = asyncio.get_running_loop()
        stopped = asyncio.Event()
        why: list[str] = []

        def stop() -> None:
            try:
                self.client.stop()
                self.client.close()
            except Exception as error:  # kazoo could not end a connection; its thread is abandoned
                why.append(str(error) or type(error).__name__)
            if self._companion is not None:
                self._companion.withdraw()
            if not loop.is_closed():
                loop.call_soon_threadsafe(stopped.set)

        # A thread of its own: the event loop would wait for the end of one of its executor's threads.
        threading.Thread(target=stop, name="zookeeper close", daemon=True).start()
        await until(stopped, _CLOSE_WITHIN)
        if not stopped.is_set():
            logger.warning("ZooKeeper at %s did not confirm the end of the session", self._hosts)
        elif why:
            logger.info("the connection to ZooKeeper did not end cleanly: %s", why[0])

    def on_loop(self, watch: Watch | None) -> Callable[[object], None] | None:
        if watch is None:
            return None
        hint = watch

        def fired(_event: object) -> None:
            if self._loop is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(hint)

        return fired

    async def call(self, start: Callable[..., Any], *arguments: object, **options: object) -> Any:
        if self._closed:
            raise StoreFailed("the connection to ZooKeeper is closed")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        if not self._connected.is_set():
            await self._until_connected()
        asked_at, session = time.monotonic(), self._session_id

        def finished(result: Any) -> None:
            # Still in kazoo's thread.
            if not loop.is_closed():
                loop.call_soon_threadsafe(_settle, done, result)

        path = str(arguments[0]) if arguments else "a transaction"
        try:
            start(*arguments, **options).rawlink(finished)
            # After the session timeout the session has ended, so an answer is useless.
            value = await _within(done, self.session_timeout)
        except (kazoo.ZookeeperError, kazoo.ConnectionClosedError, kazoo.KazooException) as error:
            if not isinstance(error, kazoo.ConnectionLoss | kazoo.SessionExpiredError | kazoo.ConnectionClosedError):
                self._extend_lease(asked_at, session)  # an error code is an answer too
            raise fault_of(error, path) from error
        self._extend_lease(asked_at, session)
        return value

    async def _until_connected(self) -> None:
        """Requests wait here while no server answers. kazoo would queue every request, cancelled ones too, and send
        them all after it reconnects. For each it also writes a byte to the socket that wakes its thread. Without a
        connection the thread does not read that socket, so after some hundred requests the event loop would block."""
        session = self._session_id
        await until(self._connected, self.session_timeout)
        if self._closed:
            raise StoreFailed("the connection to ZooKeeper is closed")
        if not self._connected.is_set():
            raise ConnectionLost("no connection to ZooKeeper")
        if session and session != self._session_id:
            raise SessionExpired("the session with ZooKeeper ended while there was no connection")

    def _extend_lease(self, asked_at: float, session: int) -> None:
        if session and session == self._session_id:
            self._lease_ends_at = max(self._lease_ends_at, asked_at + LEASE_SHARE * self.session_timeout)


def _settle(done: asyncio.Future[Any], result: Any) -> None:
    if done.done():
        return
    if result.successful():
        done.set_result(result.value)
    else:
        done.set_exception(result.exception)


async def _within(done: Awaitable[Answer], seconds: float) -> Answer:
    try:
        async with asyncio.timeout(seconds):
            return await done
    except TimeoutError:
        raise ConnectionLost(f"ZooKeeper gave no answer within {seconds:g} s") from None
