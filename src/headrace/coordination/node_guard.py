"""Guards nodes that exist already when `zookeeper.set.acl` is turned on.

New nodes get their access control list when they are created. Nodes from before stay open to every client of ZooKeeper,
and among them are credentials. So a member of the cluster that begins with `zookeeper.set.acl=true` looks at the nodes
that every cluster has, at users, tokens and ACLs. If one of them is open, it guards all nodes of the cluster. Other
programs may use the same ensemble without a chroot: nodes that are not of a cluster stay as they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.security import ACL, CREATOR_ALL_ACL, READ_ACL_UNSAFE

from headrace.coordination.paths import CONFIG, CONTROLLER, CONTROLLER_EPOCH, PERSISTENT, PRODUCER_IDS, is_private
from headrace.coordination.store import NoNode

# Requests to ZooKeeper at a time.
_AT_ONCE: Final = 64
_LOOKED_INTO: Final = (f"{CONFIG}/users", "/delegation_token", "/kafka-acl", "/kafka-acl-extended")
# The nodes below the chroot that belong to a cluster.
_ROOTS: Final = sorted(
    {f"/{path.split('/')[1]}" for path in (*PERSISTENT, *_LOOKED_INTO, CONTROLLER, CONTROLLER_EPOCH, PRODUCER_IDS)}
)
_READ_ONLY: Final = READ_ACL_UNSAFE[0].perms

Call = Callable[..., Awaitable[Any]]


def acl_of_new_node(path: str) -> list[ACL]:
    """The creator may do everything. Others may read nodes that hold no credentials."""
    return list(CREATOR_ALL_ACL) if is_private(path) else [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]


class NodeGuard:
    """`call` runs one of the client's requests and raises the store's faults."""

    def __init__(self, client: KazooClient, call: Call) -> None:
        self._client = client
        self._call = call

    async def guard_open_nodes(self) -> int:
        """Returns the number of nodes that were open."""
        looked_at = list(PERSISTENT)
        for path in _LOOKED_INTO:
            looked_at += await self._below(path)
        if not any(await self._in_parts(looked_at, self._is_open)):
            return 0
        everything = list(_ROOTS)
        for root in _ROOTS:
            everything += await self._below(root)
        return sum(await self._in_parts(everything, self._guard))

    async def _below(self, path: str) -> list[str]:
        """All nodes below a node."""
        found: list[str] = []
        level = [path]
        while level:
            children = await self._in_parts(level, self._children)
            level = [
                f"{parent.rstrip('/')}/{name}" for parent, names in zip(level, children, strict=True) for name in names
            ]
            found += level
        return found

    async def _children(self, path: str) -> list[str]:
        try:
            return list(await self._call(self._client.get_children_async, path))
        except NoNode:
            return []

    async def _is_open(self, path: str) -> bool:
        try:
            found, _ = await self._call(self._client.get_acls_async, path)
        except NoNode:
            return False
        allowed = 0 if is_private(path) else _READ_ONLY
        return any(one.id.scheme == "world" and one.perms & ~allowed for one in found)

    async def _guard(self, path: str) -> bool:
        if not await self._is_open(path):
            return False
        try:
            await self._call(self._client.set_acls_async, path, acl_of_new_node(path))
        except NoNode:
            return False
        return True

    async def _in_parts(self, paths: list[str], ask: Callable[[str], Awaitable[Any]]) -> list[Any]:
        answers: list[Any] = []
        for at in range(0, len(paths), _AT_ONCE):
            answers += await asyncio.gather(*(ask(path) for path in paths[at : at + _AT_ONCE]))
        return answers
