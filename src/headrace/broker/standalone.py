"""Converts log directories to a standalone broker: creates an embedded store with the topics of the logs.

For directories whose topics are in ZooKeeper (`zookeeper.connect` is set: the topics are copied back, and the ensemble
records where they are now), and for those whose store was lost: the embedded one is missing or damaged, ZooKeeper was
emptied, or the directory is Apache Kafka's. Then the store is rebuilt from its remains and from the logs
(`core.topics_from_logs`). Nothing is deleted: a store that is replaced is renamed. The broker must be stopped.

The new store is complete before it is renamed into place, so an interrupted run is repeated from the start.
"""

from __future__ import annotations

import json
import shutil
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from headrace.broker.auto_creation import INTERNAL_SETTINGS
from headrace.broker.core.ownership import Owner, agree, refuse_part_of_unit
from headrace.broker.core.topics_from_logs import Findings, LogOnDisk, topics_from_logs
from headrace.broker.identity import (
    FIRST_BROKER_ID,
    STORE_DIRECTORY,
    LockedDirectories,
    connect_string,
    now_text,
    read_ensemble,
)
from headrace.cluster import codecs
from headrace.cluster.core.changes import ProducerIdsAllocated, apply
from headrace.cluster.core.image import ClusterImage
from headrace.cluster.loading import load_image
from headrace.config import BrokerConfig
from headrace.controller.member import prepare_store
from headrace.controller.writes import ops_for, version_ops
from headrace.coordination import paths
from headrace.coordination.core.tree import Tree
from headrace.coordination.embedded import EmbeddedStore
from headrace.coordination.embedded_files import read_intact_part, write_store
from headrace.coordination.migration import copy_of_ensemble, put_away
from headrace.coordination.store import BadVersion, Check, Create, Node, NodeExists, Op, Store
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import StorageFault
from headrace.kernel.ids import new_topic_id, uuid_to_text
from headrace.storage.dirs.checkpoints import META_PROPERTIES_FILE, CorruptFile, read_topic_id
from headrace.storage.dirs.contents import logs_in
from headrace.storage.dirs.identity import EMBEDDED, MOVING, UNIT, StoreOwner
from headrace.storage.files import sync_directory
from headrace.storage.recovery.inspection import latest_epoch

_NEW_STORE: Final = f"{STORE_DIRECTORY}.new"
_REPLACED_SUFFIX: Final = ".replaced"
_DAMAGED_SUFFIX: Final = ".damaged"
_BLOCK: Final = 1000  # of producer ids


@dataclass(frozen=True, slots=True)
class InitialState:
    """Initial content of the new store."""

    name: str
    tree: Tree
    last_id: int


@dataclass(frozen=True, slots=True)
class Standalone:
    """Result. `basis`: where the state came from. `replaced`: where the former store is now."""

    broker_id: int
    cluster_id: str
    topics: int
    basis: str
    replaced: Path | None
    findings: Findings


async def make_standalone(config: BrokerConfig) -> Standalone:
    """For the directories in `log.dirs`; with `zookeeper.connect` the state is copied from there. Raises Fault."""
    claim = LockedDirectories(config.log_dirs, "headrace log standalone")
    try:
        # Repairs a missing or damaged meta.properties, and logs without a store.
        facts = [replace(one, identity_damage=None, logs=0) for one in claim.facts]
        owner = agree(facts, None if config.broker_id < 0 else config.broker_id)
        if config.stands_alone:
            refuse_part_of_unit(owner)
        basis = await _from_ensemble(config, claim, owner)
        if basis is None:
            basis = _from_directories(claim) or InitialState("the logs", Tree(), 0)
            _rename_cluster(basis.tree, owner)
        return await _stand_alone(claim, owner, basis, config.broker_id)
    finally:
        claim.release()


# Where the state comes from


async def _from_ensemble(config: BrokerConfig, claim: LockedDirectories, owner: Owner) -> InitialState | None:
    """None without an ensemble, or if a move to it was never completed."""
    if config.stands_alone:
        return None
    from headrace.coordination.zookeeper import open_zookeeper

    zookeeper = await open_zookeeper(config)
    try:
        connect, here = connect_string(config), f"{claim.directories[0].path} on {socket.gethostname()}"
        ensemble = await read_ensemble(zookeeper, connect)
        if ensemble.cluster_id is None and owner.kind == MOVING:
            return None
        if ensemble.cluster_id != owner.cluster_id or owner.node_id is None:
            raise StorageFault(
                f"log directory {owner.path} belongs to broker {owner.node_id} of cluster {owner.cluster_id}, "
                f"ZooKeeper at {connect} to cluster {ensemble.cluster_id}: name the ensemble and chroot of that cluster"
            )
        if ensemble.moved not in (None, here):
            raise StorageFault(f"the state in ZooKeeper at {connect} was moved to {ensemble.moved}")
        await _refuse_other_brokers(zookeeper, owner.node_id, connect)
        version = await zookeeper.get(paths.IMAGE)
        tree = await copy_of_ensemble(zookeeper)
        await _note_move(zookeeper, version, here)
        return InitialState(f"ZooKeeper at {connect}", tree, max(node.created_id for node in tree.nodes.values()))
    finally:
        await zookeeper.close()


