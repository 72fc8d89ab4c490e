"""One simulated broker: the real replication, fetch, membership and controller code on simulated log, store, network.

A broker's logs outlive its process. `kill` is kill -9 (what was written stays), `power_cut` also loses what was not
flushed, `shut_down` is an orderly stop. After the first two the next start is an unclean one.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

from headrace.cluster.core.image import BrokerInfo, ClusterImage, Endpoint
from headrace.cluster.view import ClusterView
from headrace.config import BrokerConfig, TopicConfig
from headrace.controller.controller import Controller
from headrace.controller.core.isr_changes import IsrReport
from headrace.controller.member import ClusterMember
from headrace.handlers.context import ANONYMOUS, RequestContext
from headrace.handlers.fetch import Fetch
from headrace.handlers.fetch_sessions import FetchSessions
from headrace.handlers.leaders import Leaders
from headrace.kernel.errors import ErrorCode, Fault
from headrace.replication.fetcher import FetchSettings
from headrace.replication.fetchers import Fetchers
from headrace.replication.isr_changes import ALTER_PARTITION, ControllerIsrChanges
from headrace.replication.leader_channel import LIST_OFFSETS
from headrace.replication.partition import Partition
from headrace.replication.partitions import Partitions
from headrace.storage.log_config import LogConfig
from headrace.testing.simulation.log import LogWatcher, SimulatedLogs, SimulatedSlice, encode
from headrace.testing.simulation.network import SimulatedChannel, SimulatedNetwork
from headrace.testing.simulation.store import SimulatedStore, SimulatedZooKeeper
from headrace.testing.simulation.virtual_loop import VirtualLoop, context_of
from headrace.wire import codec
from headrace.wire.fetch_request import read_fetch_request
from headrace.wire.replica_fetch import FETCH

PRODUCE: Final = 0
CONSUME: Final = -1
MAX_LAG_MS: Final = 2000
SESSION_TIMEOUT_S: Final = 3.0
_LISTENER: Final = "INTERNAL"
_FETCH: Final = FetchSettings(
    wait_max_ms=300, max_bytes=60, response_max_bytes=120, backoff_ms=300, socket_timeout_ms=1500
)

# (broker, partition, first offset, values, code): told at the moment a leader decides on the answer to acks=all.
Acknowledge = Callable[["SimulatedBroker", Partition, int, list[int], ErrorCode], None]


def broker_of(host: str, port: int) -> int:
    return port


class SimulatedBroker:
    def __init__(
        self,
        broker_id: int,
        config: BrokerConfig,
        network: SimulatedNetwork,
        zookeeper: SimulatedZooKeeper,
        on_acknowledge: Acknowledge,
        watcher: LogWatcher,
    ) -> None:
        self.id = broker_id
        self.logs = SimulatedLogs(broker_id, watcher)
        self.is_up = False
        self.clock_rate = 1.0  # how fast its clock runs, from its next start on
        self._config = config
        self._network = network
        self._zookeeper = zookeeper
        self._on_acknowledge = on_acknowledge
        self._watcher = watcher
        self._clean = True
        self._checkpointed: dict[tuple[str, int], int] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._starting: asyncio.Task[None] | None = None

    # ---- life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """In a context of its own: what a process does can be frozen with it."""
        context_of(self.id).run(self._start)

    def freeze(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after so long."""
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
        for log in self.logs.logs():
            log.restart(self._checkpointed.get((log.topic, log.partition), 0))
        loop, rate_per_s = asyncio.get_running_loop(), 1000 * self.clock_rate
        self.view = ClusterView()
        self.store = SimulatedStore(self._zookeeper, self.id, SESSION_TIMEOUT_S)
        endpoint = Endpoint(_LISTENER, f"broker-{self.id}", self.id, "PLAINTEXT")
        broker = BrokerInfo(self.id, -1, (endpoint,))
        self.member = ClusterMember(self.store, self.view, lambda: self._config, broker, clean_start=self._clean)
        connect = self._network.connector(self.id, broker_of)
        self.partitions = Partitions(
            self.id,
            self.logs,  # type: ignore[arg-type]
            self.view,
            self._log_config,
            lease_held=self.member.lease_held,
            max_lag_ms=MAX_LAG_MS,
            monotonic_ms=lambda: int(loop.time() * rate_per_s),
            wall_ms=lambda: 0,
        )
        own = self._own
        self.isr_changes = ControllerIsrChanges(self.view, _LISTENER, own, connect)  # type: ignore[arg-type]
        self.partitions.isr_changes = self.isr_changes

        async def open_channel(host: str, port: int, **_: Any) -> SimulatedChannel:
            return SimulatedChannel(await connect(host, port))

        sessions = FetchSessions()
        self._fetches = Fetch(self.partitions, Leaders(self.view), sessions, monotonic_ms=self.partitions.monotonic_ms)
        self.partitions.subscribe(
            lambda one: sessions.leads_more(self.partitions.monotonic_ms()) if one.is_leader else None
        )
        self.fetchers = Fetchers(self.partitions, self.view, _LISTENER, _FETCH, connect=open_channel)
        self.member.membership.on_registered(self.partitions.registered_as)
        self.partitions.subscribe(self._role_changed)
        self._clean = False  # until an orderly stop says otherwise
        self._network.listen(self.id, self._serve)
        self._starting = asyncio.create_task(self._join())
        self._spawn(self._tick())
        self._spawn(self._keep_disk())

    def _role_changed(self, partition: Partition) -> None:
        if partition.is_leader:
            self._watcher.led(self.id, partition)

    def _own(self) -> tuple[int, int]:
        return self.id, self.partitions.broker_epoch

    def _log_config(self, topic: str, image: ClusterImage) -> LogConfig:
        settings = TopicConfig(self._config, image.config_of("topic", topic))
        return LogConfig(min_insync_replicas=int(settings["min.insync.replicas"]))

    async def _join(self) -> None:
        """A broker that cannot join gives up, and is started again by whoever looks after it."""
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

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(0.2)
            self.partitions.tick()

    async def _keep_disk(self) -> None:
        """The page cache is written back, and high watermarks are checkpointed (Kafka's five seconds)."""
        for turn in itertools.count(1):
            await asyncio.sleep(1.0)
            for log in self.logs.logs():
                if turn % 2 == 0:
                    log.flush()
                if turn % 5 == 0:
                    self._checkpointed[log.topic, log.partition] = log.high_watermark

    async def kill(self) -> None:
        """kill -9: nothing is said to anyone; what was written stays in the page cache."""
        if not self.is_up:
            return
        self.is_up = False
        self._network.unplug(self.id)
        self.store.abandon()
        self.thaw()
        await self._stop_tasks()

    async def power_cut(self, chance: random.Random) -> int:
        """As `kill`, and some of what was not flushed is gone. Gives how many records that is."""
        await self.kill()
        return sum(log.power_cut(chance) for log in self.logs.logs())

    async def shut_down(self) -> None:
        """An orderly stop: leadership moves first, everything is flushed, the registration is taken back."""
        if not self.is_up:
            return
        self.thaw()
        for _ in range(10):
            holder = self.view.current.controller_id
            try:
                if self.controller.is_active and holder == self.id:
                    await asyncio.wait_for(self.controller.controlled_shutdown(self.id, self.member.epoch), 2.0)
                break
            except (Fault, TimeoutError):
                await asyncio.sleep(0.2)
        self.is_up = False
        self._network.unplug(self.id)
        await self._stop_tasks()
        for log in self.logs.logs():
            log.flush()
            self._checkpointed[log.topic, log.partition] = log.high_watermark
        self._clean = self.member.membership.is_clean
        await self.store.close()

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
        self.partitions.close()

    # ---- serving --------------------------------------------------------------------------------------------------

    async def _serve(self, api_key: int, body: dict[str, Any]) -> Any:
        if not self.is_up:
            raise ConnectionError
        if api_key == FETCH:
            return await self._fetch(**body)
        if api_key == ALTER_PARTITION:
            return await self._alter_partition(body)
        if api_key == LIST_OFFSETS:
            return self._earliest(**body)
        if api_key == PRODUCE:
            return await self._produce(**body)
        assert api_key == CONSUME
        return self._consume(**body)

    async def _fetch(self, frame: bytes) -> bytes:
        """The handler of a broker, with its sessions: what a follower named once is remembered here."""
        header, at = codec.read_request_header(memoryview(frame)[4:])
        request = read_fetch_request(memoryview(frame)[4:], at, header.api_version)
        context = RequestContext(header, "", _LISTENER, ANONYMOUS, self.partitions.monotonic_ms())
        answer = self._fetches(request, context)
        parts = answer if isinstance(answer, list) else await answer
        if not self.is_up:
            raise ConnectionError
        assert isinstance(parts, list)
        whole = (part.data if isinstance(part, SimulatedSlice) else part for part in parts)
        return b"".join(whole)[4:]  # type: ignore[arg-type]  # the log gives no other slices

    def _earliest(self, topic: str, index: int, leader_epoch: int) -> tuple[ErrorCode, int]:
        try:
            return ErrorCode.none, self.partitions.led(topic, index).offset_for(-2, None, leader_epoch).offset
        except Fault as fault:
            return fault.code, -1

    async def _alter_partition(self, body: dict[str, Any]) -> Any:
        names = {topic.id: topic.name for topic in self.view.current.topics.values()}
        reports, keys = [], []
        for topic in body["topics"]:
            for data in topic["partitions"]:
                members = [(m["broker_id"], m["broker_epoch"]) for m in data["new_isr_with_epochs"]]
                name = names.get(topic["topic_id"], "?")
                reports.append(
                    IsrReport(name, data["partition_index"], data["leader_epoch"], data["partition_epoch"], members)
                )
                keys.append((topic["topic_id"], data["partition_index"]))
        try:
            answers = await self.controller.alter_partitions(body["broker_id"], body["broker_epoch"], reports)
        except Fault as fault:
            return SimpleNamespace(error_code=fault.code, topics=[])
        topics = []
        for (topic_id, index), answer in zip(keys, answers, strict=True):
            info = answer.info
            data = SimpleNamespace(
                partition_index=index,
                error_code=answer.error,
                leader_epoch=-1 if info is None else info.leader_epoch,
                isr=() if info is None else info.isr,
                partition_epoch=-1 if info is None else info.partition_epoch,
            )
            topics.append(SimpleNamespace(topic_id=topic_id, partitions=[data]))
        return SimpleNamespace(error_code=ErrorCode.none, topics=topics)

    async def _produce(self, topic: str, index: int, values: list[int], timeout_ms: int) -> tuple[ErrorCode, int]:
        try:
            partition = self.partitions.led(topic, index)
            appended = partition.append(encode(values), acks=-1, now_ms=0)
        except Fault as fault:
            return fault.code, -1
        first = appended.first_offset
        answered: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

        def decided(code: ErrorCode) -> None:
            if self.is_up and not answered.done():
                self._on_acknowledge(self, partition, first, values, code)
                answered.set_result(code)

        partition.when_committed(appended.last_offset + 1, decided)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await answered, first
        except TimeoutError:
            return ErrorCode.request_timed_out, -1

    def _consume(self, topic: str, index: int, offset: int) -> tuple[ErrorCode, bytes]:
        try:
            read = self.partitions.led(topic, index).read(offset, 400)
        except Fault as fault:
            return fault.code, b""
        return ErrorCode.none, b"" if read.slice is None else read.slice.data  # type: ignore[attr-defined]
