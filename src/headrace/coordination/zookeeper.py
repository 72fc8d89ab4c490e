"""The store port on a ZooKeeper ensemble, through kazoo.

kazoo lives in threads of its own; every result, watch and state change comes over to the event loop before anyone sees
it. Nothing is retried here: a lost connection becomes `ConnectionLost` (outcome unknown), an ended session
`SessionExpired`, and the caller decides.

The lease (docs/reference/coordination.md). The ensemble ends our session when it has not heard of us for the session
timeout. Every answer proves that it had heard of us after the moment we asked, so the session lives at least until that
moment plus the timeout. We take two thirds of it: the server that answered may die before it has told the ensemble's
leader. A heartbeat renews the lease while nothing else is asked. A new session has no lease until its first answer.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kazoo import exceptions as kazoo
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry
from kazoo.security import ACL, CREATOR_ALL_ACL, READ_ACL_UNSAFE

from headrace.config import BrokerConfig, ConfigError, resolve_listeners
from headrace.coordination.companion import Companion
from headrace.coordination.handshake import Client
from headrace.coordination.kazoo_faults import BYSTANDERS, fault_of
from headrace.coordination.kazoo_log import RateLimitedLog, rate_limited_logger
from headrace.coordination.paths import is_private
from headrace.coordination.store import (
    ANY_VERSION,
    Check,
    ConnectionLost,
    Create,
    Delete,
    Node,
    NoNode,
    Op,
    SessionEvent,
    SessionExpired,
    Set,
    StoreFailed,
    StoreFault,
    Watch,
    ensure_path,
)
from headrace.coordination.waiting import until
from headrace.coordination.zookeeper_tls import TlsHandler, zookeeper_tls

if TYPE_CHECKING:
    from headrace.security.tls.client_context import ClientTls

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")

LEASE_SHARE: Final = 2 / 3
_HEARTBEATS_PER_SESSION: Final = 6
_PAUSE: Final = 0.1
_CLOSE_WITHIN: Final = 2.0


async def open_zookeeper(config: BrokerConfig) -> ZooKeeperStore:
    """The ensemble that `zookeeper.connect` names. Waits for it, as long as `zookeeper.connection.timeout.ms` says."""
    user, password = config.zookeeper_digest_user, config.zookeeper_digest_password
    guarded = config.zookeeper_set_acl
    if guarded and not (user and password):
        raise ConfigError(
            "zookeeper.set.acl", "true", "needs zookeeper.digest.user and zookeeper.digest.password to guard nodes for"
        )
    if not guarded and any(listener.protocol.startswith("SASL") for listener in resolve_listeners(config).bound):
        logger.warning(
            "zookeeper.set.acl=false: everyone who reaches ZooKeeper can read and change the SCRAM credentials of this "
            "cluster; set it to true, with zookeeper.digest.user and zookeeper.digest.password"
        )
    store = ZooKeeperStore(
        (config.zookeeper_connect or "").replace(" ", ""),
        session_timeout=config.zookeeper_session_timeout_ms / 1000,
        guarded=guarded,
        credentials=(user, password) if user and password else None,
        tls=zookeeper_tls(config),
    )
    await store.connect(config.store_timeout_s)
    store.leave_a_will()
    return store


class ZooKeeperStore:
    def __init__(
        self,
        connect: str,
        *,
        session_timeout: float,
        guarded: bool = False,
        credentials: tuple[str, str] | None = None,
        tls: ClientTls | None = None,
    ) -> None:
        """`guarded`: only the creator may change what we write, and only the creator may read what is private
        (`paths.is_private`); needs `credentials` (user, password) for ZooKeeper's digest scheme."""
        hosts, slash, chroot = connect.partition("/")
        self._hosts = hosts
        self._connect_string = connect
        self._chroot = "/" + chroot.strip("/") if slash and chroot.strip("/") else ""
        self._asked_timeout = session_timeout
        self._guarded = guarded
        self._tls = tls
        self._loop: asyncio.AbstractEventLoop | None = None
        self._callbacks: list[Callable[[SessionEvent], None]] = []
        self._lease_ends_at = 0.0
        self._session_id = 0
        self._connected = asyncio.Event()
        self._heartbeat: asyncio.Task[None] | None = None
        self._closed = False
        self._will: Companion | None = None
        self._away_since: float | None = None
        self._kazoo_log = RateLimitedLog()
        acl: list[ACL] | None = [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE] if guarded else None
        self._client = Client(
            hosts=hosts,
            timeout=session_timeout,
            default_acl=acl,
            auth_data=[("digest", ":".join(credentials))] if credentials else None,
            # Reconnecting never gives up, and quickly: a broker without its session does not serve.
            connection_retry=KazooRetry(max_tries=-1, delay=0.1, backoff=1.5, max_delay=1.0, max_jitter=0.2),
            logger=rate_limited_logger(self._kazoo_log),
            handler=None if tls is None else TlsHandler(tls),
            use_ssl=tls is not None,
        )

    # --- session -------------------------------------------------------------------------------------------------

    async def connect(self, timeout: float) -> None:
        """Raises StoreFailed when the ensemble does not answer within `timeout` seconds."""
        self._loop = asyncio.get_running_loop()
        self._client.add_listener(self._state_changed)
        self._client.start_async()
        logger.info("connecting to ZooKeeper at %s (for up to %g s)", self._connect_string, timeout)
        try:
            async with asyncio.timeout(timeout):
                await self._until_it_serves()
        except TimeoutError:
            await self.close()
            raise StoreFailed(
                f"ZooKeeper at {self._connect_string} does not answer within {timeout:g} s: is it running, "
                "and does zookeeper.connect name it?"
            ) from None
        except BaseException:  # also a cancelled start: kazoo's threads must not stay
            await self.close()
            raise
        self._client.chroot = self._chroot
        self._heartbeat = asyncio.create_task(self._beat(), name="zookeeper heartbeat")

    async def _until_it_serves(self) -> None:
        """A server that is only starting accepts connections before it serves: only an answer says that it does."""
        await self._connected.wait()
        while True:
            try:
                await self._call(self._client.exists_async, "/")
                return
            except (ConnectionLost, SessionExpired):
                await asyncio.sleep(_PAUSE)

    async def make_chroot(self) -> None:
        """Makes the node that all others are under, where it is missing. `connect` does not: a client that only reads
        changes nothing, and without a chroot every node is missing."""
        if not self._chroot:
            return
        self._client.chroot = ""
        try:
            await ensure_path(self, self._chroot)
        finally:
            self._client.chroot = self._chroot

    def leave_a_will(self) -> None:
        """From now on the session ends with this process, however that dies (`last_will`)."""
        will = Companion(self._hosts, self.session_timeout, self._tls)
        why_not = will.start()
        if why_not is not None:
            logger.warning("if this process is killed, its session ends by its timeout only: %s", why_not)
            return
        self._will = will
        self._tell_will()

    def _tell_will(self) -> None:
        if self._will is not None and self._client.client_id:
            self._will.session_is(*self._client.client_id)

    def _state_changed(self, state: str) -> None:
        """Called in kazoo's thread."""
        session = self._client.client_id[0] if state == KazooState.CONNECTED and self._client.client_id else 0
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._session_moved, state, session)

    def _session_moved(self, state: str, session: int) -> None:
        if self._closed:
            return
        if state == KazooState.CONNECTED:
            if session != self._session_id:
                # Another session, even when nobody told us that the old one had ended.
                if self._session_id:
                    self._expired()
                self._session_id, self._lease_ends_at = session, 0.0
                self._tell_will()
            self._kazoo_log.connected()
            if self._away_since is not None:
                logger.info("connected to ZooKeeper again after %.1f s", time.monotonic() - self._away_since)
                self._away_since = None
            self._connected.set()
            self._tell(SessionEvent.CONNECTED)
        elif state == KazooState.SUSPENDED:
            self._connected.clear()
            self._away_since = time.monotonic()
            logger.warning("connection to ZooKeeper lost; connecting again for as long as it takes")
            self._tell(SessionEvent.SUSPENDED)
        elif state == KazooState.LOST:
            self._connected.clear()
            self._expired()

    def _expired(self) -> None:
        if self._session_id:
            logger.warning("the session with ZooKeeper has expired")
            self._session_id, self._lease_ends_at = 0, 0.0
            self._tell(SessionEvent.EXPIRED)

    def _tell(self, event: SessionEvent) -> None:
        for callback in tuple(self._callbacks):
            callback(event)

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def session_timeout(self) -> float:
        # What the ensemble granted, which may differ from what was asked.
        granted = float(self._client._session_timeout) / 1000
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
                await self._call(self._client.exists_async, "/")
            except StoreFault:
                pass
            await asyncio.sleep(self.session_timeout / _HEARTBEATS_PER_SESSION)

    # --- operations ----------------------------------------------------------------------------------------------

    async def get(self, path: str, watch: Watch | None = None) -> Node:
        data, stat = await self._call(self._client.get_async, path, watch=self._on_loop(watch))
        return Node(data, stat.version, stat.czxid, stat.ephemeralOwner)

    async def exists(self, path: str, watch: Watch | None = None) -> Node | None:
        try:
            return await self.get(path, watch)
        except NoNode:
            if watch is None or await self._call(self._client.exists_async, path, watch=self._on_loop(watch)) is None:
                return None
        # It was made between the two questions; the watch is set.
        return await self.exists(path)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        names: list[str] = await self._call(self._client.get_children_async, path, watch=self._on_loop(watch))
        return sorted(names)

    async def create(self, path: str, data: bytes, *, ephemeral: bool = False) -> None:
        await self._call(self._client.create_async, path, data, acl=self._acl(path), ephemeral=ephemeral)

    def _acl(self, path: str) -> list[ACL] | None:
        """Who may use a new node; None for what the client does by itself."""
        return list(CREATOR_ALL_ACL) if self._guarded and is_private(path) else None

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> None:
        await self._call(self._client.set_async, path, data, version=version)

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._call(self._client.delete_async, path, version=version)

    async def multi(self, ops: Sequence[Op]) -> None:
        transaction = self._client.transaction()
        for op in ops:
            match op:
                case Create(path, data, ephemeral):
                    transaction.create(path, data, acl=self._acl(path), ephemeral=ephemeral)
                case Set(path, data, version):
                    transaction.set_data(path, data, version)
                case Delete(path, version):
                    transaction.delete(path, version)
                case Check(path, version):
                    transaction.check(path, version)
        for op, result in zip(ops, await self._call(transaction.commit_async), strict=True):
            if isinstance(result, Exception) and not isinstance(result, BYSTANDERS):
                raise fault_of(result, op.path)

    async def sync(self) -> None:
        await self._call(self._client.sync_async, "/")

    async def close(self) -> None:
        """Ends the session at once, and with it our ephemeral nodes. An ensemble that does not hear it ends the session
        in its own time, so this does not wait for long."""
        if self._closed:
            return
        self._closed = True
        self._connected.set()  # whoever waits for it hears that there is nothing to wait for
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
                self._client.stop()
                self._client.close()
            except Exception as error:  # kazoo names a connection that would not end; it is given up with its thread
                why.append(str(error) or type(error).__name__)
            if self._will is not None:
                self._will.withdraw()
            if not loop.is_closed():
                loop.call_soon_threadsafe(stopped.set)

        # Not in the loop's own threads: their end would be waited for.
        threading.Thread(target=stop, name="zookeeper close", daemon=True).start()
        await until(stopped, _CLOSE_WITHIN)
        if not stopped.is_set():
            logger.warning("ZooKeeper at %s did not hear that we leave", self._connect_string)
        elif why:
            logger.info("the connection to ZooKeeper did not end in order: %s", why[0])

    # --- from kazoo's threads to the loop ------------------------------------------------------------------------

    def _on_loop(self, watch: Watch | None) -> Callable[[object], None] | None:
        if watch is None:
            return None
        hint = watch

        def fired(_event: object) -> None:
            if self._loop is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(hint)

        return fired

    async def _call(self, start: Callable[..., Any], *arguments: object, **options: object) -> Any:
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
            # Past the session timeout an answer is of no use to anyone.
            value = await _within(done, self.session_timeout)
        except (kazoo.ZookeeperError, kazoo.ConnectionClosedError, kazoo.KazooException) as error:
            if not isinstance(error, kazoo.ConnectionLoss | kazoo.SessionExpiredError | kazoo.ConnectionClosedError):
                self._extend_lease(asked_at, session)  # a refusal is an answer, too
            raise fault_of(error, path) from error
        self._extend_lease(asked_at, session)
        return value

    async def _until_connected(self) -> None:
        """Requests wait here while the ensemble is away. kazoo would keep every one of them, also those that were given
        up, and send them all afterwards; and it wakes its thread with a byte each in a socket that nobody reads
        meanwhile, so that after some hundred the event loop would stand still."""
        session = self._session_id
        await until(self._connected, self.session_timeout)
        if self._closed:
            raise StoreFailed("the connection to ZooKeeper is closed")
        if not self._connected.is_set():
            raise ConnectionLost("ZooKeeper is away")
        if session and session != self._session_id:
            raise SessionExpired("the session with ZooKeeper ended while it was away")

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
