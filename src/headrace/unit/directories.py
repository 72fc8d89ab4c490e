"""Checks the log directories of all processes before a unit starts, and opens its coordination store.

The store is in the directory of the first process, where a standalone broker has it. It names the topics of all
processes, so every process that has replicas must start. A directory that is missing would come back empty: its
partitions would have a leader without records. So the unit refuses to start without it. Nothing is written before all
checks have passed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from headrace.broker.core.ownership import Owner, agree, check_alone, check_process
from headrace.broker.identity import (
    FIRST_BROKER_ID,
    LockedDirectories,
    last_process_with_logs,
    open_embedded,
    process_directories,
)
from headrace.config import BrokerConfig
from headrace.coordination.embedded import EmbeddedStore
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import StorageFault
from headrace.storage.dirs.checkpoints import META_PROPERTIES_FILE
from headrace.storage.dirs.log_dir import DirectoryInUse
from headrace.unit.core.processes import log_dirs_of

# The processes of a supervisor that was killed stop by themselves; a new supervisor waits for them.
_FORMER_PROCESSES_S: Final = 20.0
_PAUSE_S: Final = 0.2


@dataclass(slots=True)
class UnitDirectories:
    """`occupied`: the number of processes that must start, because the last of them has replicas. `store` is None with
    ZooKeeper."""

    first_id: int
    cluster_id: str | None
    occupied: int
    store: EmbeddedStore | None


async def open_directories(config: BrokerConfig, check_ports: Callable[[], None] = lambda: None) -> UnitDirectories:
    """`check_ports` runs when former processes have ended, and before anything is written. Raises Fault."""
    claim = await _locked(config)
    try:
        owner = agree(claim.facts, None if config.broker_id < 0 else config.broker_id)
        first_id = owner.node_id if owner.node_id is not None else max(config.broker_id, FIRST_BROKER_ID)
        check_ports()
        if config.zookeeper_connect:
            return UnitDirectories(first_id, owner.cluster_id, last_process_with_logs(config.log_dirs) + 1, None)
        check_alone(owner, of_unit=True)
        highest = max(owner.store.replica_ids, default=first_id) if owner.store is not None else first_id
        occupied = highest - first_id + 1
        _check_others(config, owner, first_id, occupied)
        return UnitDirectories(first_id, owner.cluster_id, occupied, open_embedded(claim, owner))
    finally:
        claim.release()


async def _locked(config: BrokerConfig) -> LockedDirectories:
    """The directories of the first process. The processes take the locks when they start."""
    deadline = time.monotonic() + _FORMER_PROCESSES_S
    while True:
        held: list[LockedDirectories] = []
        try:
            for index in range(_last_directory(config) + 1):
                held.append(LockedDirectories(log_dirs_of(config, index), "headrace unit", read_stores=index == 0))
            return held[0]
        except DirectoryInUse:
            if _last_directory(config) == 0 or time.monotonic() > deadline:
                raise
            for one in held:
                one.release()
            held = []
            await asyncio.sleep(_PAUSE_S)
        finally:
            for one in held[1:]:
                one.release()


def _check_others(config: BrokerConfig, owner: Owner, first_id: int, occupied: int) -> None:
    """The directories of the other processes belong to this unit, and those with replicas are there."""
    for index in range(1, max(_last_directory(config) + 1, occupied)):
        paths = log_dirs_of(config, index)
        missing = [path for path in paths if not (Path(path) / META_PROPERTIES_FILE).exists()]
        has_replicas = owner.store is not None and first_id + index in owner.store.replica_ids
        if has_replicas and len(missing) == len(paths):
            raise StorageFault(
                f"process {index} of this unit (broker {first_id + index}) has replicas, but its log directory "
                f"{missing[0]} is missing: restore it, or mount its disk"
            )
        if len(missing) == len(paths) and not any(Path(path).exists() for path in paths):
            continue
        claim = LockedDirectories(paths, "headrace unit")
        try:
            check_process(agree(claim.facts, first_id + index), owner.cluster_id)
        finally:
            claim.release()


def _last_directory(config: BrokerConfig) -> int:
    """The highest number of a process whose directory exists."""
    return max(process_directories(config.log_dirs), default=0)
