"""Election of the controller: the first broker to create /controller, in one atomic step with the next controller
epoch.

    multi( create /controller (ephemeral),  set /controller_epoch = epoch + 1 if it is still at the version we read )

So an epoch belongs to exactly one controller, and every later write checks the version of /controller_epoch. A new
controller reads everything, finishes operations that its predecessor left incomplete, compares the accepted brokers
with the registered ones (a broker with another epoch has restarted), and then serves.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping
from typing import Final

from headrace.cluster import codecs
from headrace.cluster.core.changes import Change, ConfigSet, ControllerElected, FeatureSet
from headrace.cluster.core.image import BrokerInfo, ClusterImage
from headrace.cluster.loading import load_newer
from headrace.cluster.view import ClusterView
from headrace.controller.core.config_changes import MIN_INSYNC
from headrace.controller.core.features import INITIAL_LEVELS
from headrace.controller.ledger import Decision, Deposed, Ledger
from headrace.coordination import paths
from headrace.coordination.store import (
    BadVersion,
    Check,
    ConnectionLost,
    Create,
    Delete,
    NodeExists,
    NoNode,
    SessionEvent,
    Set,
    Store,
    StoreFault,
    log_level,
)
from headrace.coordination.waiting import until

logger = logging.getLogger(__name__)

_PAUSE_AFTER_FAULT: Final = 0.2
_LONGEST_UNSEEN: Final = 2.0

# Called with the ledger of the new term; runs until the term ends and is cancelled then.
Activate = Callable[[Ledger], None]


class Leadership:
    def __init__(
        self,
        store: Store,
        view: ClusterView,
        broker_id: int,
        *,
        activate: Activate,
        deactivate: Callable[[], None],
        may_stand: Callable[[], bool],
        min_insync: Callable[[], int],
    ) -> None:
        self._store = store
        self._view = view
        self._broker_id = broker_id
        self._activate = activate
        self._deactivate = deactivate
        self._may_stand = may_stand
        self._min_insync = min_insync
        self._hint = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._ledger: Ledger | None = None
        store.on_session(self._session_changed)

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="controller leadership")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _session_changed(self, event: SessionEvent) -> None:
        if event is SessionEvent.EXPIRED and self._ledger is not None:
            # Our /controller is gone and another broker may be elected already: stop answering at once.
            self._ledger.resign("the session with the coordination store expired")
        self._hint.set()

    async def _run(self) -> None:
        while True:
            self._hint.clear()
            try:
                holder = await self._store.exists(paths.CONTROLLER, watch=self._hint.set)
                if holder is None and self._may_stand():
                    term = await self._win()
                    if term is not None:
                        await self._serve(*term)
                        continue
                if holder is not None and self._is_us(holder.data, holder.session_id):
                    # Left from our own term that ended with a fault: delete it and hold a new election.
                    await self._make_way(holder.session_id)
                    continue
            except Deposed as deposed:
                logger.info("not controller: %s", deposed.message)
            except (StoreFault, NodeExists) as fault:
                why = fault.message or type(fault).__name__
                logger.log(log_level(fault, logging.INFO), "controller election: %s", why)
                await asyncio.sleep(_PAUSE_AFTER_FAULT)
                continue
            except Exception:  # boundary of an election: this broker must stay a candidate
                logger.exception("the controller election failed; trying again")
                await asyncio.sleep(1.0)
                continue
            timeout = self._store.session_timeout
            await until(self._hint, _LONGEST_UNSEEN if math.isinf(timeout) else min(_LONGEST_UNSEEN, timeout / 4))

    def _is_us(self, data: bytes, session_id: int) -> bool:
        return bool(session_id == self._store.session_id and codecs.from_json(data)["brokerid"] == self._broker_id)

    async def _win(self) -> tuple[int, int] | None:
        """(epoch, version of the epoch node) when this broker is controller now."""
        node = await self._store.exists(paths.CONTROLLER_EPOCH)
        if node is None:
            try:
                await self._store.create(paths.CONTROLLER_EPOCH, b"0")
            except NodeExists:
                pass
            node = await self._store.get(paths.CONTROLLER_EPOCH)
        epoch, version = int(node.data) + 1, node.version
        data = codecs.to_json(
            {
                "version": 2,
                "brokerid": self._broker_id,
                "epoch": epoch,
                "timestamp": str(time.time_ns() // 1_000_000),
            }
        )
        create = Create(paths.CONTROLLER, data, ephemeral=True)
        try:
            await self._store.multi([create, Set(paths.CONTROLLER_EPOCH, str(epoch).encode(), version)])
        except (NodeExists, BadVersion, ConnectionLost):
            # Another broker, or we ourselves if the answer was lost: the node shows which.
            await self._store.sync()
            holder = await self._store.exists(paths.CONTROLLER)
            if holder is None or holder.data != data or holder.session_id != self._store.session_id:
                return None
        logger.info("broker %d is controller with epoch %d", self._broker_id, epoch)
        return epoch, version + 1

    async def _serve(self, epoch: int, epoch_version: int) -> None:
        session = self._store.session_id
        await self._store.sync()
        image = await load_newer(self._store, self._view.current)
        self._ledger = ledger = Ledger(self._store, self._view, image, epoch_version)
        try:
            await self._finish_half_done(ledger)
            await ledger.run(lambda now: Decision(None, self._first_changes(now, epoch)))
            self._activate(ledger)
            while not ledger.deposed.is_set() and self._store.session_id == session:
                await until(ledger.deposed, 0.5)
        finally:
            self._ledger = None
            self._deactivate()
            await ledger.close()
            await self._step_down(session)

    def _first_changes(self, image: ClusterImage, epoch: int) -> list[Change]:
        changes: list[Change] = [ControllerElected(self._broker_id, epoch)]
        if image.version == 0:
            changes += [FeatureSet(name, level) for name, level in INITIAL_LEVELS.items()]
            # As in Kafka with eligible leader replicas: from now on one value applies to all brokers.
            changes.append(ConfigSet("broker", "", {MIN_INSYNC: str(self._min_insync())}))
        return changes

    async def _step_down(self, session: int) -> None:
        """Deletes /controller if it is ours, so that an election need not wait for the end of the session."""
        try:
            await self._make_way(session)
        except StoreFault as fault:
            logger.info("could not step down: %s", fault.message or type(fault).__name__)

    async def _make_way(self, session: int) -> None:
        """Deletes /controller if that session created it. If the session ended and another broker was elected since the
        node was read, the controller epoch has changed and the delete fails."""
        epoch = await self._store.get(paths.CONTROLLER_EPOCH)
        holder = await self._store.exists(paths.CONTROLLER)
        if holder is not None and holder.session_id == session:
            await self._store.multi([Check(paths.CONTROLLER_EPOCH, epoch.version), Delete(paths.CONTROLLER)])

    async def _finish_half_done(self, ledger: Ledger) -> None:
        for name in await self._store.children(paths.DELETE_TOPICS):
            logger.info("finishing the deletion of topic %s", name)
            await ledger.clear_topic(name)
        for name in await self._store.children(paths.TOPICS):
            if name in ledger.image.topics:
                continue
            node = await self._store.exists(paths.topic(name))
            if node is None or codecs.decode_topic(node.data) is None:
                logger.info("clearing the unfinished topic %s", name)
                await ledger.clear_topic(name)
            else:
                logger.error(
                    "topic %s is in the coordination store, but no controller created it: restart the brokers to use "
                    "it, or remove %s",
                    name,
                    paths.topic(name),
                )


async def registered_brokers(
    store: Store, watch: Callable[[], None] | None = None
) -> dict[int, tuple[BrokerInfo, bool]]:
    """The registered brokers, each with its epoch and whether it started cleanly."""
    found: dict[int, tuple[BrokerInfo, bool]] = {}
    for name in await store.children(paths.BROKER_IDS, watch=watch):
        try:
            node = await store.get(f"{paths.BROKER_IDS}/{name}")
        except NoNode:
            continue
        found[int(name)] = codecs.decode_registration(int(name), node.data, node.created_id)
    return found


def differs(image: ClusterImage, present: Mapping[int, tuple[BrokerInfo, bool]]) -> bool:
    accepted = {broker_id: broker.epoch for broker_id, broker in image.brokers.items()}
    return accepted != {broker_id: broker.epoch for broker_id, (broker, _) in present.items()}
