"""The coordination store of a unit on virtual time: processes and the supervisor freeze, die and come back, messages
take any time. The real server, client and journal run; sockets, clock and fsync are simulated.

Every process tries to be the leader (an ephemeral node), and while its lease lasts it increments a counter by
compare-and-set. Checked in every step, or at the end:

one leader     at most one process holds the node in its own session with a lease that has not ended
no lost write  the counter has every acknowledged increment, and no more than those plus the unanswered ones
no old nodes   when a process has died, its node is gone
no lost watch  when nothing fails any more, every process has seen the last value of the counter

`HEADRACE_ROUNDS=500` runs that many seeds, `HEADRACE_SEED=7` begins with that one.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from headrace.coordination.embedded import EmbeddedStore
from headrace.coordination.store import BadVersion, Create, NodeExists, NoNode, Set, StoreFailed, StoreFault
from headrace.coordination.unit import server as server_module
from headrace.coordination.unit import store as store_module
from headrace.coordination.unit.server import StoreServer
from headrace.coordination.unit.store import SocketStore, open_socket_store
from headrace.testing.simulation.virtual_loop import OWNER, VirtualLoop, context_of
from tests.support.effort import rounds
from tests.support.logs import directory_in_memory

PROCESSES = (1, 2, 3)
SUPERVISOR = 9
TIMEOUT_S = 3.0
FIRST_SEED = int(os.environ.get("HEADRACE_SEED", "0"))


class SimulatedSocket:
    """One end of a pair. What is written arrives at the other end in order, after any time."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop = loop
        self.other: SimulatedSocket = self
        self.owner: int | None = None
        self.protocol: asyncio.Protocol | None = None
        self.is_closed = False
        self._last_arrival = 0.0
        self._early: list[bytes | None] = []

    def setblocking(self, flag: bool) -> None:
        """As a real socket has it."""

    def attach(self, owner: int | None, protocol: asyncio.Protocol) -> None:
        self.owner, self.protocol = owner, protocol
        early, self._early = self._early, []
        for data in early:
            self._arrived(data)

    # The transport of its protocol

    def write(self, data: bytes) -> None:
        if not self.is_closed:
            self._send(data)

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        """Also the end of its process: the kernel closes the sockets, and what was written still arrives."""
        if self.is_closed:
            return
        self.is_closed = True
        self._send(None)
        if self.protocol is not None:
            self.loop.call_soon(self.protocol.connection_lost, None, context=context_of(self.owner))

    def _send(self, data: bytes | None) -> None:
        loop, other = self.loop, self.other
        # Later than the last one: timers of the same time fire in any order.
        self._last_arrival = max(self._last_arrival + 1e-6, loop.time() + loop.chance.expovariate(1 / 0.002))
        loop.call_at(self._last_arrival, other._arrived, data, context=context_of(other.owner))

    def _arrived(self, data: bytes | None) -> None:
        if self.is_closed:
            return
        if self.protocol is None:
            self._early.append(data)
        elif data is None:
            self.is_closed = True
            self.protocol.connection_lost(None)
        else:
            self.protocol.data_received(data)


