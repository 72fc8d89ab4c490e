"""One seeded run: load, then faults, then healing, then everything must converge and nothing promised be missing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from headrace.client.errors import NoAnswer
from headrace.controller.core.partition_states import Election
from headrace.coordination.store import StoreFault
from headrace.kernel.errors import ErrorCode, Fault
from headrace.kernel.ids import TopicPartition
from headrace.testing.simulation import virtual_loop
from headrace.testing.simulation.broker import CONSUME, PRODUCE
from headrace.testing.simulation.cluster import SimulatedCluster, VirtualClock
from headrace.testing.simulation.faults import CALM, STORMY
from headrace.testing.simulation.history import InvariantBroken, PartitionName
from headrace.testing.simulation.log import RECORD
from headrace.testing.simulation.network import SimulatedConnection
from headrace.testing.simulation.store import STORE_NODE

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


def run_seed(seed: int, *, faulty_s: float = FAULTY_S) -> Outcome:
    """Raises InvariantBroken when a promise was broken."""
    with VirtualClock(), _Listening() as errors:
        return virtual_loop.run(lambda: _run(seed, faulty_s, errors))


class _Listening(logging.Handler):
    """The real code tells of every lost connection, here thousands; what it calls an error is one, and ends the run."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.heard: Callable[[BaseException], None] = lambda error: None

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info is not None else None
        if error is not None and not isinstance(error, StoreFault):
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


async def _run(seed: int, faulty_s: float, errors: _Listening) -> Outcome:
    return await _Scenario(seed, faulty_s, errors).run()


