"""The registration of this broker: an ephemeral node, and the lease that depends on it.

The creation id of the registration is the broker epoch. When the session expires, the registration is gone and other
brokers may already lead this broker's partitions. It registers again with a new epoch, like a restarted broker.

The lease (docs/reference/coordination.md): a broker that cannot reach the store does not learn that its session
expired. It must stop acknowledging and serving by its own clock, before another broker can replace it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import headrace
from headrace.cluster import codecs
from headrace.cluster.core.image import BrokerInfo, ClusterImage
from headrace.cluster.core.losses import NO_LOSSES, ReplicaLosses
from headrace.coordination import paths
from headrace.coordination.store import (
    BadVersion,
    ConnectionLost,
    Node,
    NodeExists,
    SessionEvent,
    SessionExpired,
    Store,
    StoreFault,
    ensure_path,
    log_level,
)
from headrace.kernel.errors import ErrorCode, Refused

logger = logging.getLogger(__name__)

_PAUSE: Final = 0.2
# Extra wait after the session timeout for an old registration to disappear: the store ends sessions in ticks.
_OLD_SESSION_MARGIN: Final = 3.0


class Membership:
    def __init__(
        self,
        store: Store,
        broker: BrokerInfo,
        *,
        clean_start: bool,
        losses: Callable[[], ReplicaLosses] = lambda: NO_LOSSES,
    ) -> None:
        """`broker.epoch` is ignored, because it is not known yet. `losses`: what the broker lacks at a registration."""
        self.broker_id = broker.id
        self.epoch = -1
        # Also after the session of that registration has ended. None: not registered yet. -1: not known, because a
        # registration was begun and its answer has not arrived.
        self.last_epoch: int | None = None
        self._store = store
        self._broker = broker
        self._clean = clean_start
        self._losses = losses
        self.registered_losses = NO_LOSSES
        self._is_known = False
        self._callbacks: list[Callable[[int], None]] = []
        self._again: asyncio.Task[None] | None = None
        self._closed = False
        self.reaches_store = True

    def on_registered(self, callback: Callable[[int], None]) -> None:
        """Calls back with the new epoch on every registration."""
        self._callbacks.append(callback)

    def lease_held(self) -> bool:
        return self.epoch >= 0 and time.monotonic() < self._store.lease_ends_at()

    @property
    def is_clean(self) -> bool:
        """Whether a stop may now be marked as clean: the controller knows of every loss of records."""
        return self._is_known or (self._clean and not self._losses())

    def known_to(self, image: ClusterImage) -> None:
        """After the controller has processed this start, later registrations of this process are clean, because its
        logs stay complete when a session ends. Not before: if the registration of an unclean start disappeared unseen,
        the next one would count as clean."""
        accepted = image.brokers.get(self.broker_id)
        if accepted is not None and accepted.epoch == self.epoch:
            self._clean = self._is_known = True

    async def start(self) -> None:
        """Registers the broker. Raises Refused if another live broker has this id."""
        await self._register()
        self._store.on_session(self._session_changed)

    async def close(self) -> None:
        """Deletes the registration, so that the cluster need not wait for the session timeout."""
        self._closed = True
        if self._again is not None:
            self._again.cancel()
            await asyncio.gather(self._again, return_exceptions=True)
        if self.epoch >= 0:
            try:
                # If the session ended unnoticed, the node may belong to another broker.
                node = await self._store.exists(paths.broker_id(self.broker_id))
                if node is not None and node.created_id == self.epoch:
                    await self._store.delete(paths.broker_id(self.broker_id))
            except StoreFault as fault:
                logger.info("could not take the registration away: %s", fault.message or type(fault).__name__)
        self.epoch = -1

    def _session_changed(self, event: SessionEvent) -> None:
        self.reaches_store = event is SessionEvent.CONNECTED
        if event is SessionEvent.EXPIRED:
            self.epoch = -1
        registering = self._again is not None and not self._again.done()
        if event is SessionEvent.CONNECTED and self.epoch < 0 and not self._closed and not registering:
            self._again = asyncio.get_running_loop().create_task(self._register_again(), name="register again")

    async def _register_again(self) -> None:
        while not self._closed and self.epoch < 0:
            try:
                await self._register()
            except (StoreFault, Refused) as fault:
                why = fault.message or type(fault).__name__
                logger.log(log_level(fault, logging.WARNING), "cannot register again: %s", why)
                await asyncio.sleep(_PAUSE)

    async def _register(self) -> None:
        path = paths.broker_id(self.broker_id)
        deadline = time.monotonic() + min(self._store.session_timeout, 60.0) + _OLD_SESSION_MARGIN
        told = False
        self.last_epoch = -1
        while True:
            session, losses = self._store.session_id, self._losses()
            try:
                node = await self._claim(path, self._encoded(losses))
            except (ConnectionLost, SessionExpired):
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(_PAUSE)
                continue
            if node is not None and node.session_id == session and session != 0:
                break
            if node is not None:
                await self._refuse_or_wait(node, deadline, told)
                told = True
        self.epoch = self.last_epoch = node.created_id
        self.registered_losses = losses
        logger.info("registered as broker %d with epoch %d", self.broker_id, self.epoch)
        for callback in self._callbacks:
            callback(self.epoch)

    def _encoded(self, losses: ReplicaLosses) -> bytes:
        return codecs.encode_registration(
            replace(self._broker, losses=losses),
            clean_start=self._clean,
            timestamp_ms=time.time_ns() // 1_000_000,
            version=headrace.__version__,
        )

    async def _claim(self, path: str, data: bytes) -> Node | None:
        """The present registration, of this or of another broker; None if another's has just disappeared."""
        try:
            await self._store.create(path, data, ephemeral=True)
        except NodeExists:
            pass
        return await self._store.exists(path)

    async def _refuse_or_wait(self, node: Node, deadline: float, told: bool) -> None:
        """The id is in use. Raises Refused for a live broker; waits for the old session of this broker to end."""
        holder, _ = codecs.decode_registration(self.broker_id, node.data, node.created_id)
        if (not told and await _is_other_live_broker(holder, self._broker)) or time.monotonic() > deadline:
            raise _taken(holder)
        if not told:
            logger.warning(
                "broker id %d is still held by a session of %s; waiting for it to end", self.broker_id, _address(holder)
            )
        await asyncio.sleep(_PAUSE)


