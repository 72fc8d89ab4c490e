"""A broker as a member of its cluster: store, registration, image and controller put together.

    member = ClusterMember(store, view, config, broker, clean_start=True)
    cluster_id = await member.prepare(known_cluster_id)     # base nodes; refuses another cluster's data directory
    await member.start()                                     # registered, and the image shows it
    member.controller, member.lease_held(), member.epoch
    await member.close()                                     # leaves at once, and resigns as controller

The order at a start: prepare, open the logs, listen, then `start`: a broker that is registered may be made leader.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from headrace.cluster import codecs
from headrace.cluster.core.features import why_unfit
from headrace.cluster.core.image import EMPTY_IMAGE, BrokerInfo, ClusterImage
from headrace.cluster.core.losses import NO_LOSSES, ReplicaLosses
from headrace.cluster.follower import ImageFollower
from headrace.cluster.membership import Membership
from headrace.cluster.view import ClusterView
from headrace.config import BrokerConfig
from headrace.controller.acl_nodes import AclNodes
from headrace.controller.controller import Controller
from headrace.controller.core.config_changes import MIN_INSYNC
from headrace.controller.leadership import Leadership
from headrace.coordination import paths
from headrace.coordination.fallback_reader import Serve
from headrace.coordination.startup_retry import answered
from headrace.coordination.store import Create, NodeExists, Op, Store, ensure_path
from headrace.kernel.clock import SYSTEM_CLOCK, Clock
from headrace.kernel.errors import ErrorCode, Refused
from headrace.kernel.ids import new_topic_id, uuid_to_text

logger = logging.getLogger(__name__)

# How long a registered broker waits until a controller accepts it.
_ACCEPTED_WITHIN_SECONDS = 60.0
_LEAVE_WITHIN_SECONDS = 2.0


class ClusterMember:
    def __init__(
        self,
        store: Store,
        view: ClusterView,
        config: Callable[[], BrokerConfig],
        broker: BrokerInfo,
        *,
        clean_start: bool,
        losses: Callable[[], ReplicaLosses] = lambda: NO_LOSSES,
        serve_fallback: Serve | None = None,
        acl_nodes: AclNodes | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.view = view
        self._config = config
        self.controller = Controller(store, config, serve_fallback, acl_nodes, clock)
        self.membership = Membership(store, broker, clean_start=clean_start, losses=losses)
        view.subscribe(lambda _, image: self.membership.known_to(image))
        self.store = store
        self._broker = broker
        self._follower = ImageFollower(store, view)
        self._leadership = Leadership(
            store,
            view,
            broker.id,
            activate=self.controller.activate,
            deactivate=self.controller.deactivate,
            may_stand=lambda: self.membership.epoch >= 0,
            min_insync=lambda: int(config()[MIN_INSYNC]),
        )

    @property
    def broker_id(self) -> int:
        return self.membership.broker_id

    @property
    def epoch(self) -> int:
        return self.membership.epoch

    def lease_held(self) -> bool:
        return self.membership.lease_held()

    async def catch_up(self) -> None:
        """Returns when the view has everything that the store had at the call."""
        await self._follower.catch_up()

    async def prepare(self, known_cluster_id: str | None = None) -> str:
        return await prepare_store(self.store, known_cluster_id)

    async def start(self, known: ClusterImage = EMPTY_IMAGE) -> None:
        """`known`: an image that was read earlier in this start; only later changes are read."""
        await answered(
            "the cluster's image", lambda: self._follower.start(known), within_s=self._config().store_timeout_s
        )
        self._check_features(self.view.current)
        await self.membership.start()
        self._leadership.start()
        epoch = self.membership.epoch
        accepted = await self.view.wait_until(
            lambda image: (
                ((known := image.brokers.get(self.broker_id)) is not None and known.epoch >= epoch)
                or why_unfit(image, self._broker) is not None
            ),
            _ACCEPTED_WITHIN_SECONDS,
        )
        self._check_features(self.view.current)
        if not accepted:
            raise Refused(
                ErrorCode.broker_not_available,
                f"no controller accepted broker {self.broker_id} within {_ACCEPTED_WITHIN_SECONDS:g} s",
            )

    def _check_features(self, image: ClusterImage) -> None:
        why = why_unfit(image, self._broker)
        if why is not None:
            raise Refused(ErrorCode.unsupported_version, why)

    async def close(self) -> None:
        """Does not wait long for the store: without its answer our nodes stay until the session times out."""
        try:
            async with asyncio.timeout(_LEAVE_WITHIN_SECONDS):
                await self._leadership.close()
                await self.membership.close()
        except TimeoutError:
            logger.warning("left without telling the coordination store, which does not answer")
        await self._follower.close()


async def prepare_store(store: Store, known_cluster_id: str | None = None) -> str:
    """Creates missing base nodes and returns the cluster id. Raises Refused for the store of another cluster."""
    if await store.exists(paths.CLUSTER_ID) is None:
        # A directory with a cluster id keeps it: a standalone broker becomes the first of a cluster.
        cluster_id = known_cluster_id or uuid_to_text(new_topic_id())
        ops: list[Op] = [Create(path, b"") for path in paths.PERSISTENT]
        ops.append(Create(paths.CONTROLLER_EPOCH, b"0"))
        ops.append(Create(paths.IMAGE, codecs.to_json({"version": 0})))
        ops.append(Create(paths.CLUSTER_ID, codecs.to_json({"version": "1", "id": cluster_id})))
        try:
            await store.multi(ops)
        except NodeExists:
            if await store.exists(paths.INCOMING) is not None:
                raise Refused(
                    ErrorCode.inconsistent_cluster_id,
                    "another broker is moving its state to this ensemble: wait until it serves, or use another chroot",
                ) from None
            # Another broker does the same, or some nodes exist: create them one by one, the id last.
            for path in (*paths.PERSISTENT,):
                await ensure_path(store, path)
            await ensure_path(store, paths.CONTROLLER_EPOCH, b"0")
            await ensure_path(store, paths.IMAGE, codecs.to_json({"version": 0}))
            await ensure_path(store, paths.CLUSTER_ID, codecs.to_json({"version": "1", "id": cluster_id}))
    elif await store.exists(paths.PERSISTENT[-1]) is None:
        for path in paths.PERSISTENT:
            await ensure_path(store, path)
    found: str = codecs.from_json((await store.get(paths.CLUSTER_ID)).data)["id"]
    if known_cluster_id is not None and known_cluster_id != found:
        raise Refused(
            ErrorCode.inconsistent_cluster_id,
            f"the data directory belongs to cluster {known_cluster_id}, the coordination store to cluster {found}: "
            "point zookeeper.connect at the right ensemble (or chroot), or use another log.dirs",
        )
    await _add_missing_nodes(store)
    return found


async def _add_missing_nodes(store: Store) -> None:
    """A store of an earlier version lacks the nodes of newer features."""
    nodes = await asyncio.gather(*(store.exists(path) for path in paths.PERSISTENT))
    for path, node in zip(paths.PERSISTENT, nodes, strict=True):
        if node is None:
            await ensure_path(store, path)
