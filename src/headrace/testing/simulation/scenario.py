"""One seeded run: load, faults, healing. At the end all replicas must converge and have every acknowledged record."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from headrace.client.errors import NoAnswer
from headrace.cluster.core.image import PartitionInfo
from headrace.controller.core.config_changes import MIN_INSYNC
from headrace.controller.core.topics import NewTopic
from headrace.coordination.store import StoreFailed, StoreFault
from headrace.kernel.errors import ErrorCode
from headrace.testing.simulation import virtual_loop
from headrace.testing.simulation.cluster import SimulatedCluster, VirtualClock
from headrace.testing.simulation.history import InvariantBroken, PartitionName
from headrace.testing.simulation.log import RECORD, SimulatedLog
from headrace.testing.simulation.modes import Modes
from headrace.testing.simulation.nemesis import Nemesis
from headrace.testing.simulation.network import CLIENT, Arguments, SimulatedConnection
from headrace.testing.simulation.operator import Operator
from headrace.testing.simulation.serving import CONSUME, LATEST_OFFSET
from headrace.wire.apis import ApiKey
from headrace.wire.entities import Entity

T = TypeVar("T")

UNCLEAN: Final = "unclean.leader.election.enable"
FAULTY_S: Final = 25.0
CONVERGE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Outcome:
    seed: int
    acknowledged: int
    reads: int
    excused: int
    faults: int
    digest: str
    trace: tuple[str, ...]


def run_seed(
    seed: int, modes: Modes | None = None, *, faulty_s: float = FAULTY_S, trace: list[str] | None = None
) -> Outcome:
    """Raises InvariantBroken. Without `modes` the seed chooses them. The run appends to `trace`, so that the caller has
    it when the run fails."""
    drawn = Modes.drawn(seed) if modes is None else modes
    with VirtualClock(), _ErrorListener() as errors:
        return virtual_loop.run(lambda: _run(seed, drawn, faulty_s, trace if trace is not None else [], errors))


class _ErrorListener(logging.Handler):
    """Stops the run at the first logged error. The thousands of lost connections are logged below that level."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.heard: Callable[[BaseException], None] = lambda error: None

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info is not None else None
        # The store of a killed broker is closed while its controller still runs: no error.
        if error is not None and not isinstance(error, StoreFault) and not isinstance(error.__cause__, StoreFailed):
            self.heard(error)

    def __enter__(self) -> _ErrorListener:
        logger = logging.getLogger("headrace")
        self._before = (logger.level, logger.propagate)
        logger.setLevel(logging.ERROR)
        logger.propagate = False
        logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logger = logging.getLogger("headrace")
        logger.removeHandler(self)
        logger.setLevel(self._before[0])
        logger.propagate = self._before[1]


async def _run(seed: int, modes: Modes, faulty_s: float, trace: list[str], errors: _ErrorListener) -> Outcome:
    return await _Scenario(seed, modes, faulty_s, trace, errors).run()


