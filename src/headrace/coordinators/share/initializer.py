"""Initialises the share partitions that a share group has recorded as initialising, and records the result.

The heartbeat of a joining member waits a short time for this, so that its first answer has partitions. Other heartbeats
do not wait: their answer removes the topics that the member unsubscribed from, and must not be late. If the share
coordinator is moving, initialisation continues in the background and later heartbeats repeat it. A share partition that
is initialised already keeps its state. Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import Final

from headrace.coordinators.codec.share_state import ShareKey
from headrace.coordinators.group.coordinator import GroupCoordinator
from headrace.coordinators.share.core.share_state import NOT_STARTED
from headrace.coordinators.share.persister import Persister
from headrace.kernel.errors import Fault

_log = logging.getLogger(__name__)
# A member sends its heartbeats every 5 s, and its request times out after 30.
_PATIENCE_SECONDS: Final = 3.0


class ShareInitializer:
    def __init__(self, groups: GroupCoordinator, persister: Persister) -> None:
        self._groups = groups
        self._persister = persister
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    async def begin(self, group_id: str, *, waits: bool) -> bool:
        """Returns True if share partitions were initialising and the caller has waited for them."""
        task = self._tasks.get(group_id)
        if task is None:
            try:
                group = await self._groups.share_group(group_id)
            except Fault:
                return False  # the group moved or was deleted: its next coordinator initialises them
            if not group.initializing:
                return False
            task = self._tasks.get(group_id)
            if task is None:
                task = self._tasks[group_id] = asyncio.ensure_future(self._begin(group_id))
                task.add_done_callback(lambda done: self._done(group_id, done))
        if waits:
            await asyncio.wait({task}, timeout=_PATIENCE_SECONDS)
        return waits

    def _done(self, group_id: str, task: asyncio.Task[None]) -> None:
        del self._tasks[group_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.warning("share partitions of share group %s are not initialised yet: %s", group_id, error)

    async def _begin(self, group_id: str) -> None:
        group = await self._groups.share_group(group_id)
        epoch = group.epoch
        keys = [
            (ShareKey(group_id, topic_id, index), name)
            for topic_id, (name, indexes) in group.initializing.items()
            for index in sorted(indexes)
        ]
        outcomes = await asyncio.gather(*(self._one(key, epoch) for key, _ in keys), return_exceptions=True)
        begun: dict[uuid.UUID, tuple[str, frozenset[int]]] = {}
        for (key, name), outcome in zip(keys, outcomes, strict=True):
            if outcome is None:
                known = begun.get(key.topic_id, (name, frozenset()))[1]
                begun[key.topic_id] = (name, known | {key.partition})
        if begun:
            await self._groups.share_partitions_begun(group_id, begun)
        for outcome in outcomes:
            if outcome is not None:
                raise outcome

    async def _one(self, key: ShareKey, epoch: int) -> None:
        if await self._persister.summary(key) is None:
            await self._persister.initialize(key, epoch, NOT_STARTED)
