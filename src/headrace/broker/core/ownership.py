"""Decides whether a broker may serve its log directories with the coordination store in its settings.

Logs belong to topics, and topics are nodes of one coordination store. A broker that serves logs with another store
finds topics without logs and logs without topics, and the next producer creates a new topic with an old name. So
before the broker writes to disk or to ZooKeeper, it answers three questions from the directories and the store:

1. `agree`: do all directories belong to one broker of one cluster, and to the configured broker id?
2. `check_alone`: is the store of these directories the embedded one, and is it there? `check_process`: the same for the
   other processes of a unit, whose store is in the directory of the first.
3. `check_ensemble`: is the store the ZooKeeper ensemble that the settings name, or may the embedded one move there?

Every "no" is a StorageFault whose message names the directory, its owner and the way out. docs/durability.md has the
table of all cases. Pure: `broker.identity` reads the facts and carries out the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final

from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import StorageFault
from headrace.kernel.plurals import counted
from headrace.storage.dirs.identity import EMBEDDED, MOVING, UNIT, ZOOKEEPER, StoreOwner

# The directory of process 2 of a unit is `process.2` in that of the first.
PROCESS_DIRECTORY_PREFIX: Final = "process."


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """The embedded store of a directory. A store without a cluster id does not count."""

    path: str
    cluster_id: str | None = None
    broker_ids: tuple[int, ...] = ()
    replica_ids: tuple[int, ...] = ()  # brokers that have replicas
    damage: str | None = None


@dataclass(frozen=True, slots=True)
class DirectoryFacts:
    path: str
    node_id: int | None = None
    cluster_id: str | None = None
    home: StoreOwner | None = None
    identity_damage: str | None = None
    offline_reason: str | None = None
    logs: int = 0
    store: StoreFacts | None = None
    nested: str | None = None

    @property
    def owner_id(self) -> int | None:
        """The broker id from meta.properties, else from the embedded store of the directory."""
        if self.node_id is None and self.store is not None and self.store.broker_ids:
            return min(self.store.broker_ids)  # of a unit, the first process: it has the store
        return self.node_id

    @property
    def owner_cluster_id(self) -> str | None:
        if self.cluster_id is None and self.store is not None:
            return self.store.cluster_id
        return self.cluster_id


@dataclass(frozen=True, slots=True)
class EnsembleFacts:
    """State of ZooKeeper. `incoming`: the cluster whose state is being moved there; `moved`: where its state is now;
    `has_nodes`: whether any node of a cluster exists."""

    connect: str
    cluster_id: str | None = None
    incoming: str | None = None
    moved: str | None = None
    has_nodes: bool = False
    has_topics: bool = False


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner that all directories agree on. `path` is the directory in messages, `paths` are all of them."""

    path: str
    paths: tuple[str, ...]
    node_id: int | None
    cluster_id: str | None
    home: StoreOwner | None
    store: StoreFacts | None
    logs: int
    offline: str

    @property
    def kind(self) -> str | None:
        """Type of the store; for a directory without a note, the embedded one if it exists."""
        if self.home is not None:
            return self.home.kind
        return EMBEDDED if self.store is not None else None

    @property
    def connect(self) -> str:
        return self.home.connect if self.home is not None else ""

    @property
    def in_zookeeper(self) -> str:
        """The ensemble with its state, if the directory has a note of it."""
        since = f" since {self.home.since}" if self.home is not None and self.home.since else ""
        return f"in ZooKeeper{f' at {self.connect}' if self.connect else ''}{since}"

    @property
    def connect_setting(self) -> str:
        return f"zookeeper.connect={self.connect or 'the address of the ensemble, with its chroot'}"

    @property
    def others(self) -> tuple[int, ...]:
        """Other processes of the unit that have replicas."""
        own = 0 if self.node_id is None else self.node_id
        return () if self.store is None else tuple(one for one in self.store.replica_ids if one != own)

    @property
    def is_further_process(self) -> bool:
        """Whether the directory is that of a process of a unit other than the first, by its name."""
        return self.path.rstrip("/").rpartition("/")[2].startswith(PROCESS_DIRECTORY_PREFIX)

    @property
    def standalone(self) -> str:
        """The command that converts these directories to a standalone broker."""
        return f"headrace log standalone {' '.join(self.paths)}"


class Step(Enum):
    """Next step of a start with ZooKeeper after all checks passed."""

    SERVE = "the ensemble holds the state already, or both are new"
    MOVE = "the state of the embedded store moves to the ensemble"
    PUT_AWAY = "it has been moved: only the embedded store is still to be put away"


# All directories together


