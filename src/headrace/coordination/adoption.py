"""A broker that stood alone becomes the first of a cluster: what its embedded store says moves into ZooKeeper.

Without this, the cluster would know none of its topics, and their logs would be nobody's. The nodes are copied as they
are, /cluster/id last: a copy that was cut short is done again from the start, because an ensemble without that node
belongs to nobody yet. What dies with a session is left behind, and so is the accepted registration: epochs count
differently there. The old directory is renamed, so that the broker cannot stand alone again on what is then stale.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from headrace.coordination import paths
from headrace.coordination.embedded import EmbeddedStore
from headrace.coordination.embedded_files import fsync_directory
from headrace.coordination.store import Create, NodeExists, Op, Set, Store

logger = logging.getLogger(__name__)

MOVED_SUFFIX: Final = ".moved-to-zookeeper"
_OPS_AT_ONCE: Final = 1000
_BYTES_AT_ONCE: Final = 500_000


async def adopt_embedded(target: Store, directory: Path) -> bool:
    """Copies the embedded store in `directory`, if there is one and `target` is still empty. True when it did."""
    if not (directory / "journal").exists():
        return False
    if await target.exists(paths.CLUSTER_ID) is not None:
        source = EmbeddedStore(directory)
        own = await source.exists(paths.CLUSTER_ID)
        await source.close()
        there = await target.get(paths.CLUSTER_ID)
        if own is not None and own.data == there.data:
            _put_away(directory)  # copied before, and stopped just before the renaming
        # Another cluster's ensemble: the check of cluster ids that follows refuses it by name.
        return False
    source = EmbeddedStore(directory)
    try:
        if await source.exists(paths.CLUSTER_ID) is None:
            return False  # never got as far as being a cluster of one
        copied = await _copy(source, target)
    finally:
        await source.close()
    _put_away(directory)
    logger.info("moved the state of this broker's embedded store (%d nodes) to ZooKeeper", copied)
    return True


def _put_away(directory: Path) -> None:
    directory.rename(directory.with_name(directory.name + MOVED_SUFFIX))
    fsync_directory(directory.parent)


async def _copy(source: Store, target: Store) -> int:
    ops: list[Op] = []
    size = copied = 0
    for path in await _all_paths(source, "/"):
        node = await source.get(path)
        if node.session_id or path == paths.CLUSTER_ID or path.startswith(paths.ACCEPTED_BROKERS + "/"):
            continue
        # A former attempt may have left the node.
        there = await target.exists(path)
        if there is None or there.data != node.data:
            ops.append(Create(path, node.data) if there is None else Set(path, node.data))
            size += len(path) + len(node.data)
        copied += 1
        if len(ops) >= _OPS_AT_ONCE or size >= _BYTES_AT_ONCE:
            await target.multi(ops)
            ops, size = [], 0
    ops.append(Create(paths.CLUSTER_ID, (await source.get(paths.CLUSTER_ID)).data))
    try:
        await target.multi(ops)
    except NodeExists:
        # Another broker made this ensemble its own meanwhile; the check of cluster ids says so.
        logger.warning("another broker has started a cluster in this ensemble first")
    return copied + 1


async def _all_paths(store: Store, path: str) -> list[str]:
    """Parents before children."""
    found = [] if path == "/" else [path]
    for name in await store.children(path):
        found += await _all_paths(store, f"{path.rstrip('/')}/{name}")
    return found
