"""Moves the state of a broker from its embedded store to ZooKeeper when it begins a cluster, and back.

Without the move, the cluster would know none of its topics, and their logs would belong to no topic. A
crash is safe after each step:

1. the caller records in the log directories that a move has begun, and where to: from then on the broker does not serve
   standalone;
2. `/cluster/incoming` names the cluster that is coming: no other broker begins a cluster in this ensemble;
3. the nodes are copied as they are. Nodes of a former attempt that no longer exist in the source are deleted:
   `/cluster/incoming` shows that they are ours;
4. `/cluster/id` is created and `/cluster/incoming` deleted in one transaction: from then on ZooKeeper holds the state;
5. `put_away` renames the embedded store, and the caller records that the move is done.

Ephemeral nodes and accepted registrations are not copied, because broker epochs differ between stores. The way back
(`copy_of_ensemble`) is a command of an administrator, `broker.standalone`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from headrace.coordination import paths
from headrace.coordination.core.tree import Tree
from headrace.coordination.embedded_files import fsync_directory
from headrace.coordination.store import Create, Delete, NodeExists, NoNode, Op, Set, Store, ensure_path
from headrace.kernel.errors import ErrorCode, Refused
from headrace.security.acl import store_format

logger = logging.getLogger(__name__)

MOVED_SUFFIX: Final = ".moved-to-zookeeper"
_OPS_AT_ONCE: Final = 1000
_BYTES_AT_ONCE: Final = 500_000
# Roots of our nodes. In an ensemble without a chroot other programs may have nodes beside them.
_ROOTS: Final = (
    "/cluster",
    "/brokers",
    "/config",
    "/admin",
    paths.FEATURES,
    paths.CONTROLLER_EPOCH,
    paths.PRODUCER_IDS,
    *store_format.ROOTS,
)


async def move_to_ensemble(source: Tree, target: Store, broker_id: int) -> None:
    """Steps 2 to 4; after a lost connection it may be called again. Raises Refused if another cluster has claimed the
    ensemble."""
    cluster_id = source.get(paths.CLUSTER_ID)
    if await _is_moved(cluster_id.data, target):
        return
    await _announce(cluster_id.data, target, broker_id)
    wanted = {path: node.data for path, node in source.nodes.items() if _is_copied(path, node.session_id)}
    there = await existing_nodes(target)
    await _in_portions(target, (Delete(path) for path in sorted(there - wanted.keys(), reverse=True)))
    changes: list[Op] = []
    for path in sorted(wanted):  # parents before children
        node = await target.get(path) if path in there else None
        if node is None:
            changes.append(Create(path, wanted[path]))
        elif node.data != wanted[path]:
            changes.append(Set(path, wanted[path]))
    await _in_portions(target, changes)
    try:
        await target.multi([Create(paths.CLUSTER_ID, cluster_id.data), Delete(paths.INCOMING)])
    except NodeExists:
        await _is_moved(cluster_id.data, target)
    logger.info("moved the state of this broker's embedded store (%d nodes) to ZooKeeper", len(wanted) + 1)


async def copy_of_ensemble(source: Store) -> Tree:
    """The nodes of a cluster, for an embedded store."""
    tree = Tree()
    for path in sorted(await existing_nodes(source)):
        node = await source.exists(path)
        if node is not None and (path == paths.CLUSTER_ID or _is_copied(path, node.session_id)):
            tree.add(path, node)
    return tree


def put_away(path: Path, suffix: str = MOVED_SUFFIX) -> Path:
    """Renames outdated files, above all an embedded store, so that no broker serves with it by mistake."""
    target = path.with_name(path.name + suffix)
    number = 1
    while target.exists():  # from an earlier move
        number += 1
        target = target.with_name(f"{path.name}{suffix}.{number}")
    path.rename(target)
    fsync_directory(path.parent)
    return target


def _is_copied(path: str, session_id: int) -> bool:
    if session_id != 0 or path in ("/", paths.CLUSTER_ID, paths.INCOMING, paths.MOVED):
        return False
    return not path.startswith(f"{paths.ACCEPTED_BROKERS}/")


async def _is_moved(cluster_id: bytes, target: Store) -> bool:
    """Whether the move is done. Raises Refused if the ensemble belongs to another cluster."""
    there = await target.exists(paths.CLUSTER_ID)
    if there is not None and there.data != cluster_id:
        raise Refused(
            ErrorCode.inconsistent_cluster_id,
            "another broker has begun a cluster in this ensemble meanwhile: choose an empty chroot",
        )
    return there is not None


async def _announce(cluster_id: bytes, target: Store, broker_id: int) -> None:
    own = json.loads(cluster_id)["id"]
    since = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    await ensure_path(target, "/cluster")
    try:
        data = json.dumps({"version": 1, "id": own, "broker": broker_id, "since": since})
        await target.create(paths.INCOMING, data.encode())
    except NodeExists:
        coming = json.loads((await target.get(paths.INCOMING)).data)["id"]
        if coming != own:
            raise Refused(
                ErrorCode.inconsistent_cluster_id,
                f"another broker is moving the state of cluster {coming} to this ensemble: choose an empty chroot",
            ) from None


async def existing_nodes(target: Store) -> set[str]:
    """The existing nodes of a cluster, except /cluster/incoming."""
    found: set[str] = set()
    waiting = [root for root in _ROOTS if await target.exists(root) is not None]
    while waiting:
        path = waiting.pop()
        found.add(path)
        try:
            waiting += [f"{path}/{name}" for name in await target.children(path)]
        except NoNode:
            found.discard(path)
    return found - {paths.INCOMING}


async def _in_portions(target: Store, ops: Iterable[Op]) -> None:
    portion: list[Op] = []
    size = 0
    for op in ops:
        portion.append(op)
        size += len(op.path) + (len(op.data) if isinstance(op, Create | Set) else 0)
        if len(portion) >= _OPS_AT_ONCE or size >= _BYTES_AT_ONCE:
            await target.multi(portion)
            portion, size = [], 0
    if portion:
        await target.multi(portion)
