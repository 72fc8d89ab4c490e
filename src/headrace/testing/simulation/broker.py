"""One simulated broker: the real replication, fetch, membership and controller code on simulated log, store and
network.

The logs survive a restart of the broker. `kill` is kill -9 and keeps all written records. `power_cut` also loses
records that were not flushed. `shut_down` is a controlled shutdown. After `kill` and `power_cut` the next start is
unclean.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import uuid
from collections.abc import Coroutine, Iterator
from typing import Final

from headrace.broker.loss_reports import LossReports
from headrace.cluster.core.image import BrokerInfo, ClusterImage, Endpoint
from headrace.cluster.core.losses import NO_LOSSES, ReplicaLosses
from headrace.cluster.view import ClusterView
from headrace.config import BrokerConfig, TopicConfig
from headrace.controller.controller import Controller
from headrace.controller.gateway import ControllerGateway
from headrace.controller.member import ClusterMember
from headrace.coordination.fallback_channel import ControllerChannel
from headrace.handlers.dispatch.fallback_requests import fallback_service
from headrace.handlers.dispatch.table import HandlerTable
from headrace.kernel.errors import Fault
from headrace.replication.fetcher import FetchSettings
from headrace.replication.fetchers import Fetchers
from headrace.replication.isr_changes import ControllerIsrChanges
from headrace.replication.lost_logs import LostLogs
from headrace.replication.partition import Partition
from headrace.replication.partitions import Partitions
from headrace.storage.log_config import LogConfig
from headrace.testing.simulation.history import History
from headrace.testing.simulation.log import SimulatedLog, SimulatedLogs
from headrace.testing.simulation.network import SimulatedChannel, SimulatedNetwork
from headrace.testing.simulation.serving import LISTENER, SimulatedServer, brokers_handlers
from headrace.testing.simulation.store import SimulatedStore, SimulatedZooKeeper
from headrace.testing.simulation.virtual_loop import VirtualLoop, context_of

HAND_OVER_WITHIN_S: Final = 4.0
SESSION_TIMEOUT_S: Final = 3.0
_FETCH: Final = FetchSettings(
    wait_max_ms=300, max_bytes=60, response_max_bytes=120, backoff_ms=300, socket_timeout_ms=1500
)


def broker_of(host: str, port: int) -> int:
    return port


class SimulatedBroker:
    def __init__(
        self,
        broker_id: int,
        config: BrokerConfig,
        network: SimulatedNetwork,
        zookeeper: SimulatedZooKeeper,
        history: History,
        *,
        reads_from_followers: bool = False,
    ) -> None:
        self.id = broker_id
        self.logs = SimulatedLogs(broker_id, history)
        self.is_up = False
        self.clock_rate = 1.0  # speed of the broker's clock; takes effect at the next start
        self._config = config
        self._network = network
        self._zookeeper = zookeeper
        self._history = history
        self._reads_from_followers = reads_from_followers
        self._clean = True
        self._checkpointed: dict[tuple[uuid.UUID, int], int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._starting: asyncio.Task[None] | None = None
        self._is_stopping = False
        self._starts_again = False

    # Start and stop

    def start(self) -> None:
        """Starts the broker in its own context, so that `freeze` stops all its code. If it is still stopping, it starts
        after that: two incarnations of a broker never overlap."""
        if self._is_stopping:
            self._starts_again = True
        else:
            context_of(self.id).run(self._start)

    def _start_again(self) -> None:
        if not self.is_up and not self._is_stopping:
            self.start()

    def freeze(self, seconds: float) -> None:
        """SIGSTOP, then SIGCONT after `seconds`."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.freeze(self.id)
        loop.call_later(seconds, loop.thaw, self.id, context=context_of(None))

    def thaw(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.thaw(self.id)

    def _start(self) -> None:
        assert not self.is_up
        self.is_up = True
        if self.logs.replace_failed():
            self._clean = False  # records are missing on the empty disk: not a clean start
        for log in self.logs.logs():
            log.restart(self._checkpointed.get((log.topic_id, log.partition), 0))
        loop, rate_per_s = asyncio.get_running_loop(), 1000 * self.clock_rate
        self.view = ClusterView()
        self.store = SimulatedStore(self._zookeeper, self.id, SESSION_TIMEOUT_S)
        endpoint = Endpoint(LISTENER, f"broker-{self.id}", self.id, "PLAINTEXT")
        broker = BrokerInfo(self.id, -1, (endpoint,))
        self.table = HandlerTable()
        missing = dict.fromkeys(self.logs.without_log(), "its disk was replaced")
        self._lost_logs = LostLogs(missing, self.logs.incomplete())
        self.member = ClusterMember(
            self.store,
            self.view,
            lambda: self._config,
            broker,
            clean_start=self._clean,
            losses=self._losses,
            serve_fallback=fallback_service(self.table, LISTENER),
        )
        for handler in brokers_handlers(self.controller, self.view):
            self.table.add(handler)
        connect = self._network.connector(self.id, broker_of)
        reach = ControllerChannel(self.store, self.id, connect)  # type: ignore[arg-type]
        self.isr_changes = ControllerIsrChanges(self.view, LISTENER, self.id, reach.open)
        self.partitions = Partitions(
            self.id,
            self.logs,  # type: ignore[arg-type]
            self.view,
            self._log_config,
            isr_changes=self.isr_changes,
            lost_logs=self._lost_logs,
            lease_held=self.member.lease_held,
            serves_consumers_from_followers=self._reads_from_followers,
            monotonic_ms=lambda: int(loop.time() * rate_per_s),
            wall_ms=lambda: 0,
        )

        async def open_channel(host: str, port: int, **_: object) -> SimulatedChannel:
            return SimulatedChannel(await connect(host, port))

        self.gateway = ControllerGateway(self.controller, self.view, LISTENER, self._own, reach.open)
        self.fetchers = Fetchers(self.partitions, self.view, LISTENER, _FETCH, connect=open_channel)
        self._loss_reports = reports = LossReports(self.gateway, self._losses)
        self._lost_logs.when_fewer(reports.tell_later)
        membership = self.member.membership
        membership.on_registered(self.partitions.registered_as)
        membership.on_registered(lambda _: reports.registered(membership.registered_losses))
        self.partitions.subscribe(self._role_changed)
        self._clean = False  # until a controlled shutdown sets it
        self._network.listen(self.id, SimulatedServer(self, self._history))
        self._starting = asyncio.create_task(self._join())
        self._spawn(self._tick())
        self._spawn(self._keep_disk())

    def _role_changed(self, partition: Partition) -> None:
        if partition.is_leader:
            self._history.led(self.id, partition)

    def _losses(self) -> ReplicaLosses:
        at_start = self._lost_logs.losses()
        missing = at_start.missing | self.logs.on_failed_disks()
        return ReplicaLosses(missing, at_start.incomplete, bool(self.logs.failed)) or NO_LOSSES

    def _own(self) -> tuple[int, int]:
        return self.id, self.partitions.broker_epoch

    def _log_config(self, topic: str, image: ClusterImage) -> LogConfig:
        settings = TopicConfig(self._config, image.config_of("topic", topic))
        return LogConfig(
            min_insync_replicas=settings.min_insync_replicas, replica_lag_time_max_ms=settings.replica_lag_time_max_ms
        )

    async def _join(self) -> None:
        """A broker that cannot join stops. It starts again after half a second, as a service manager would do it."""
        try:
            await self.member.start()
        except Fault:
            self._starting = None
            await self.kill()
            await asyncio.sleep(0.5)
            if not self.is_up:
                self.start()

    @property
    def controller(self) -> Controller:
        return self.member.controller

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(0.2)
            self.partitions.tick()

    async def _keep_disk(self) -> None:
        """Flushes the page cache, and writes the high watermark checkpoint every five seconds as Kafka does."""
        for turn in itertools.count(1):
            await asyncio.sleep(1.0)
            for log in self.logs.logs():
                if turn % 2 == 0:
                    log.flush()
                if turn % 5 == 0:
                    self._checkpointed[log.topic_id, log.partition] = log.high_watermark

    async def kill(self) -> None:
        """kill -9: the broker sends no message. Written records stay in the page cache."""
        if not self.is_up:
            return
        with self._stopping():
            self.store.abandon()
            self.thaw()
            await self._stop_tasks()

    async def power_cut(self, chance: random.Random) -> int:
        """`kill`, and some records that were not flushed are lost. Returns their number."""
        await self.kill()
        return sum(log.power_cut(chance) for log in self.logs.logs())

    def fail_disk(self, disk: int) -> list[SimulatedLog]:
        """Fails a disk of the running broker, which reports its logs to the controller. Returns these logs."""
        lost = self.logs.fail(disk)
        self.fetchers.logs_failed()
        context_of(self.id).run(self._loss_reports.tell)
        return lost

    async def shut_down(self) -> None:
        """Controlled shutdown: moves leadership away, flushes all logs, removes the registration."""
        if not self.is_up:
            return
        self.thaw()
        try:
            await self.gateway.controlled_shutdown(timeout=HAND_OVER_WITHIN_S)
        except Fault:
            pass
        except asyncio.CancelledError:
            await self.kill()  # the controller has already moved its leaderships away
            raise
        if not self.is_up:
            return  # killed meanwhile
        with self._stopping():
            await self._stop_tasks()
            for log in self.logs.logs():
                log.flush()
                self._checkpointed[log.topic_id, log.partition] = log.high_watermark
            self._clean = self.member.membership.is_clean
            await self.store.close()

    @contextlib.contextmanager
    def _stopping(self) -> Iterator[None]:
        self.is_up = False
        self._is_stopping = True
        self._network.unplug(self.id)
        try:
            yield
        finally:
            self.store.abandon()  # also when the shutdown was cancelled: no task renews the session any more
            self._is_stopping = False
            if self._starts_again:
                self._starts_again = False
                # Not at once: the caller that stopped the broker may change its disks first.
                asyncio.get_running_loop().call_soon(self._start_again, context=context_of(None))

    async def _stop_tasks(self) -> None:
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.member.close()
        await self.fetchers.close()
        await self.isr_changes.close()
        await self._loss_reports.close()
        await self.gateway.close()
        self.partitions.close()