def agree(directories: Sequence[DirectoryFacts], broker_id: int | None) -> Owner:
    """`broker_id` is the configured one, None if any id is allowed. Raises StorageFault."""
    if all(one.offline_reason is not None for one in directories):
        reasons = "; ".join(f"{one.path}: {one.offline_reason}" for one in directories)
        raise StorageFault(f"no log directory can be used ({reasons})")
    for one in directories:
        if one.nested is not None:
            raise StorageFault(
                f"{one.nested}, and one would take the other for the log of a partition: move one of them"
            )
    for one in directories:
        if one.identity_damage is not None:
            raise StorageFault(
                f"{one.identity_damage}. Restore the file from a copy, or write it again"
                f"{_lines(_first_id(directories, broker_id), _first_cluster(directories))}"
            )
    _refuse_two_brokers(directories)
    _refuse_two_clusters(directories)
    stores = [one.store for one in directories if one.store is not None]
    if len(stores) > 1:
        raise StorageFault(
            f"{stores[0].path} and {stores[1].path} both hold a coordination store, and a broker has one: "
            "name only the directories of one broker in log.dirs, or move the store that is not wanted elsewhere"
        )
    for one in directories:
        if broker_id is not None and one.owner_id not in (None, broker_id):
            raise StorageFault(
                f"log directory {one.path} belongs to broker {one.owner_id}, but broker.id={broker_id} is configured: "
                f"set broker.id={one.owner_id}, or give broker {broker_id} a log directory of its own"
            )
        if one.node_id is None and one.store is None and one.logs:
            _refuse_unnamed(one, _first_id(directories, broker_id), _first_cluster(directories))
    named = next((one for one in directories if one.owner_cluster_id or one.node_id is not None), directories[0])
    return Owner(
        named.path,
        tuple(one.path for one in directories),
        _first_id(directories, None),
        _first_cluster(directories),
        _home(directories),
        stores[0] if stores else None,
        sum(one.logs for one in directories),
        "; ".join(f"{one.path} is offline: {one.offline_reason}" for one in directories if one.offline_reason),
    )


def _refuse_two_brokers(directories: Sequence[DirectoryFacts]) -> None:
    owned = [one for one in directories if one.owner_id is not None]
    for one in owned[1:]:
        if one.owner_id != owned[0].owner_id:
            raise StorageFault(
                f"log directory {owned[0].path} belongs to broker {owned[0].owner_id} and {one.path} to broker "
                f"{one.owner_id}: name only the directories of one broker in log.dirs"
            )
    for one in owned:
        if one.store is not None and one.store.broker_ids and one.owner_id not in one.store.broker_ids:
            raise StorageFault(
                f"log directory {one.path} belongs to broker {one.owner_id}, but the store in it ({one.store.path}) to "
                f"broker {one.store.broker_ids[0]}: restore the file or the directory that was replaced from a copy"
            )


def _refuse_two_clusters(directories: Sequence[DirectoryFacts]) -> None:
    owned = [one for one in directories if one.owner_cluster_id is not None]
    for one in owned[1:]:
        if one.owner_cluster_id != owned[0].owner_cluster_id:
            raise StorageFault(
                f"log directory {owned[0].path} belongs to cluster {owned[0].owner_cluster_id} and {one.path} to "
                f"cluster {one.owner_cluster_id}: name only the directories of one broker in log.dirs"
            )
    for one in owned:
        if one.store is not None and one.store.cluster_id not in (None, one.owner_cluster_id):
            raise StorageFault(
                f"log directory {one.path} belongs to cluster {one.owner_cluster_id}, but the store in it "
                f"({one.store.path}) to cluster {one.store.cluster_id}: restore the file or the directory that was "
                "replaced from a copy"
            )


def _refuse_unnamed(one: DirectoryFacts, node_id: int | None, cluster_id: str | None) -> None:
    raise StorageFault(
        f"{one.path} holds {_logs(one.logs)}, but no meta.properties that names their broker and cluster. "
        f"Restore the file from a copy, or write it if you know the owner{_lines(node_id, cluster_id)}. "
        f"`headrace log standalone {one.path}` makes a broker of its own from the logs"
    )


def _lines(node_id: int | None, cluster_id: str | None) -> str:
    broker = "the broker's id" if node_id is None else node_id
    return f" with the lines version=1, node.id={broker} and cluster.id={cluster_id or 'the id of the cluster'}"


def _first_id(directories: Sequence[DirectoryFacts], otherwise: int | None) -> int | None:
    return next((one.owner_id for one in directories if one.owner_id is not None), otherwise)


def _first_cluster(directories: Sequence[DirectoryFacts]) -> str | None:
    return next((one.owner_cluster_id for one in directories if one.owner_cluster_id is not None), None)


