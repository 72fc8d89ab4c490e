"""The store port on a ZooKeeper ensemble: nodes, their access control lists and multi over one `ZooKeeperSession`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kazoo.security import ACL, CREATOR_ALL_ACL, READ_ACL_UNSAFE

from headrace.config import BrokerConfig, ConfigError, resolve_listeners
from headrace.coordination.kazoo_faults import BYSTANDERS, fault_of
from headrace.coordination.node_guard import NodeGuard
from headrace.coordination.paths import is_private
from headrace.coordination.store import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    Node,
    NoNode,
    Op,
    SessionEvent,
    Set,
    StoreFailed,
    Watch,
    data_by_node,
    ensure_path,
)
from headrace.coordination.zookeeper_session import ZooKeeperSession
from headrace.coordination.zookeeper_tls import zookeeper_tls

if TYPE_CHECKING:
    from headrace.security.tls.client_context import ClientTls

logger = logging.getLogger(__name__)


async def open_zookeeper(config: BrokerConfig, *, writes_credentials: bool = False) -> ZooKeeperStore:
    """Connects to the ensemble in `zookeeper.connect`, within `zookeeper.connection.timeout.ms`. `writes_credentials`:
    users will be added, also if no listener of this configuration has a login."""
    user, password = config.zookeeper_digest_user, config.zookeeper_digest_password
    guarded = config.zookeeper_set_acl
    if guarded and not (user and password):
        raise ConfigError(
            "zookeeper.set.acl", "true", "needs zookeeper.digest.user and zookeeper.digest.password to guard nodes for"
        )
    has_logins = any(listener.protocol.startswith("SASL") for listener in resolve_listeners(config).bound)
    if not guarded and (has_logins or writes_credentials):
        if not config.is_set("zookeeper.set.acl"):
            raise ConfigError(
                "zookeeper.set.acl",
                None,
                "must be set, because users log in with SASL and ZooKeeper holds their credentials: true with "
                "zookeeper.digest.user and zookeeper.digest.password, or false to leave them open to every client of "
                "ZooKeeper",
            )
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
    store.start_companion()
    if guarded:
        await store.guard_open_nodes()
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
        """`guarded`: only the creator of a node may change it, and only the creator may read private nodes
        (`paths.is_private`). Needs `credentials` (user, password) for ZooKeeper's digest scheme."""
        hosts, slash, chroot = connect.partition("/")
        self._connect_string = connect
        self._chroot = "/" + chroot.strip("/") if slash and chroot.strip("/") else ""
        self._guarded = guarded
        self._session = ZooKeeperSession(
            hosts,
            session_timeout=session_timeout,
            default_acl=[*CREATOR_ALL_ACL, *READ_ACL_UNSAFE] if guarded else None,
            credentials=credentials,
            tls=tls,
        )
        self._client = self._session.client
        self._call = self._session.call
        self._on_loop = self._session.on_loop

    # Session

    async def connect(self, timeout: float) -> None:
        """Raises StoreFailed if the ensemble does not answer within `timeout` seconds."""
        logger.info("connecting to ZooKeeper at %s (for up to %g s)", self._connect_string, timeout)
        try:
            await self._session.connect(timeout)
        except TimeoutError:
            raise StoreFailed(
                f"ZooKeeper at {self._connect_string} does not answer within {timeout:g} s: is it running, "
                "and does zookeeper.connect name it?"
            ) from None
        self._client.chroot = self._chroot

    async def make_chroot(self) -> None:
        """Creates the chroot node if it is missing. `connect` does not create it, because a client that only reads must
        not change the tree."""
        if not self._chroot:
            return
        self._client.chroot = ""
        try:
            await ensure_path(self, self._chroot)
        finally:
            self._client.chroot = self._chroot

    async def guard_open_nodes(self) -> None:
        """Guards the nodes from before `zookeeper.set.acl=true`."""
        found = await NodeGuard(self._client, self._call).guard_open_nodes()
        if found:
            logger.warning(
                "zookeeper.set.acl=true: %d nodes were open to every client of ZooKeeper and are guarded now; change "
                "the passwords of SCRAM users if other clients may have read them",
                found,
            )

    def start_companion(self) -> None:
        """From now on the companion ends the session as soon as this process dies."""
        self._session.start_companion()

    @property
    def session_id(self) -> int:
        return self._session.session_id

    @property
    def session_timeout(self) -> float:
        return self._session.session_timeout

    def lease_ends_at(self) -> float:
        return self._session.lease_ends_at()

    def on_session(self, callback: Callable[[SessionEvent], None]) -> None:
        self._session.on_session(callback)

    async def close(self) -> None:
        await self._session.close()

    # Operations

    async def get(self, path: str, watch: Watch | None = None) -> Node:
        data, stat = await self._call(self._client.get_async, path, watch=self._on_loop(watch))
        return Node(data, stat.version, stat.czxid, stat.ephemeralOwner)

    async def exists(self, path: str, watch: Watch | None = None) -> Node | None:
        try:
            return await self.get(path, watch)
        except NoNode:
            if watch is None or await self._call(self._client.exists_async, path, watch=self._on_loop(watch)) is None:
                return None
        # Another client created the node between the two requests; the watch is set.
        return await self.exists(path)

    async def data_of(self, paths: Sequence[str]) -> list[bytes | None]:
        return await data_by_node(self, paths)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        names: list[str] = await self._call(self._client.get_children_async, path, watch=self._on_loop(watch))
        return sorted(names)

    async def create(self, path: str, data: bytes, *, ephemeral: bool = False) -> None:
        await self._call(self._client.create_async, path, data, acl=self._acl(path), ephemeral=ephemeral)

    def _acl(self, path: str) -> list[ACL] | None:
        """Access control list of a new node; None for the client's default."""
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
