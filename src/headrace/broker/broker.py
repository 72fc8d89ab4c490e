"""One broker: starts and stops its parts, in order.

    bind ─► directories locked, owner checked ─► store ─► image ─► logs recovered ─► parts wired
         ─► registered and accepted ─► listening ─► housekeeping

The broker binds its ports first, so that a port in use fails before anything is changed. It listens last, so that no
client reaches a broker that is not complete. A registered broker may become leader, so it opens its logs before. It
stops in the opposite order, and ends by writing the clean-shutdown mark of the logs.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from headrace.broker.broker_metrics import BrokerMetrics
from headrace.broker.connection_limits import connection_limits
from headrace.broker.core.ownership import Owner
from headrace.broker.environment import MACHINE, Environment
from headrace.broker.graceful_shutdown import led_topics, wait_until_clients_are_redirected
from headrace.broker.housekeeping import Housekeeping
from headrace.broker.identity import (
    FIRST_BROKER_ID,
    LockedDirectories,
    claim_directories,
    home_of,
    open_embedded,
    owner_of,
    registered_in,
    settle_in,
)
from headrace.broker.listener_certificates import ListenerCertificates
from headrace.broker.live_config import LiveConfig
from headrace.broker.loss_reports import LossReports
from headrace.broker.recovery_progress import RecoveryProgress
from headrace.broker.registry_process import check_registry_address
from headrace.broker.wiring.parts import Parts, wire
from headrace.cluster.core.features import OWN_RANGES
from headrace.cluster.core.image import BrokerInfo, ClusterImage, Endpoint
from headrace.cluster.core.losses import NO_LOSSES, ReplicaLosses
from headrace.cluster.loading import load_image
from headrace.cluster.membership import generated_broker_id, refuse_taken_id
from headrace.cluster.view import ClusterView
from headrace.config import BrokerConfig, ConfigError, is_loopback, resolve_listeners
from headrace.config import Listeners as ListenerSettings
from headrace.config.broker_config import log_dir_names
from headrace.config.listener_security import listener_security, refuse_without_effect
from headrace.controller.acl_nodes import AclNodes
from headrace.controller.member import ClusterMember, prepare_store
from headrace.coordination.startup_retry import answered
from headrace.handlers.dispatch.fallback_requests import fallback_service
from headrace.handlers.dispatch.table import HandlerTable
from headrace.kernel.errors import Fault
from headrace.net.connection import Connection
from headrace.net.listener import CannotListen, Listeners
from headrace.net.replies import Reply
from headrace.replication.losses_at_start import losses_at_start
from headrace.replication.lost_logs import LostLogs
from headrace.replication.service import topic_log_config
from headrace.storage.dirs.lazy_logs import LazyLogs
from headrace.storage.dirs.log_dir import LogDir
from headrace.storage.dirs.log_dirs import LogDirs
from headrace.storage.log_config import LogConfig
from headrace.telemetry.endpoint import metrics_address

if TYPE_CHECKING:
    from headrace.coordination.store import Store

log = logging.getLogger("headrace.broker")

_HAND_OVER_WITHIN_S: Final = 15.0
# Without the store another controller may still answer, but only until our session ends.
_HAND_OVER_WITHOUT_STORE_S: Final = 2.0


class CannotStart(Exception):
    """The message is one sentence for the operator."""


class Broker:
    """`start` once, `stop` once. Owned by the event loop that started it."""

    def __init__(self, config: BrokerConfig, environment: Environment = MACHINE) -> None:
        self._environment = environment
        self.config = config
        self.listeners: ListenerSettings
        self.connections: Listeners
        self.certificates: ListenerCertificates
        self.log_dirs: LogDirs
        self.parts: Parts
        self._log_config_for: Callable[[str, ClusterImage], LogConfig]
        self.metrics: BrokerMetrics | None = None
        self._claim: LockedDirectories | None = None
        self._store: Store | None = None
        self._housekeeping: Housekeeping | None = None
        self._failed: asyncio.Event = asyncio.Event()
        self._member: ClusterMember | None = None
        self._opened: list[str] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loss_reports: LossReports | None = None
        self._lost_logs = LostLogs()
        # Off if all brokers of the cluster stop together.
        self.hands_over = True

    @property
    def store(self) -> Store | None:
        """The coordination store, once it is open."""
        return self._store

    def min_insync_of(self, topic: str) -> int:
        """The effective min.insync.replicas of a topic."""
        return self._log_config_for(topic, self.parts.gateway.view.current).min_insync_replicas

    async def start(self) -> None:
        """Raises CannotStart; then no part is left running."""
        try:
            await self._start()
        except (CannotListen, ConfigError, Fault) as problem:
            await self._undo()
            raise CannotStart(str(problem)) from problem
        except OSError as problem:
            await self._undo()
            where = problem.filename or ", ".join(self.config.log_dirs)
            raise CannotStart(f"cannot use {where}: {problem.strerror or problem}") from problem
        except BaseException:  # also after a cancelled start: directories must not stay locked, nor ports bound
            await self._undo()
            raise

    async def _start(self) -> None:
        began = time.perf_counter()
        config, clock = self.config, self._environment.clock
        if config.metrics_listen:
            metrics_address(config.metrics_listen)
        check_registry_address(config)
        self._loop = loop = asyncio.get_running_loop()
        serve = self._environment.intercept(self._serve)
        self.connections = Listeners(serve, connection_limits(config), loop, self._hold_back)
        self.certificates = ListenerCertificates(self.connections, clock)
        self.listeners = self._bind(resolve_listeners(config))
        self._opened.append("connections")
        self._claim = claim = claim_directories(config)
        owner = owner_of(claim, config)
        self._store = store = await self._open_store(config, claim, owner)
        patience_s = config.store_timeout_s
        cluster_id = await answered(
            "the cluster's id", lambda: prepare_store(store, owner.cluster_id), within_s=patience_s
        )
        self.config = config = await answered(
            "a broker id", partial(_with_id, config, owner.node_id, store), within_s=patience_s
        )
        broker_id = config.broker_id
        own_info = self._own_info(broker_id, config)
        await answered("the broker's id", lambda: refuse_taken_id(store, own_info), within_s=patience_s)
        image = await answered("the cluster's image", lambda: load_image(store), within_s=patience_s)
        live = LiveConfig(config, broker_id)
        live.follow(ClusterImage(), image)
        self.log_dirs = await self._open_logs(live, image, cluster_id, claim)
        self._opened.append("logs")
        registered = image.registered(broker_id) or registered_in(claim.stored, broker_id)
        at_start = losses_at_start(self.log_dirs, image, broker_id, registered)
        self._lost_logs = lost_logs = at_start.lost
        for problem in at_start.problems:
            log.error("%s", problem)
        self.log_dirs.finish_start(at_start.directories, at_start.old_copies)
        view = ClusterView()
        live.subscribe(self._limits_changed)
        self.certificates.follow(live)
        view.subscribe(live.follow)
        table = HandlerTable()
        fallback = fallback_service(table, self.listeners.inter_broker, clock)
        self._member = member = ClusterMember(
            store,
            view,
            live,
            replace(own_info, directories=at_start.directories, missing_since=at_start.missing_since),
            clean_start=self._is_clean(),
            losses=self._losses,
            serve_fallback=fallback,
            acl_nodes=AclNodes(store),
            clock=clock,
        )
        self.parts = wire(live, view, self.log_dirs, lost_logs, member, self.listeners, self.certificates, table, clock)
        self._opened.append("parts")
        self._loss_reports = reports = LossReports(self.parts.gateway, self._losses)
        lost_logs.when_fewer(reports.tell_later)
        member.membership.on_registered(lambda _: reports.registered(member.membership.registered_losses))
        view.subscribe(reports.follow)
        self.metrics = BrokerMetrics(
            self.parts, self.connections, self.log_dirs, view, member, self.certificates, clock
        )
        self.parts.start()
        self._housekeeping = Housekeeping(self.log_dirs, live, self.parts.replicated_up_to, clock)
        await member.start(image)
        self._opened.append("member")
        self.log_dirs.registered(at_start.old_copies)
        if self.log_dirs.offline:
            self._report_lost()  # a disk may have failed since the registration
        await self.metrics.start(config.metrics_listen)
        self.connections.start()
        self._housekeeping.start()
        self.certificates.start()
        log.info("broker %d started in %.0f ms", broker_id, (time.perf_counter() - began) * 1000)

    def _hold_back(self, address: str) -> int:
        return self.parts.metering.connected(address, self._environment.clock.wall_ms())

    def _serve(self, frame: memoryview, connection: Connection) -> Reply:
        return self.parts.dispatcher.serve(frame, connection)

    def _limits_changed(self, config: BrokerConfig) -> None:
        try:
            self.connections.limits = connection_limits(config)
        except ConfigError as error:
            log.error("the limits of connections stay as they were: %s", error)

    # Steps

    def _bind(self, settings: ListenerSettings) -> ListenerSettings:
        ports = {}
        refuse_without_effect(self.config, settings)
        for listener in settings.bound:
            if listener.protocol != "PLAINTEXT":
                security = listener_security(self.config, listener.name)
                if security.uses_tls:
                    self.certificates.protect(listener.name, security)
                if security.uses_sasl:
                    if not security.uses_tls and not is_loopback(listener.host):
                        log.warning(
                            "listener %s: other machines can log in without encryption, so passwords and tokens can be "
                            "read on the way; use SASL_SSL",
                            listener.name,
                        )
                    self.connections.require_login(listener.name, security.sasl_server_max_receive_size)
            try:
                _, ports[listener.name] = self.connections.bind(listener.name, listener.host, listener.port)
            except CannotListen as problem:
                raise CannotListen(f"{problem} with --listen") from None
        return settings.with_ports(ports)

    async def _open_store(self, config: BrokerConfig, claim: LockedDirectories, owner: Owner) -> Store:
        """Opens the store with the topics of the log directories. Raises before it writes if the store does not
        match."""
        if config.stands_alone:
            embedded = open_embedded(claim, owner)
            self._opened.append("store")
            return embedded
        self._store = store = await self._environment.open_store(config)
        self._opened.append("store")
        if not config.shares_store:
            await settle_in(store, claim, owner, config)
        return store

    async def _open_logs(
        self, live: LiveConfig, image: ClusterImage, cluster_id: str, claim: LockedDirectories
    ) -> LogDirs:
        self._log_config_for = log_config_for = topic_log_config(live)
        log_dirs = await asyncio.to_thread(
            LogDirs.open,
            live(),
            config_of=lambda topic: log_config_for(topic, image),
            topic_id_of=lambda topic: image.topics[topic].id if topic in image.topics else None,
            directories=claim.directories,
            lazy_logs=LazyLogs(),
            cordoned=lambda: live().cordoned_log_dirs,
            cluster_id=cluster_id,
            home=home_of(live()),
            now_ms=self._environment.clock.wall_ms(),
            on_progress=RecoveryProgress().progressed,
        )
        for damage in log_dirs.damages:
            log.warning("recovery: %s", damage)
        for directory in log_dirs.offline:
            log.error("log directory %s is offline: %s", directory.path, directory.offline_reason)
        log_dirs.on_offline(self._directory_lost)
        return log_dirs

    def _directory_lost(self, directory: LogDir) -> None:
        """A flush or a checkpoint failed in a thread; the event loop handles it."""
        log.error("log directory %s is offline: %s", directory.path, directory.offline_reason)
        if self._loop is None:
            return
        if all(not one.is_online for one in self.log_dirs.directories):
            log.critical("no log directory is left: stopping")
            self._loop.call_soon_threadsafe(self._failed.set)
        elif "member" in self._opened:
            self._loop.call_soon_threadsafe(self._report_lost)

    def _report_lost(self) -> None:
        self.parts.replication.fetchers.logs_failed()
        assert self._loss_reports is not None, "the broker has joined"
        self._loss_reports.tell()

    def _is_clean(self) -> bool:
        """Whether the logs hold every record that this broker acknowledged, except for its `_losses`."""
        return self.log_dirs.all_clean and not self.log_dirs.damages

    def _losses(self) -> ReplicaLosses:
        """The replicas that lack records: their disk failed, or the start found that."""
        at_start = self._lost_logs.losses()
        failed = frozenset(
            (found.topic_id, found.partition)
            for found in self.log_dirs.logs_on_failed_disks()
            if found.topic_id is not None
        )
        return ReplicaLosses(at_start.missing | failed, at_start.incomplete, bool(self.log_dirs.offline)) or NO_LOSSES

    def _own_info(self, broker_id: int, config: BrokerConfig) -> BrokerInfo:
        endpoints = tuple(Endpoint(one.name, one.host, one.port, one.protocol) for one in self.listeners.advertised)
        return BrokerInfo(
            broker_id,
            -1,
            endpoints,
            config.broker_rack,
            features=OWN_RANGES,
            log_dirs=tuple(log_dir_names(directory.strip()) for directory in config.log_dirs),
            cordoned_log_dirs=tuple(config.cordoned_log_dirs),
        )

    # Stopping

    async def failed(self) -> None:
        """Returns when the broker must stop."""
        await self._failed.wait()

    async def stop(self) -> None:
        """A clean shutdown: moves leadership, syncs the logs and writes their clean-shutdown marks."""
        await self._undo(clean=not self._failed.is_set())

    async def _hand_over(self) -> None:
        """Moves leadership to other brokers before the connections close; a standalone broker has none."""
        if self.config.stands_alone or not self.hands_over or not self.config.controlled_shutdown_enable:
            return
        view, broker_id = self.parts.gateway.view, self.config.broker_id
        led = led_topics(view.current, broker_id)
        handing = asyncio.ensure_future(self.parts.gateway.controlled_shutdown(timeout=_HAND_OVER_WITHIN_S))
        try:
            if not await self._while_it_may_work(handing):
                log.warning("leadership could not be handed over: ZooKeeper does not answer")
            elif not handing.result():
                log.warning("stopping as leader of partitions without another in-sync replica")
            else:
                await wait_until_clients_are_redirected(view, self.parts.peers, broker_id, led)
        except Fault as fault:
            log.warning("leadership could not be handed over: %s", fault.message)
        except Exception:  # boundary of the hand-over: after any failure the logs must still be closed cleanly
            log.exception("leadership could not be handed over")
        finally:
            handing.cancel()

    async def _while_it_may_work(self, handing: asyncio.Future[bool]) -> bool:
        """False if it did not finish because the store has not answered for too long."""
        assert self._member is not None
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + _HAND_OVER_WITHOUT_STORE_S
        while not handing.done():
            if self._member.membership.reaches_store:
                give_up_at = loop.time() + _HAND_OVER_WITHOUT_STORE_S
            elif loop.time() > give_up_at:
                return False
            await asyncio.wait([handing], timeout=0.1)
        return True

    async def _undo(self, *, clean: bool = True) -> None:
        opened, self._opened = self._opened, []
        if self._housekeeping is not None:
            await self._housekeeping.stop()
        if "connections" in opened:
            await self.certificates.stop()
            self._housekeeping = None
        if self.metrics is not None:
            await self.metrics.stop()
            self.metrics = None
        epoch = None
        if "logs" in opened:
            # After an unclean start that no controller has processed, the mark must not say "clean", and the
            # checkpoints must still name the records that are missing.
            if self._member is not None and self._member.membership.last_epoch is not None:
                clean &= self._member.membership.is_clean
            else:
                clean &= self._is_clean() and not self._lost_logs.losses()
        if "member" in opened:
            await self._hand_over()
        if "connections" in opened:
            self.connections.close()
        if self._loss_reports is not None:
            await self._loss_reports.close()
        if "parts" in opened:
            await self.parts.close()
        if self._member is not None:
            await self._member.close()
            epoch = self._member.membership.last_epoch  # the broker may have registered again while it stopped
            self._member = None
        if "logs" in opened:
            await asyncio.to_thread(self.log_dirs.close, clean=clean, broker_epoch=epoch)
        elif self._claim is not None:
            self._claim.release()
        if "store" in opened and self._store is not None:
            await self._store.close()
            self._store = None


async def _with_id(config: BrokerConfig, known: int | None, store: Store) -> BrokerConfig:
    """A broker without a configured id takes the one in its directory. A new one gets an id from its cluster, or 0
    standalone."""
    if config.broker_id >= 0:
        return config
    found = known
    if found is None and not config.stands_alone:
        if not config.broker_id_generation_enable:
            raise ConfigError("broker.id", "-1", "must be set, because broker.id.generation.enable is false")
        found = await generated_broker_id(store, config.reserved_broker_max_id)
    return config.with_static({"broker.id": str(FIRST_BROKER_ID if found is None else found)})