def _home(directories: Sequence[DirectoryFacts]) -> StoreOwner | None:
    """A move writes "moving" everywhere before it begins, and the new store everywhere when it is done."""
    homes = [one.home for one in directories if one.home is not None]
    for kind in (MOVING, ZOOKEEPER, UNIT, EMBEDDED):
        for home in homes:
            if home.kind == kind:
                return home
    return None


# Alone


def check_alone(owner: Owner, *, of_unit: bool = False) -> None:
    """Raises StorageFault unless the embedded store has the topics of these directories, or they are new. `of_unit`:
    the broker is the first process of a unit, and the others start, too."""
    back = f"`{owner.standalone} --zookeeper {owner.connect or 'HOST:PORT/CHROOT'}`"
    if owner.kind == MOVING:
        raise StorageFault(
            f"{owner.path} is half moved: its state has been on its way {owner.in_zookeeper}. "
            f"Start with {owner.connect_setting} to finish the move, or serve alone again with {back}"
        )
    if owner.kind == ZOOKEEPER:
        raise StorageFault(
            f"log directory {owner.path} belongs to broker {owner.node_id} of cluster {owner.cluster_id}, whose topics "
            f"are {owner.in_zookeeper}: start with {owner.connect_setting}. "
            f"{back} brings them back, if this broker is the only one of its cluster"
        )
    _refuse_damaged_store(owner)
    if not of_unit:
        refuse_part_of_unit(owner)
    if owner.store is not None or not (owner.logs or owner.offline or owner.kind == UNIT):
        return
    if owner.kind == UNIT and owner.is_further_process:
        _refuse_member_directory(owner)
    if owner.kind in (EMBEDDED, UNIT) or owner.offline:
        _refuse_missing_store(owner)
    raise StorageFault(
        f"log directory {owner.path} belongs to broker {owner.node_id} of cluster {owner.cluster_id}, and the topics "
        f"of its {_logs(owner.logs)} are not known here: set zookeeper.connect to the ensemble of that cluster. "
        f"`{owner.standalone}` makes a broker of its own from the logs"
    )


def refuse_part_of_unit(owner: Owner) -> None:
    """Raises StorageFault if other processes have replicas: alone, this broker would serve a part of the topics."""
    if owner.store is not None and owner.others:
        count = max(owner.others) - (owner.node_id or 0) + 1
        brokers, have = ("broker", "has") if len(owner.others) == 1 else ("brokers", "have")
        raise StorageFault(
            f"log directory {owner.path} belongs to the first process of a unit, and {brokers} "
            f"{', '.join(map(str, owner.others))} of the unit {have} a share of its partitions: start it with --cores "
            f"{count} (broker.processes={count}). With --cores 1 the unit first moves all partitions to one process"
        )


def refuse_part_of_member_unit(owner: Owner, last_process: int) -> None:
    """With ZooKeeper. `last_process`: the highest number of a further process that has logs, 0 if none has. Raises
    StorageFault, because the partitions of the others would have no leader."""
    if last_process:
        count = last_process + 1
        raise StorageFault(
            f"log directory {owner.path} belongs to the first process of a unit, and a further process has logs in "
            f"{owner.path.rstrip('/')}/{PROCESS_DIRECTORY_PREFIX}{last_process}: start it with --cores {count} "
            f"(broker.processes={count}). With --cores 1 the unit first moves all partitions to one process. If "
            "another broker serves that directory, move it out of this one"
        )


def _refuse_member_directory(owner: Owner) -> None:
    raise StorageFault(
        f"log directory {owner.path} belongs to broker {owner.node_id}, a process of the unit of cluster "
        f"{owner.cluster_id}, and the topics of its {_logs(owner.logs)} are in the store of the first process, in "
        f"the directory around it: start the unit with that directory and --cores. If the directory is lost, "
        f"`{owner.standalone}` makes a broker of its own from the logs here"
    )


def check_process(owner: Owner, cluster_id: str | None) -> None:
    """Raises StorageFault unless the directory of a further process is new, or belongs to the unit of `cluster_id`."""
    if owner.store is not None:
        raise StorageFault(
            f"log directory {owner.path} of a further process has its own coordination store ({owner.store.path}), and "
            "a unit has one, in the directory of its first process: move the directory elsewhere"
        )
    if owner.cluster_id is not None and owner.cluster_id != cluster_id:
        raise StorageFault(
            f"log directory {owner.path} belongs to broker {owner.node_id} of cluster {owner.cluster_id}, this unit to "
            f"{'a new cluster' if cluster_id is None else f'cluster {cluster_id}'}: restore the directory of its first "
            "process with .coordination, or move it elsewhere"
        )
    if owner.kind not in (None, UNIT):
        raise StorageFault(
            f"log directory {owner.path} belongs to a broker whose topics are "
            f"{owner.in_zookeeper if owner.kind in (ZOOKEEPER, MOVING) else 'in an embedded store'}, and not to this "
            "unit: move it elsewhere"
        )


