"""One seeded run: load, then faults, then healing, then everything must converge and nothing promised be missing."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from headrace.client.errors import NoAnswer
from headrace.controller.core.config_changes import MIN_INSYNC, KeyChange, Operation
from headrace.coordination.store import StoreFailed, StoreFault
from headrace.kernel.errors import ErrorCode, Fault
from headrace.testing.simulation import virtual_loop
from headrace.testing.simulation.broker import CONSUME, PRODUCE
from headrace.testing.simulation.cluster import SimulatedCluster, VirtualClock
from headrace.testing.simulation.history import InvariantBroken, PartitionName
from headrace.testing.simulation.log import RECORD
from headrace.testing.simulation.nemesis import Nemesis
from headrace.testing.simulation.network import SimulatedConnection

CLIENT: Final = 50
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
    seed: int, *, faulty_s: float = FAULTY_S, moves_settings: bool = False, disturbs_clocks: bool = False
) -> Outcome:
    """Raises InvariantBroken when a promise was broken. `moves_settings`: somebody changes min.insync.replicas;
    `disturbs_clocks`: processes are frozen, clocks run fast and slow (`Nemesis`)."""
    with VirtualClock(), _Listening() as errors:
        return virtual_loop.run(lambda: _run(seed, faulty_s, moves_settings, disturbs_clocks, errors))


class _Listening(logging.Handler):
    """The real code tells of every lost connection, here thousands; what it calls an error is one, and ends the run."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.heard: Callable[[BaseException], None] = lambda error: None

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info is not None else None
        # A store that is closed under a controller is that of a broker that was just killed.
        if error is not None and not isinstance(error, StoreFault) and not isinstance(error.__cause__, StoreFailed):
            self.heard(error)

    def __enter__(self) -> _Listening:
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


async def _run(seed: int, faulty_s: float, moves_settings: bool, disturbs_clocks: bool, errors: _Listening) -> Outcome:
    return await _Scenario(seed, faulty_s, moves_settings, disturbs_clocks, errors).run()


class _Scenario:
    def __init__(
        self, seed: int, faulty_s: float, moves_settings: bool, disturbs_clocks: bool, errors: _Listening
    ) -> None:
        self._seed = seed
        self._faulty_s = faulty_s
        self._disturbs_clocks = disturbs_clocks
        self._moves_settings = moves_settings
        self._cluster = SimulatedCluster(seed)
        self._chance = self._cluster.chance
        self._next_value = 1
        self._broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._names: list[PartitionName] = []
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
        self._names = await self._unless_broken(cluster.start({"safe": 2, "fast": 1}))
        load = [asyncio.create_task(work) for work in (self._produce(), self._produce(), self._consume())]
        if self._moves_settings:
            load.append(asyncio.create_task(self._move_settings()))
        for task in load:
            task.add_done_callback(self._load_ended)
        nemesis = Nemesis(cluster, self._names, disturbs_clocks=self._disturbs_clocks)
        await self._unless_broken(nemesis.break_things(self._faulty_s))
        await self._unless_broken(nemesis.heal())
        await self._unless_broken(asyncio.sleep(3.0))
        for task in load:
            task.cancel()
        await asyncio.gather(*load, return_exceptions=True)
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

    async def _unless_broken(self, work: Awaitable[Any]) -> Any:
        """Stops the run at the first broken invariant, wherever it was seen."""
        task = asyncio.ensure_future(work)
        await asyncio.wait([task, self._broken], return_when=asyncio.FIRST_COMPLETED)
        if self._broken.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self._broken.result()
        return task.result()

    def _load_ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._stop(error)

    # ---- load -----------------------------------------------------------------------------------------------------

    async def _ask_leader(self, name: PartitionName, api_key: int, body: dict[str, Any]) -> Any:
        """Ask whoever some broker believes to lead; clients know no better. None when there was no answer."""
        up = self._cluster.up()
        if not up:
            return None
        info = self._chance.choice(up).view.current.partition(*name)
        target = info.leader if info is not None and info.leader > 0 else self._chance.choice(up).id
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
            await self._ask_leader(self._chance.choice(self._names), PRODUCE, {"values": values, "timeout_ms": 900})

    async def _consume(self) -> None:
        next_offset: dict[PartitionName, int] = {}
        while True:
            await asyncio.sleep(0.1)
            name = self._chance.choice(self._names)
            offset = next_offset.get(name, 0)
            answer = await self._ask_leader(name, CONSUME, {"offset": offset})
            if answer is None:
                continue
            code, data = answer
            if code is ErrorCode.offset_out_of_range:
                next_offset[name] = 0
            for at, epoch, value in RECORD.iter_unpack(data):
                if self._cluster.history.excused == 0:
                    self._cluster.history.read(name, at, epoch, value)
                next_offset[name] = at + 1

    async def _move_settings(self) -> None:
        # Draws of its own: a seed without it runs as it always did.
        chance = random.Random(f"settings {self._seed}")
        while True:
            await asyncio.sleep(chance.uniform(0.1, 1.5))
            name, value = chance.choice(self._names)[0], chance.choice("1123")
            for broker in self._cluster.up():
                if broker.controller.is_active:
                    change = KeyChange(MIN_INSYNC, Operation.SET, value)
                    self._cluster.say(f"{MIN_INSYNC}={value} for {name}")
                    with contextlib.suppress(Fault, TimeoutError):
                        async with asyncio.timeout(1.0):
                            await broker.controller.change_configs([("topic", name, [change])])
                    break

    # ---- the end --------------------------------------------------------------------------------------------------

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
        assert info is not None
        if set(info.isr) != set(cluster.brokers):
            return [f"{name}: in sync are only {info.isr} under leader {info.leader}"]
        logs = {b: cluster.brokers[b].logs.log(*name) for b in cluster.brokers}
        leader = logs[info.leader]
        assert leader is not None
        found = []
        for broker, log in logs.items():
            if log is None or log.entries != leader.entries:
                found.append(f"{name}: the log of {broker} differs from that of leader {info.leader}")
            elif log.high_watermark != leader.log_end_offset:
                found.append(f"{name}: {broker} is committed to {log.high_watermark} of {leader.log_end_offset}")
        if found:
            return found
        for offset, value in cluster.history.acknowledged.get(name, {}).items():
            entry = leader.entry(offset)
            if entry is None or entry.value != value:
                raise InvariantBroken(f"{value} at {offset} of {name} was acknowledged and is lost")
        return found