async def _refuse_other_brokers(store: Store, broker_id: int, connect: str) -> None:
    alive = await store.children(paths.BROKER_IDS)
    if alive:
        raise StorageFault(f"broker {alive[0]} of ZooKeeper at {connect} is running: stop all brokers of the cluster")
    image = await load_image(store)
    for name, topic in sorted(image.topics.items()):
        for index, info in enumerate(topic.partitions):
            if set(info.replicas) != {broker_id}:
                raise StorageFault(
                    f"{name}-{index} has replicas on brokers {', '.join(map(str, info.replicas))}, and only those of "
                    f"broker {broker_id} come along: move all partitions to it with kafka-reassign-partitions.sh first"
                )


async def _note_move(store: Store, image: Node, here: str) -> None:
    note = json.dumps({"version": 1, "to": here, "since": now_text()}).encode()
    try:
        await store.multi([Check(paths.IMAGE, image.version), Create(paths.MOVED, note)])
    except NodeExists:
        pass  # by an earlier run of this command
    except BadVersion:
        raise StorageFault(
            "the cluster changed while its state was read: stop all its brokers, and try again"
        ) from None


def _from_directories(claim: LockedDirectories) -> InitialState | None:
    """The intact part of the newest embedded store in the directories, including renamed ones."""
    for directory in claim.directories:
        found = [directory.path / STORE_DIRECTORY]
        found += sorted(
            directory.path.glob(f"{STORE_DIRECTORY}.*"), key=lambda path: path.stat().st_mtime, reverse=True
        )
        for path in found:
            stored = read_intact_part(path) if path.is_dir() and path.name != _NEW_STORE else None
            if stored is not None and paths.CLUSTER_ID in stored.tree.nodes:
                tree = stored.tree
                for gone in tree.ephemerals():
                    tree.remove(gone)
                for name in tree.names(paths.ACCEPTED_BROKERS):
                    tree.remove(f"{paths.ACCEPTED_BROKERS}/{name}")
                return InitialState(f"{path} and the logs", tree, stored.last_id)
    return None


def _rename_cluster(tree: Tree, owner: Owner) -> None:
    """A directory that leaves its cluster without the cluster's state gets a new cluster id: ids must be unique."""
    node = tree.nodes.get(paths.CLUSTER_ID)
    if node is not None and not _has_own_store(owner):
        data = codecs.to_json({"version": "1", "id": uuid_to_text(new_topic_id())})
        tree.add(paths.CLUSTER_ID, replace(node, data=data))


def _has_own_store(owner: Owner) -> bool:
    """Also the first process of a unit, after all partitions moved to it."""
    return owner.kind == EMBEDDED or (owner.kind == UNIT and owner.store is not None)


# The new store


async def _stand_alone(claim: LockedDirectories, owner: Owner, basis: InitialState, wanted_id: int) -> Standalone:
    home = Path(owner.store.path).parent if owner.store is not None else claim.directories[0].path
    broker_id = owner.node_id if owner.node_id is not None else max(wanted_id, FIRST_BROKER_ID)
    shutil.rmtree(home / _NEW_STORE, ignore_errors=True)  # from an interrupted run
    write_store(home / _NEW_STORE, basis.tree, basis.last_id)
    store = EmbeddedStore(home / _NEW_STORE)
    try:
        cluster_id = await prepare_store(store, owner.cluster_id if _has_own_store(owner) else None)
        image = await load_image(store)
        findings = topics_from_logs(
            image,
            _logs_on_disk(claim),
            broker_id,
            new_id=new_topic_id,
            internal_settings=INTERNAL_SETTINGS,
        )
        image = await _write(store, image, findings, broker_id)
    finally:
        await store.close()
    replaced = put_away(home / STORE_DIRECTORY, _REPLACED_SUFFIX) if (home / STORE_DIRECTORY).exists() else None
    (home / _NEW_STORE).rename(home / STORE_DIRECTORY)
    sync_directory(home)
    _put_damaged_identities_away(claim)
    claim.save_identity(broker_id, cluster_id, StoreOwner(EMBEDDED, now_text()))
    return Standalone(broker_id, cluster_id, len(image.topics), basis.name, replaced, findings)


def _logs_on_disk(claim: LockedDirectories) -> Iterator[LogOnDisk]:
    for directory in claim.directories:
        for path, partition in logs_in(directory.path):
            try:
                topic_id = read_topic_id(path)
            except CorruptFile as wrong:
                raise StorageFault(f"{wrong}: restore it from a copy or from another partition of the topic") from None
            yield LogOnDisk(partition.topic, partition.partition, topic_id, latest_epoch(path))


async def _write(store: Store, image: ClusterImage, findings: Findings, broker_id: int) -> ClusterImage:
    if not findings.changes:
        return image
    # The store may have lost allocated blocks of producer ids. With a reused id the broker would take new records for
    # duplicates. The current time in microseconds is above every block that was ever allocated.
    first = time.time_ns() // 1000 // _BLOCK * _BLOCK
    changes = [*findings.changes, ProducerIdsAllocated(broker_id, first, first + _BLOCK)]
    after = apply(image, changes, image.version + 1)
    ops: list[Op] = [*ops_for(changes, image, after), *version_ops(changes, after)]
    await store.multi(ops)
    return after


def _put_damaged_identities_away(claim: LockedDirectories) -> None:
    for facts in claim.facts:
        if facts.identity_damage is not None:
            put_away(Path(facts.path) / META_PROPERTIES_FILE, _DAMAGED_SUFFIX)