def _refuse_damaged_store(owner: Owner) -> None:
    if owner.store is not None and owner.store.damage is not None:
        raise StorageFault(
            f"the coordination store of this broker is damaged: {owner.store.damage}. Restore {owner.store.path} "
            f"from a copy. Without one, `{owner.standalone}` rebuilds it from its readable part and from the logs"
        )


def _refuse_missing_store(owner: Owner) -> None:
    if owner.offline:
        raise StorageFault(
            "the coordination store of this broker is in none of the log directories that can be read, "
            f"and {owner.offline}"
        )
    raise StorageFault(
        f"the coordination store of broker {owner.node_id} is in none of its log directories, so the topics of its "
        f"{_logs(owner.logs)} in {owner.path} are not known: name all its directories in log.dirs, or restore "
        f".coordination from a copy. Without one, `{owner.standalone}` rebuilds it from the logs"
    )


# With ZooKeeper


def check_ensemble(owner: Owner, ensemble: EnsembleFacts) -> Step:
    """Returns the next step. Raises StorageFault if the ensemble belongs to another cluster or has lost the topics."""
    if ensemble.moved is not None:
        raise StorageFault(
            f"the state of cluster {ensemble.cluster_id} in ZooKeeper at {ensemble.connect} was moved away "
            f"({ensemble.moved}): start that broker without zookeeper.connect, or choose an empty chroot"
        )
    if owner.kind in (EMBEDDED, UNIT, MOVING):
        _refuse_damaged_store(owner)
    if owner.kind == EMBEDDED and owner.store is None and owner.logs:
        _refuse_missing_store(owner)
    if ensemble.cluster_id is None:
        return _in_empty_ensemble(owner, ensemble)
    if owner.cluster_id not in (None, ensemble.cluster_id):
        raise StorageFault(
            f"log directory {owner.path} belongs to cluster {owner.cluster_id}, ZooKeeper at {ensemble.connect} to "
            f"cluster {ensemble.cluster_id}: point zookeeper.connect at the right ensemble and chroot"
            f"{_was_at(owner)}, or choose another log.dirs"
        )
    if owner.store is None or owner.kind == ZOOKEEPER:
        return Step.SERVE
    if owner.kind == MOVING:
        return Step.PUT_AWAY
    raise StorageFault(
        f"{owner.store.path} and ZooKeeper at {ensemble.connect} both hold the state of cluster {ensemble.cluster_id}: "
        "start without zookeeper.connect to use the first, or move that directory elsewhere to use ZooKeeper"
    )


def _in_empty_ensemble(owner: Owner, ensemble: EnsembleFacts) -> Step:
    if ensemble.incoming not in (None, owner.cluster_id):
        raise StorageFault(
            f"the state of cluster {ensemble.incoming} is being moved to ZooKeeper at {ensemble.connect}: "
            "wait for that broker, start it again if it was stopped, or choose another chroot"
        )
    moves = owner.store is not None and owner.kind != ZOOKEEPER
    if ensemble.incoming is None and (ensemble.has_nodes if moves else ensemble.has_topics):
        raise StorageFault(
            f"ZooKeeper at {ensemble.connect} holds nodes of a cluster but no /cluster/id: restore that node, "
            "or choose an empty chroot"
        )
    if moves:
        if owner.kind == MOVING and owner.connect != ensemble.connect and ensemble.incoming is None:
            raise StorageFault(
                f"{owner.path} is half moved: its state has been on its way {owner.in_zookeeper}. "
                f"Start with {owner.connect_setting} to finish the move, not with {ensemble.connect}"
            )
        return Step.MOVE
    if owner.cluster_id is not None and (owner.logs or owner.kind is not None):
        raise StorageFault(
            f"ZooKeeper at {ensemble.connect} holds no cluster, but log directory {owner.path} belongs to cluster "
            f"{owner.cluster_id}: point zookeeper.connect at the right ensemble and chroot{_was_at(owner)}. "
            f"If ZooKeeper lost its data, `{owner.standalone}` makes a broker of its own from the logs"
        )
    return Step.SERVE


def _was_at(owner: Owner) -> str:
    return f" (this directory was last served with {owner.connect})" if owner.connect else ""


def _logs(count: int) -> str:
    return counted(count, "log")