class SimulatedLoop(VirtualLoop):
    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.chance = chance

    def pair(self, *_: object) -> tuple[SimulatedSocket, SimulatedSocket]:
        one, two = SimulatedSocket(self), SimulatedSocket(self)
        one.other, two.other = two, one
        return one, two

    async def create_unix_connection(  # type: ignore[override]
        self, factory: Callable[[], Any], *_: object, **named: Any
    ) -> tuple[Any, Any]:
        end: SimulatedSocket = named["sock"]
        protocol = factory()
        protocol.connection_made(end)
        end.attach(OWNER.get(), protocol)
        return end, protocol

    def run_in_executor(self, executor: Any, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """An fsync: it takes its time. After the death of its process nobody waits for it."""
        done = self.create_future()

        def run() -> None:
            if not done.done():
                done.set_result(function(*args))

        self.call_later(self.chance.expovariate(1 / 0.004), run)
        return done


class Supervisor:
    """The process with the store. `kill` leaves its files as they are."""

    def __init__(self, place: Path, loop: SimulatedLoop) -> None:
        self._place = place
        self._loop = loop
        self.ends: list[SimulatedSocket] = []
        self.start()

    def start(self) -> None:
        self.store = EmbeddedStore(self._place, snapshot_after_bytes=1500)
        self.server = StoreServer(self.store)

    async def connect(self) -> SimulatedSocket:
        task = self._loop.create_task(self.server.connect(), context=context_of(SUPERVISOR))
        end = cast("SimulatedSocket", await task)
        self.ends.append(end.other)
        return end

    def kill(self) -> None:
        self._loop.thaw(SUPERVISOR)
        if self.store._writer is not None:
            self.store._writer.cancel()
        self.store._failure = StoreFailed("killed")
        for fd in (self.store._journal_fd, self.store._lock_fd):
            os.close(fd)
        self.store._journal_fd = -1
        for end in self.ends:
            end.protocol = None  # its code does not run any more
            end.close()
        self.ends = []


class Process:
    def __init__(self, number: int, world: World) -> None:
        self.number = number
        self.world = world
        self.store: SocketStore | None = None
        self.end: SimulatedSocket | None = None
        self.led_in_session = 0
        self.seen = -1
        self.task: asyncio.Task[None] | None = None

    def believes_to_lead(self) -> bool:
        store = self.store
        return (
            store is not None
            and self.led_in_session == store.session_id != 0
            and self.world.loop.time() < store.lease_ends_at()
        )

    async def start(self) -> None:
        self.end = await self.world.supervisor.connect()
        self.led_in_session, self.seen = 0, -1
        self.task = self.world.loop.create_task(self._run(self.end), context=context_of(self.number))

    def kill(self) -> None:
        assert self.end is not None and self.task is not None
        self.world.loop.thaw(self.number)
        self.store = None
        self.end.protocol = None
        self.end.close()
        self.task.cancel()

    async def _run(self, end: SimulatedSocket) -> None:
        try:
            self.store = store = await open_socket_store(cast("Any", end), TIMEOUT_S)
        except StoreFault:
            return  # the supervisor died: a real process ends
        watching = asyncio.create_task(self._watch(store))
        try:
            while store._failure is None:
                try:
                    if self.world.is_writing:
                        await self._lead(store)
                except (NodeExists, NoNode, BadVersion):
                    pass
                except StoreFault:
                    self.led_in_session = 0  # unknown: it looks again
                await asyncio.sleep(self.world.chance.uniform(0, 0.2))
        finally:
            watching.cancel()

    async def _lead(self, store: SocketStore) -> None:
        if not self.believes_to_lead():
            holder = await store.exists("/leader")
            if holder is None:
                session_id = store.session_id
                await store.multi([Create("/leader", b"", ephemeral=True)])
                holder = await store.exists("/leader")
                if holder is not None and holder.session_id == session_id:
                    self.led_in_session = session_id
                    self.world.elected += 1
            elif holder.session_id == store.session_id:
                self.led_in_session = holder.session_id
            return
        if self.world.chance.random() < 0.1:
            self.led_in_session = 0  # before the request: the node may be gone before the answer comes
            await store.delete("/leader")
            return
        await self._increment(store)

    async def _increment(self, store: SocketStore) -> None:
        node = await store.get("/counter")
        self.world.unanswered += 1
        try:
            await store.multi([Set("/counter", str(int(node.data) + 1).encode(), node.version)])
        except BadVersion:
            self.world.unanswered -= 1
            raise
        self.world.unanswered -= 1
        self.world.acknowledged += 1

    async def _watch(self, store: SocketStore) -> None:
        """As brokers follow the image: read, wait for the watch, read again."""
        while store._failure is None:
            changed = asyncio.Event()
            try:
                self.seen = int((await store.get("/counter", watch=changed.set)).data)
            except StoreFault:
                await asyncio.sleep(0.1)
                continue
            await changed.wait()


class World:
    def __init__(self, place: Path, loop: SimulatedLoop) -> None:
        self.loop = loop
        self.chance = loop.chance
        self.acknowledged = self.unanswered = self.elected = 0
        self.is_writing = True
        self.supervisor = Supervisor(place, loop)
        self.processes = [Process(number, self) for number in PROCESSES]

    def check_one_leader(self) -> None:
        leaders = [process.number for process in self.processes if process.believes_to_lead()]
        assert len(leaders) <= 1, f"{leaders} lead at {self.loop.time():.3f}"

    async def pass_time(self, seconds: float) -> None:
        """Checks the invariant every few milliseconds."""
        until = self.loop.time() + seconds
        while self.loop.time() < until:
            self.check_one_leader()
            await asyncio.sleep(self.chance.uniform(0.002, 0.02))

    async def fault(self) -> None:
        kind = self.chance.choice(("kill", "freeze", "freeze", "kill supervisor", "freeze supervisor"))
        victim = self.chance.choice(self.processes)
        if kind == "kill":
            victim.kill()
            await self.pass_time(self.chance.uniform(0, 1))
            await victim.start()
        elif kind == "kill supervisor":
            self.supervisor.kill()
            await self.pass_time(self.chance.uniform(0, 1))
            for process in self.processes:
                process.kill()
            self.supervisor.start()
            assert await self.supervisor.store.exists("/leader") is None, "all sessions ended with the supervisor"
            for process in self.processes:
                await process.start()
        else:
            owner = SUPERVISOR if "supervisor" in kind else victim.number
            self.loop.freeze(owner)
            await self.pass_time(self.chance.uniform(0, 2.5 * TIMEOUT_S))
            self.loop.thaw(owner)

    async def run(self) -> None:
        await self.supervisor.store.create("/counter", b"0")
        for process in self.processes:
            await process.start()
        for _ in range(12):
            await self.pass_time(self.chance.uniform(0.1, 3))
            await self.fault()
        await self.pass_time(3 * TIMEOUT_S)
        await self._end()

    async def _end(self) -> None:
        store = self.supervisor.store
        self.processes[0].kill()
        await self.pass_time(1)
        holder = await store.exists("/leader")
        assert holder is None or holder.session_id in {one.store.session_id for one in self.processes if one.store}
        self.is_writing = False
        await self.pass_time(TIMEOUT_S)
        counted = int((await store.get("/counter")).data)
        assert self.acknowledged <= counted <= self.acknowledged + self.unanswered
        assert self.acknowledged > 20 and self.elected > 3, "the processes did something"
        assert [process.seen for process in self.processes[1:]] == [counted] * 2


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + rounds(short=3, long=300)))
def test_one_leader_and_no_lost_write_when_processes_freeze_and_die(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = SimulatedLoop(random.Random(seed))
    clock = types.SimpleNamespace(monotonic=loop.time)
    sockets = types.SimpleNamespace(socketpair=loop.pair, AF_UNIX=0, SOCK_STREAM=0)
    for module in (server_module, store_module):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(server_module, "socket", sockets)
    failed: list[object] = []
    loop.set_exception_handler(lambda _, context: failed.append(context))
    with directory_in_memory() as place:
        try:
            loop.run_until_complete(World(place / "store", loop).run())
        finally:
            loop.end_all()
            loop.close()
    gc.collect()  # tasks whose exception no caller has seen
    assert not failed, failed
