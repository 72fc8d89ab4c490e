"""A start finds out whose its log directories are, and opens the store that their topics are in.

Reads first: the directories are locked and read, then ZooKeeper, and `core.ownership` decides. Only then anything is
written: the chroot, the nodes of a new cluster, or the state of an embedded store that moves to ZooKeeper.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.broker.core.ownership import (
    DirectoryFacts,
    EnsembleFacts,
    Owner,
    Step,
    StoreFacts,
    agree,
    check_alone,
    check_ensemble,
)
from headrace.config import BrokerConfig
from headrace.coordination import paths
from headrace.coordination.embedded import EmbeddedStore
from headrace.coordination.embedded_files import StoredTree, read_store
from headrace.coordination.first_questions import answered
from headrace.coordination.migration import MOVED_SUFFIX, existing_nodes, move_to_ensemble, put_away
from headrace.coordination.store import Store, StoreFailed
from headrace.storage.dirs.checkpoints import CorruptFile
from headrace.storage.dirs.identity import EMBEDDED, MOVING, ZOOKEEPER, StoreHome
from headrace.storage.dirs.log_dir import LogDir
from headrace.storage.files import partition_of_directory

if TYPE_CHECKING:
    from headrace.coordination.zookeeper import ZooKeeperStore

# Kafka's tools list partitions by directory names, so the broker's own state has a name that is none.
STORE_DIRECTORY: Final = ".coordination"
FIRST_BROKER_ID: Final = 0
_KRAFT_METADATA: Final = "__cluster_metadata"


class Claim:
    """The log directories of one start, locked; released by `release`, or by the LogDirs that take them over.

    Raises DirectoryInUse, and StorageFault when they are not all this broker's.
    """

    def __init__(self, config: BrokerConfig) -> None:
        configured = config.broker_id
        self._config = config
        self._stored: StoredTree | None = None
        self.directories = [LogDir(Path(path)) for path in config.log_dirs]
        try:
            holder = "headrace broker" if configured < 0 else f"headrace broker {configured}"
            facts = [self._facts(directory, holder) for directory in self.directories]
            self.owner: Owner = agree(facts, None if configured < 0 else configured)
            if config.stands_alone:
                check_alone(self.owner)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        for directory in self.directories:
            directory.unlock()

    @property
    def known_id(self) -> int | None:
        """The broker id that the directories name."""
        return self.owner.node_id

    @property
    def home(self) -> StoreHome:
        """What the directories say of their store from this start on."""
        if self._config.stands_alone:
            return StoreHome(EMBEDDED, _now())
        return StoreHome(ZOOKEEPER, _now(), _connect(self._config))

    # --- reading -------------------------------------------------------------------------------------------------

    def _facts(self, directory: LogDir, holder: str) -> DirectoryFacts:
        path, damage = str(directory.path), None
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
            home = StoreHome(ZOOKEEPER, "")  # moved before directories said where to
        return DirectoryFacts(
            path,
            identity.node_id if identity is not None else None,
            identity.cluster_id if identity is not None else None,
            home,
            damage,
            logs=count_logs(directory.path),
            store=store,
        )

    def _store_facts(self, directory: Path) -> StoreFacts | None:
        try:
            stored = read_store(directory)
        except StoreFailed as damage:
            return StoreFacts(str(directory), damage=damage.message)
        node = stored.tree.nodes.get(paths.CLUSTER_ID) if stored is not None else None
        if stored is None or node is None:
            return None
        self._stored = stored
        accepted = stored.tree.children.get(paths.ACCEPTED_BROKERS, ())
        return StoreFacts(str(directory), json.loads(node.data)["id"], tuple(sorted(map(int, accepted))))

    # --- opening -------------------------------------------------------------------------------------------------

    def open_embedded(self) -> Store:
        """Of a new broker, in its first log directory."""
        store = self.owner.store
        where = Path(store.path) if store is not None else self.directories[0].path / STORE_DIRECTORY
        return EmbeddedStore(where, stored=self._stored)

    async def settle(self, zookeeper: ZooKeeperStore) -> None:
        """Checks the ensemble, and moves the state of an embedded store there. Raises StorageFault before anything is
        written."""
        ensemble = await answered(
            "the cluster's id",
            lambda: read_ensemble(zookeeper, _connect(self._config)),
            within_s=self._config.store_timeout_s,
        )
        step = check_ensemble(self.owner, ensemble)
        if step is Step.MOVE:
            await self._move(zookeeper)
        else:
            await answered("the chroot", zookeeper.make_chroot, within_s=self._config.store_timeout_s)
        store = self.owner.store
        if step is not Step.SERVE and store is not None:
            put_away(Path(store.path))

    async def _move(self, zookeeper: ZooKeeperStore) -> None:
        assert self._stored is not None, "there is a store to move"
        tree = self._stored.tree
        broker_id = FIRST_BROKER_ID if self.known_id is None else self.known_id
        home = StoreHome(MOVING, _now(), _connect(self._config))
        for directory in self.directories:
            if directory.is_online:
                directory.save_identity(node_id=broker_id, cluster_id=self.owner.cluster_id, home=home)
        await answered("the chroot", zookeeper.make_chroot, within_s=self._config.store_timeout_s)
        await answered(
            "the move of the state",
            lambda: move_to_ensemble(tree, zookeeper, broker_id),
            within_s=self._config.store_timeout_s,
        )


async def read_ensemble(store: Store, connect: str) -> EnsembleFacts:
    cluster = await store.exists(paths.CLUSTER_ID)
    incoming = await store.exists(paths.INCOMING)
    moved = await store.exists(paths.MOVED)
    # Of a cluster that is there, nobody asks what it has.
    nodes = await existing_nodes(store) if cluster is None else set()
    return EnsembleFacts(
        connect,
        None if cluster is None else json.loads(cluster.data)["id"],
        None if incoming is None else json.loads(incoming.data)["id"],
        None if moved is None else moved.data.decode(),
        bool(nodes - {"/cluster"}),
        any(path.startswith(f"{paths.TOPICS}/") for path in nodes),
    )


def count_logs(directory: Path) -> int:
    return sum(1 for _ in log_directories(directory))


def log_directories(directory: Path) -> Iterable[Path]:
    """The directories of partitions: not those of deleted logs, nor that of a KRaft controller."""
    with os.scandir(directory) as entries:
        for entry in entries:
            partition = partition_of_directory(entry.name)
            if partition is not None and partition.topic != _KRAFT_METADATA and entry.is_dir():
                yield Path(entry.path)


def _connect(config: BrokerConfig) -> str:
    return str(config.zookeeper_connect).replace(" ", "")


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