class _Scenario:
    def __init__(self, seed: int, modes: Modes, faulty_s: float, trace: list[str], errors: _ErrorListener) -> None:
        self._seed = seed
        self._modes = modes
        self._faulty_s = faulty_s
        self._cluster = SimulatedCluster(seed, modes, trace)
        self._chance = self._cluster.chance
        self._next_value = 1
        self._broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._names: list[PartitionName] = []  # the operator adds new partitions
        asyncio.get_running_loop().set_exception_handler(self._uncaught)
        self._cluster.history.on_broken = self._stop
        errors.heard = self._stop

    def _stop(self, error: BaseException) -> None:
        if not self._broken.done():
            self._broken.set_exception(error)

    def _uncaught(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None:
            self._stop(error)

    async def run(self) -> Outcome:
        cluster = self._cluster
        topics = _topics(self._modes)
        cluster.history.allow_unclean = [topic.name for topic in topics if UNCLEAN in topic.configs]
        self._names += await self._unless_broken(cluster.start(topics))
        work = [self._produce(), self._produce(), self._consume(), self._ask_latest()]
        operator = Operator(self._seed, cluster, self._names, topics)
        if self._modes.moves_settings:
            work.append(operator.move_settings())
        if self._modes.operates:
            work.append(operator.operate())
        load = [asyncio.create_task(one) for one in work]
        for task in load:
            task.add_done_callback(self._load_ended)
        nemesis = Nemesis(
            cluster,
            self._names,
            disturbs_clocks=self._modes.disturbs_clocks,
            breaks_disks=self._modes.breaks_disks,
        )
        await self._unless_broken(nemesis.break_things(self._faulty_s))
        await self._unless_broken(nemesis.heal())
        await self._unless_broken(asyncio.sleep(3.0))
        for task in load:
            task.cancel()
        await asyncio.gather(*load, return_exceptions=True)
        await self._unless_broken(operator.finish())
        await self._unless_broken(self._converge())
        for broker in cluster.up():
            await broker.kill()
        history = cluster.history
        return Outcome(
            self._seed,
            history.acknowledgements,
            history.reads,
            history.excused,
            nemesis.count,
            cluster.digest,
            tuple(cluster.trace),
        )

    async def _unless_broken(self, work: Awaitable[T]) -> T:
        """Stops the run at the first broken invariant, whichever task finds it."""
        task = asyncio.ensure_future(work)
        both: list[asyncio.Future[T] | asyncio.Future[None]] = [task, self._broken]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if self._broken.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self._broken.result()
        return task.result()

    def _load_ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._stop(error)

    # Load

    async def _ask_leader(self, name: PartitionName, api_key: int, body: Arguments) -> Entity:
        """Sends a request to the leader that some broker names, which may be outdated. None without an answer."""
        up = self._cluster.up()
        if not up:
            return None
        info = self._chance.choice(up).view.current.partition(*name)
        target = info.leader if info is not None and info.leader > 0 else self._chance.choice(up).id
        if info is not None and api_key == CONSUME and self._modes.reads_from_followers:
            target = self._chance.choice(info.replicas)
        connection = SimulatedConnection(self._cluster.network, CLIENT, target)
        try:
            return await connection.request(api_key, {"topic": name[0], "index": name[1], **body}, timeout=1.0)
        except NoAnswer:
            return None

    async def _produce(self) -> None:
        while True:
            await asyncio.sleep(self._chance.uniform(0.01, 0.1))
            count = self._chance.randint(1, 3)
            values = list(range(self._next_value, self._next_value + count))
            self._next_value += count
            await self._ask_leader(
                self._chance.choice(self._names), ApiKey.PRODUCE, {"values": values, "timeout_ms": 900}
            )

    async def _consume(self) -> None:
        next_offset: dict[PartitionName, int] = {}
        while True:
            await asyncio.sleep(0.1)
            name = self._chance.choice(self._names)
            answer = await self._ask_leader(name, CONSUME, {"offset": next_offset.get(name, 0)})
            if answer is None:
                continue
            code, data, topic_id = answer
            if code is ErrorCode.offset_out_of_range:
                # The records were deleted, the replica does not have them yet, or the topic was recreated: restart at
                # the log start offset.
                info = self._cluster.stored(name)
                log = None if info is None or info.leader < 0 else self._cluster.brokers[info.leader].logs.log(*name)
                next_offset[name] = 0 if log is None else log.log_start_offset
            for at, epoch, value in RECORD.iter_unpack(data):
                self._cluster.history.read(topic_id, name[1], at, epoch, value)
                next_offset[name] = at + 1

    async def _ask_latest(self) -> None:
        """Asks for latest offsets again and again, mostly where the leader has just changed."""
        chance = random.Random(f"latest {self._seed}")
        while True:
            await asyncio.sleep(chance.uniform(0.02, 0.2))
            await self._ask_leader(chance.choice(self._names), LATEST_OFFSET, {})

    # The end

    async def _converge(self) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + CONVERGE_S
        while True:
            problems = [problem for name in self._names for problem in self._differences(name)]
            if not problems:
                self._cluster.say("converged")
                return
            if loop.time() > end:
                raise InvariantBroken(f"no convergence within {CONVERGE_S:g} s of calm: {'; '.join(problems)}")
            await asyncio.sleep(0.5)

    def _differences(self, name: PartitionName) -> list[str]:
        cluster = self._cluster
        info = cluster.stored(name)
        if info is None:
            return [f"{name} does not exist"]
        if info.is_reassigning or set(info.isr) != set(info.replicas):
            return [f"{name}: in sync are only {info.isr} under leader {info.leader} ({info})"]
        if self._modes.balances and info.leader != info.replicas[0]:
            return [f"{name}: led by {info.leader}, not by the preferred of {info.replicas}"]
        logs = {b: cluster.brokers[b].logs.log(*name) for b in info.replicas}
        leader = logs[info.leader]
        if leader is None:
            return [f"{name}: its leader {info.leader} has no log of it"]
        found = [
            problem for broker, log in logs.items() for problem in self._difference(name, broker, log, info, leader)
        ]
        if found:
            return found
        for offset, value in cluster.history.expected(leader.topic_id, name[1]).acknowledged.items():
            entry = leader.entry(offset)
            if offset >= leader.log_start_offset and (entry is None or entry.value != value):
                raise InvariantBroken(f"{value} at {offset} of {name} was acknowledged and is lost")
        return found

    def _difference(
        self, name: PartitionName, broker: int, log: SimulatedLog | None, info: PartitionInfo, leader: SimulatedLog
    ) -> list[str]:
        if log is None or log.topic_id != leader.topic_id or log.topic_id != self._cluster.topic_id(name[0]):
            return [f"{name}: broker {broker} has no log of it"]
        first = max(log.log_start_offset, leader.log_start_offset)
        mine, theirs = log.entries[first - log.base_offset :], leader.entries[first - leader.base_offset :]
        if log.log_end_offset != leader.log_end_offset or mine != theirs:
            return [f"{name}: the log of {broker} differs from that of leader {info.leader}"]
        if log.log_start_offset < leader.log_start_offset:
            return [f"{name}: {broker} begins at {log.log_start_offset}, its leader at {leader.log_start_offset}"]
        if log.high_watermark != leader.log_end_offset:
            return [f"{name}: {broker} is committed to {log.high_watermark} of {leader.log_end_offset}"]
        return []


def _topics(modes: Modes) -> list[NewTopic]:
    topics = [
        NewTopic("safe", 1, 3, configs={MIN_INSYNC: "2"}),
        NewTopic("fast", 1, 3, configs={MIN_INSYNC: "1"}),
    ]
    if modes.allows_unclean:
        topics[1] = NewTopic("fast", 1, 3, configs={MIN_INSYNC: "1", UNCLEAN: "true"})
    if modes.operates:
        topics.append(NewTopic("small", 1, 1))  # one replica, until the operator adds more
        topics.append(NewTopic("again", 1, 3, configs={MIN_INSYNC: "2"}))  # the operator deletes and recreates it
    return topics
