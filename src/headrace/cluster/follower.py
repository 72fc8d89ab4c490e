"""Keeps the cluster image of this broker up to date from the store, by version.

A watch on the version node triggers a check. A check reads the version and then every newer change list. Watches can be
late or lost with a connection, so the broker also checks periodically. A broker that is too far behind, or has just
started, loads the whole image. The active controller publishes its own changes itself, so its checks find nothing new.
"""

from __future__ import annotations

import asyncio
import logging
import math
from typing import Final

from headrace.cluster import codecs
from headrace.cluster.core.changes import apply
from headrace.cluster.core.image import EMPTY_IMAGE, ClusterImage
from headrace.cluster.loading import load_newer
from headrace.cluster.view import ClusterView
from headrace.coordination import paths
from headrace.coordination.store import Node, Store, StoreFault, log_level
from headrace.coordination.waiting import until

logger = logging.getLogger(__name__)

# Longest time between checks without a watch event. Shorter than any session timeout, and rare enough to cost little.
_CHECK_INTERVAL_S: Final = 2.0
_PAUSE_AFTER_FAULT: Final = 0.2


class ImageFollower:
    def __init__(self, store: Store, view: ClusterView) -> None:
        self._store = store
        self._view = view
        self._hint = asyncio.Event()
        self._watching = False
        self._task: asyncio.Task[None] | None = None

    async def start(self, known: ClusterImage = EMPTY_IMAGE) -> None:
        """Loads what is newer than `known`, or everything if necessary, and then keeps following."""
        self._view.publish(await load_newer(self._store, known))
        self._task = asyncio.create_task(self._follow(), name="cluster image follower")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def look(self) -> None:
        """Requests a check, because something may have changed."""
        self._hint.set()

    async def catch_up(self) -> None:
        """Loads the newest image, for decisions that must not use an old one. If the store does not answer, the present
        image stays."""
        try:
            await self._store.sync()
            await self._catch_up()
        except StoreFault as fault:
            logger.info("cannot look for a newer cluster image: %s", fault.message or type(fault).__name__)

    def _watched(self) -> None:
        self._watching = False
        self._hint.set()

    async def _follow(self) -> None:
        # The embedded store cannot lose a watch, and periodic checks would only wake an idle machine.
        pause = (
            None if math.isinf(self._store.session_timeout) else min(_CHECK_INTERVAL_S, self._store.session_timeout / 4)
        )
        while True:
            self._hint.clear()
            try:
                await self._catch_up()
            except StoreFault as fault:
                why = fault.message or type(fault).__name__
                logger.log(log_level(fault, logging.INFO), "cannot follow the cluster image right now: %s", why)
                await asyncio.sleep(_PAUSE_AFTER_FAULT)
                continue
            except Exception:  # the boundary of a round: a bug in one round must not end the task
                logger.exception("following the cluster image failed; trying again")
                await asyncio.sleep(_PAUSE_AFTER_FAULT)
                continue
            await until(self._hint, pause)

    async def _catch_up(self) -> None:
        """Takes one round trip if only one change is new, as it nearly always is. Speed matters: a leader that learns
        of its leadership later than its clients rejects their requests."""
        known = self._view.current
        head, next_change = await asyncio.gather(self._head(), self._store.exists(paths.change(known.version + 1)))
        version = 0 if head is None else int(codecs.from_json(head.data)["version"])
        if version == known.version + 1 and next_change is not None:
            self._view.publish(apply(known, codecs.decode_changes(next_change.data), version))
        elif version > known.version:
            self._view.publish(await load_newer(self._store, known))

    async def _head(self) -> Node | None:
        if self._watching:
            return await self._store.exists(paths.IMAGE)
        self._watching = True
        try:
            return await self._store.exists(paths.IMAGE, watch=self._watched)
        except BaseException:  # also if cancelled: the next check must set the watch again
            self._watching = False
            raise
