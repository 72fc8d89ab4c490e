"""Checks at a start which broker and cluster own the log directories, and opens the store with their topics.

Reads first: the directories are locked and read, then ZooKeeper, and `core.ownership` decides. Only then does the
broker write: the chroot, the nodes of a new cluster, or the state of an embedded store that moves to ZooKeeper.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from headrace.broker.core.ownership import (
    PROCESS_DIRECTORY_PREFIX,
    DirectoryFacts,
    EnsembleFacts,
    Owner,
    Step,
    StoreFacts,
    agree,
    check_alone,
    check_ensemble,
    refuse_part_of_member_unit,
    refuse_part_of_unit,
)
from headrace.cluster import codecs
from headrace.cluster.core.image import BrokerInfo
from headrace.config import BrokerConfig
from headrace.coordination import paths
from headrace.coordination.core.tree import Tree
from headrace.coordination.embedded import EmbeddedStore
from headrace.coordination.embedded_files import StoredTree, read_store
from headrace.coordination.migration import MOVED_SUFFIX, existing_nodes, move_to_ensemble, put_away
from headrace.coordination.startup_retry import answered
from headrace.coordination.store import ClusterStore, Store, StoreFailed
from headrace.storage.dirs.checkpoints import CorruptFile
from headrace.storage.dirs.contents import logs_in
from headrace.storage.dirs.identity import EMBEDDED, MOVING, UNIT, ZOOKEEPER, StoreOwner
from headrace.storage.dirs.log_dir import LogDir
from headrace.storage.dirs.nesting import log_directories_in, log_directory_around
from headrace.storage.files import partition_of_directory

# Kafka's tools take directory names for partitions, so the broker's own directory has a name that is no partition.
STORE_DIRECTORY: Final = ".coordination"
FIRST_BROKER_ID: Final = 0


class LockedDirectories:
    """The log directories of one start: locked, and read. Locks end with `release`, or with the LogDirs that take the
    directories over. Raises DirectoryInUse.
    """

    def __init__(self, directories: Iterable[str | Path], holder: str, *, read_stores: bool = True) -> None:
        """`read_stores`: not while the supervisor of a unit has the store open."""
        self._read_stores = read_stores
        self.directories = [LogDir(Path(path)) for path in directories]
        # The embedded store that was found in one of them.
        self.stored: StoredTree | None = None
        try:
            self.facts = [self._facts(directory, holder) for directory in self.directories]
        except BaseException:  # on any error the directories must not stay locked
            self.release()
            raise

    def release(self) -> None:
        for directory in self.directories:
            directory.unlock()

    def save_identity(self, node_id: int, cluster_id: str | None, home: StoreOwner) -> None:
        for directory in self.directories:
            if directory.is_online:
                directory.save_identity(node_id=node_id, cluster_id=cluster_id, home=home)

    def _facts(self, directory: LogDir, holder: str) -> DirectoryFacts:
        path, damage = str(directory.path), None
        nested = _nested(directory.path)
        if nested is not None:
            return DirectoryFacts(path, nested=nested)
        try:
            directory.claim(holder)
        except CorruptFile as wrong:
            damage = f"{wrong} (the file is damaged)"
        if not directory.is_online:
            return DirectoryFacts(path, offline_reason=directory.offline_reason)
        identity = directory.identity
        store = self._store_facts(directory.path / STORE_DIRECTORY)
        home = identity.home if identity is not None else None
        if home is None and store is None and (directory.path / f"{STORE_DIRECTORY}{MOVED_SUFFIX}").exists():
            home = StoreOwner(ZOOKEEPER, "")  # moved by a release that did not record the target
        return DirectoryFacts(
            path,
            identity.node_id if identity is not None else None,
            identity.cluster_id if identity is not None else None,
            home,
            damage,
            logs=sum(1 for _ in logs_in(directory.path)),
            store=store,
        )

    def _store_facts(self, directory: Path) -> StoreFacts | None:
        if not self._read_stores:
            return None
        try:
            stored = read_store(directory)
        except StoreFailed as damage:
            return StoreFacts(str(directory), damage=damage.message)
        node = stored.tree.nodes.get(paths.CLUSTER_ID) if stored is not None else None
        if stored is None or node is None:
            return None
        self.stored = stored
        accepted = stored.tree.children.get(paths.ACCEPTED_BROKERS, ())
        return StoreFacts(
            str(directory),
            json.loads(node.data)["id"],
            tuple(sorted(map(int, accepted))),
            _brokers_with_replicas(stored.tree),
        )


def registered_in(stored: StoredTree | None, broker_id: int) -> BrokerInfo | None:
    """The last registration of the broker in its embedded store. A move to ZooKeeper does not copy registrations."""
    node = None if stored is None else stored.tree.nodes.get(paths.accepted_broker(broker_id))
    return None if node is None else codecs.decode_accepted(node.data)


def _brokers_with_replicas(tree: Tree) -> tuple[int, ...]:
    found: set[int] = set()
    for name in tree.children.get(paths.TOPICS, ()):
        topic = codecs.decode_topic(tree.nodes[paths.topic(name)].data)
        if topic is not None:
            _, value = topic
            found.update(*value["partitions"].values(), *value["adding_replicas"].values())
    return tuple(sorted(found))


def _nested(directory: Path) -> str | None:
    """A log directory that contains this one or is inside it: one would take the other for a log."""
    around = log_directory_around(directory)
    if around is not None and partition_of_directory(directory.absolute().relative_to(around).parts[0]) is not None:
        return f"{directory} is inside {around}, the log directory of another broker"
    for inside in log_directories_in(directory, 1):
        if partition_of_directory(inside.name) is not None:
            return f"{inside}, the log directory of another broker, is inside {directory}"
    return None


def process_directories(log_dirs: Iterable[str]) -> dict[int, list[Path]]:
    """The directories of the further processes of a unit, by the number of the process."""
    found: dict[int, list[Path]] = {}
    for directory in log_dirs:
        for path in Path(directory.strip()).glob(f"{PROCESS_DIRECTORY_PREFIX}*"):
            number = path.name.removeprefix(PROCESS_DIRECTORY_PREFIX)
            if number.isdecimal() and path.is_dir():
                found.setdefault(int(number), []).append(path)
    return found


def last_process_with_logs(log_dirs: Iterable[str]) -> int:
    """0 if no further process of a unit has logs. With ZooKeeper, where the assignment is not read before a start."""
    return max(
        (
            number
            for number, places in process_directories(log_dirs).items()
            if any(next(logs_in(path), None) is not None for path in places)
        ),
        default=0,
    )


def claim_directories(config: BrokerConfig) -> LockedDirectories:
    """Raises DirectoryInUse."""
    return LockedDirectories(
        config.log_dirs,
        "headrace broker" if config.broker_id < 0 else f"headrace broker {config.broker_id}",
        read_stores=not config.shares_store,
    )


def owner_of(claim: LockedDirectories, config: BrokerConfig) -> Owner:
    """Raises StorageFault if a directory belongs to another broker, or needs another store."""
    owner = agree(claim.facts, None if config.broker_id < 0 else config.broker_id)
    if config.stands_alone:
        check_alone(owner)
    elif config.shares_store and owner.kind in (ZOOKEEPER, MOVING):
        check_alone(owner, of_unit=True)  # raises: names the ensemble
    return owner


def home_of(config: BrokerConfig) -> StoreOwner:
    """The note about the store in the directories of a serving broker."""
    if config.stands_alone:
        return StoreOwner(EMBEDDED, now_text())
    if config.shares_store:
        return StoreOwner(UNIT, now_text())
    return StoreOwner(ZOOKEEPER, now_text(), connect_string(config))


def open_embedded(claim: LockedDirectories, owner: Owner) -> EmbeddedStore:
    """Opens the store of the directories; for a new broker, in the first of them."""
    where = owner.store.path if owner.store is not None else claim.directories[0].path / STORE_DIRECTORY
    return EmbeddedStore(Path(where), stored=claim.stored)


async def settle_in(zookeeper: ClusterStore, claim: LockedDirectories, owner: Owner, config: BrokerConfig) -> None:
    """Checks the ensemble, and moves the state of an embedded store there. Raises StorageFault before anything is
    written.
    """
    if (config.processes or 1) == 1:
        refuse_part_of_unit(owner)
        refuse_part_of_member_unit(owner, last_process_with_logs(config.log_dirs))
    patience_s = config.store_timeout_s
    ensemble = await answered(
        "the cluster's id", lambda: read_ensemble(zookeeper, connect_string(config)), within_s=patience_s
    )
    step = check_ensemble(owner, ensemble)
    if step is Step.SERVE:
        await answered("the chroot", zookeeper.make_chroot, within_s=patience_s)
        return
    assert owner.store is not None, "what moves, or has moved, is there"
    if step is Step.MOVE:
        await _move(zookeeper, claim, owner, config)
    put_away(Path(owner.store.path))


async def _move(zookeeper: ClusterStore, claim: LockedDirectories, owner: Owner, config: BrokerConfig) -> None:
    assert claim.stored is not None, "a store that can be read"
    tree = claim.stored.tree
    broker_id = FIRST_BROKER_ID if owner.node_id is None else owner.node_id
    claim.save_identity(broker_id, owner.cluster_id, StoreOwner(MOVING, now_text(), connect_string(config)))
    patience_s = config.store_timeout_s
    await answered("the chroot", zookeeper.make_chroot, within_s=patience_s)
    await answered("the move of the state", lambda: move_to_ensemble(tree, zookeeper, broker_id), within_s=patience_s)


async def read_ensemble(store: Store, connect: str) -> EnsembleFacts:
    cluster = await store.exists(paths.CLUSTER_ID)
    incoming = await store.exists(paths.INCOMING)
    moved = await store.exists(paths.MOVED)
    # What a cluster has that is there does not matter here.
    nodes = await existing_nodes(store) if cluster is None else set()
    return EnsembleFacts(
        connect,
        None if cluster is None else json.loads(cluster.data)["id"],
        None if incoming is None else json.loads(incoming.data)["id"],
        None if moved is None else json.loads(moved.data)["to"],
        bool(nodes - {"/cluster"}),
        any(path.startswith(f"{paths.TOPICS}/") for path in nodes),
    )


def connect_string(config: BrokerConfig) -> str:
    return (config.zookeeper_connect or "").replace(" ", "")


def now_text() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