class _Scenario:
    def __init__(self, seed: int, faulty_s: float, errors: _Listening) -> None:
        self._seed = seed
        self._faulty_s = faulty_s
        self._cluster = SimulatedCluster(seed)
        self._chance = self._cluster.chance
        self._next_value = 1
        self._faults = 0
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
        for task in load:
            task.add_done_callback(self._load_ended)
        await self._unless_broken(self._break_things())
        await self._unless_broken(self._heal())
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
            self._faults,
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

    # ---- faults ---------------------------------------------------------------------------------------------------

    async def _break_things(self) -> None:
        actions: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (4, self._kill_one),
            (2, self._power_cut_one),
            (2, self._kill_all),
            (4, self._bounce_one),
            (5, self._kill_two_leaders),
            (5, self._kill_at_a_join),
            (4, self._cut_controller),
            (4, self._bounce_follower),
            (2, self._shut_down_one),
            (8, self._start_one),
            (4, self._cut_link),
            (4, self._cut_from_store),
            (5, self._mend_links),
            (1, self._stop_store),
            (3, self._change_weather),
            (3, self._move_leader),
        ]
        loop = asyncio.get_running_loop()
        end = loop.time() + self._faulty_s
        while loop.time() < end:
            await asyncio.sleep(self._chance.uniform(0.05, 1.5))
            [action] = self._chance.choices([a for _, a in actions], [w for w, _ in actions])
            self._faults += 1
            await action()

    def _say(self, line: str) -> None:
        self._cluster.say(line)

    def _some_broker(self) -> int:
        """Mostly the leader of some partition: that is where faults hurt."""
        info = self._cluster.stored(self._chance.choice(self._names))
        if info is not None and info.leader > 0 and self._chance.random() < 0.6:
            return info.leader
        return self._chance.choice(list(self._cluster.brokers))

    async def _kill_one(self) -> None:
        broker = self._cluster.brokers[self._some_broker()]
        self._say(f"kill {broker.id}")
        await broker.kill()

    async def _kill_two_leaders(self) -> None:
        """A leader, and the next one a moment after it took over: right then a new leader knows least."""
        name = self._chance.choice(self._names)
        first = self._cluster.stored(name)
        if first is None or first.leader < 0:
            return
        others = [broker for broker in self._cluster.brokers.values() if not broker.is_up]
        for broker in others:
            broker.start()
        self._say(f"kill leader {first.leader} of {name}")
        await self._stop_somehow(first.leader)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + 8.0
        while loop.time() < deadline:
            await asyncio.sleep(0.02)
            now = self._cluster.stored(name)
            if now is not None and now.leader > 0 and now.leader_epoch > first.leader_epoch:
                await asyncio.sleep(self._chance.choice((0.0, 0.02, 0.1, 0.5)))
                self._say(f"kill leader {now.leader} of {name} too")
                await self._stop_somehow(now.leader)
                if self._chance.random() < 0.7 and not self._cluster.brokers[first.leader].is_up:
                    self._cluster.brokers[first.leader].start()
                return

    async def _kill_at_a_join(self) -> None:
        """A follower falls behind, the leader changes, and the new one goes the moment that the follower is let in."""
        name = self._chance.choice(self._names)
        cluster = self._cluster
        before = cluster.stored(name)
        if before is None or before.leader < 0 or len(before.isr) < 2:
            return
        slow = self._chance.choice([b for b in before.isr if b != before.leader])
        self._say(f"follower {slow} of {name} falls behind")
        links = {(before.leader, slow), (slow, before.leader)}
        cluster.network.cut |= links
        await asyncio.sleep(self._chance.uniform(2.0, 4.0))
        cluster.network.cut -= links
        if self._chance.random() < 0.6:
            await self._kill_all()
            await self._heal()
        else:
            await self._stop_somehow(before.leader)
        deadline = asyncio.get_running_loop().time() + 8.0
        while asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.005)
            now = cluster.stored(name)
            if now is not None and now.leader_epoch > before.leader_epoch and slow in now.isr and now.leader > 0:
                await asyncio.sleep(self._chance.choice((0.0, 0.01, 0.03, 0.1)))
                self._say(f"{slow} joined {name}: kill leader {now.leader}")
                await self._stop_somehow(now.leader)
                return

    async def _stop_somehow(self, number: int) -> None:
        """Killed or unplugged; the store may notice at once (a connection that was reset) or by the session's time-
        out.
        """
        broker = self._cluster.brokers[number]
        if self._chance.random() < 0.3:
            lost = await broker.power_cut(self._chance)
            if lost:
                self._cluster.history.damaged.add(number)
        else:
            await broker.kill()
        if self._chance.random() < 0.5:
            self._cluster.zookeeper.end_session(broker.store.session_id)

    async def _power_cut_one(self) -> None:
        broker = self._cluster.brokers[self._some_broker()]
        lost = await broker.power_cut(self._chance)
        if lost:
            self._cluster.history.damaged.add(broker.id)
        self._say(f"power cut {broker.id}, {lost} records lost")

    async def _kill_all(self) -> None:
        self._say("kill all")
        for broker in self._cluster.up():
            await broker.kill()
        await asyncio.sleep(self._chance.uniform(0.0, 2.0))
        for broker in self._cluster.brokers.values():
            if self._chance.random() < 0.8 and not broker.is_up:
                broker.start()

    async def _bounce_one(self) -> None:
        broker = self._cluster.brokers[self._some_broker()]
        self._say(f"bounce {broker.id}")
        await self._stop_somehow(broker.id)
        await asyncio.sleep(self._chance.uniform(0.0, 0.5))
        if not broker.is_up:
            broker.start()

    async def _bounce_follower(self) -> None:
        """A follower is back without its tail before its leader noticed; the leader goes once it is let in again."""
        name = self._chance.choice(self._names)
        cluster = self._cluster
        before = cluster.stored(name)
        if before is None or before.leader < 0 or len(before.isr) < 2:
            return
        follower = cluster.brokers[self._chance.choice([b for b in before.isr if b != before.leader])]
        lost = await follower.power_cut(self._chance)
        if lost:
            cluster.history.damaged.add(follower.id)
        self._say(f"follower {follower.id} of {name} bounces, {lost} records lost")
        cluster.zookeeper.end_session(follower.store.session_id)
        await asyncio.sleep(self._chance.uniform(0.0, 0.3))
        if not follower.is_up:
            follower.start()
        deadline = asyncio.get_running_loop().time() + 3.0
        left = False
        while asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.005)
            now = cluster.stored(name)
            if now is None or now.leader < 0:
                return
            left |= follower.id not in now.isr
            if left and follower.id in now.isr:
                self._say(f"{follower.id} is in sync again: kill leader {now.leader}")
                await cluster.brokers[now.leader].kill()
                cluster.zookeeper.end_session(cluster.brokers[now.leader].store.session_id)
                return

    async def _shut_down_one(self) -> None:
        broker = self._cluster.brokers[self._some_broker()]
        self._say(f"shut down {broker.id}")
        await broker.shut_down()

    async def _start_one(self) -> None:
        down = [broker for broker in self._cluster.brokers.values() if not broker.is_up]
        if down:
            broker = self._chance.choice(down)
            self._say(f"start {broker.id}")
            broker.start()

    async def _cut_link(self) -> None:
        one = self._some_broker()
        other = self._chance.choice([b for b in self._cluster.brokers if b != one])
        self._say(f"cut {one} > {other}")
        self._cluster.network.cut.add((one, other))
        if self._chance.random() < 0.5:
            self._cluster.network.cut.add((other, one))

    async def _cut_from_store(self) -> None:
        broker = self._some_broker()
        self._say(f"cut {broker} from the store")
        self._cluster.network.cut.add((broker, STORE_NODE))

    async def _cut_controller(self) -> None:
        """The controller loses its session while leaders report to it, and is back before it has heard of that."""
        active = [broker for broker in self._cluster.up() if broker.controller.is_active]
        if not active:
            return
        controller = self._chance.choice(active).id
        self._say(f"cut controller {controller} from the store")
        network = self._cluster.network
        link = (controller, STORE_NODE)
        network.cut.add(link)
        await asyncio.sleep(self._chance.uniform(2.0, 4.0))
        followers = [(b, controller) for b in self._cluster.brokers if b != controller]
        slow = self._chance.choice(followers)
        network.cut.add(slow)
        await asyncio.sleep(self._chance.uniform(0.0, 2.0))
        network.cut.discard(link)
        await asyncio.sleep(self._chance.uniform(0.0, 1.0))
        network.cut.discard(slow)

    async def _mend_links(self) -> None:
        self._say("mend")
        self._cluster.network.cut.clear()

    async def _stop_store(self) -> None:
        self._say("store down")
        self._cluster.zookeeper.is_down = True
        await asyncio.sleep(self._chance.uniform(0.1, 5.0))
        self._say("store up")
        self._cluster.zookeeper.restart()

    async def _change_weather(self) -> None:
        network = self._cluster.network
        network.faults = CALM if network.faults is STORMY else STORMY
        self._say("calm" if network.faults is CALM else "storm")

    async def _move_leader(self) -> None:
        for broker in self._cluster.up():
            if broker.controller.is_active:
                name = self._chance.choice(self._names)
                self._say(f"preferred leader of {name}")
                try:
                    async with asyncio.timeout(1.0):
                        await broker.controller.elect_leaders(Election.PREFERRED, [TopicPartition(*name)])
                except (Fault, TimeoutError):
                    pass
                return

    # ---- the end --------------------------------------------------------------------------------------------------

    async def _heal(self) -> None:
        self._say("heal")
        cluster = self._cluster
        cluster.network.faults = CALM
        cluster.network.cut.clear()
        if cluster.zookeeper.is_down:
            cluster.zookeeper.restart()
        for broker in cluster.brokers.values():
            if not broker.is_up:
                broker.start()

    async def _converge(self) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + CONVERGE_S
        while True:
            problems = [problem for name in self._names for problem in self._differences(name)]
            if not problems:
                self._say("converged")
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