async def refuse_taken_id(store: Store, broker: BrokerInfo) -> None:
    """Raises Refused if another live broker has the id. Called before a broker writes its id anywhere."""
    node = await store.exists(paths.broker_id(broker.id))
    if node is not None:
        holder, _ = codecs.decode_registration(broker.id, node.data, node.created_id)
        if await _is_other_live_broker(holder, broker):
            raise _taken(holder)


async def generated_broker_id(store: Store, above: int) -> int:
    """A new id that no broker of this cluster ever had: `above` plus the version of one node."""
    while True:
        await ensure_path(store, paths.BROKER_SEQUENCE)
        node = await store.get(paths.BROKER_SEQUENCE)
        try:
            await store.set(paths.BROKER_SEQUENCE, b"", version=node.version)
        except BadVersion:
            continue  # another broker took that id
        return above + node.version + 1


async def _is_other_live_broker(holder: BrokerInfo, broker: BrokerInfo) -> bool:
    """Whether the registration belongs to another live broker, and not to an earlier process of this broker."""
    first = holder.endpoints[0]
    return (first.host, first.port) not in {(e.host, e.port) for e in broker.endpoints} and await _answers(holder)


def _taken(holder: BrokerInfo) -> Refused:
    return Refused(
        ErrorCode.duplicate_broker_registration,
        f"broker.id={holder.id} is already used by the broker at {_address(holder)}: give this one another id",
    )


def _address(broker: BrokerInfo) -> str:
    return f"{broker.endpoints[0].host}:{broker.endpoints[0].port}"


async def _answers(holder: BrokerInfo) -> bool:
    endpoint = holder.endpoints[0]
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(endpoint.host, endpoint.port), 2.0)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True
