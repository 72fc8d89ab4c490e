"""Injects faults into a simulated run: single faults, and sequences of faults that are known to be dangerous."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from headrace.controller.core.partition_states import Election
from headrace.kernel.errors import Fault
from headrace.kernel.ids import TopicPartition
from headrace.testing.simulation.cluster import SimulatedCluster
from headrace.testing.simulation.faults import CALM, STORMY
from headrace.testing.simulation.history import PartitionName
from headrace.testing.simulation.log import DISKS
from headrace.testing.simulation.reboots import Reboots
from headrace.testing.simulation.store import STORE_NODE


class Nemesis:
    def __init__(
        self,
        cluster: SimulatedCluster,
        names: list[PartitionName],
        *,
        disturbs_clocks: bool = False,
        breaks_disks: bool = False,
    ) -> None:
        """`disturbs_clocks`: processes freeze for a while, their clocks run fast or slow, and answers of the store to
        some of them are lost. `breaks_disks`: disks fail and are later replaced by empty ones."""
        self.count = 0
        self._disturbs_clocks = disturbs_clocks
        self._breaks_disks = breaks_disks
        if disturbs_clocks:
            for broker in cluster.brokers.values():
                broker.clock_rate = cluster.chance.uniform(0.8, 1.25)
        self._cluster = cluster
        self._chance = cluster.chance
        self._names = names
        self._reboots = Reboots(cluster, names)

    async def break_things(self, for_s: float) -> None:
        """Injects one fault after another, chosen at random by weight."""
        actions: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (4, self._kill_one),
            (2, self._power_cut_one),
            (2, self._kill_all),
            (4, self._bounce_one),
            (5, self._kill_two_leaders),
            (5, self._kill_at_a_join),
            (4, self._cut_controller),
            (4, self._reboots.bounce_follower),
            (2, self._reboots.bounce_joiner),
            (2, self._reboots.register_twice),
            (2, self._shut_down_one),
            (8, self._start_one),
            (4, self._cut_link),
            (4, self._cut_from_store),
            (3, self._isolate_leader),
            (5, self._mend_links),
            (1, self._stop_store),
            (3, self._toggle_network_faults),
            (3, self._move_leader),
        ]
        if self._disturbs_clocks:
            actions += [(8, self._freeze_one), (3, self._freeze_controller), (3, self._drop_store_answers)]
        if self._breaks_disks:
            actions += [(4, self._fail_disk), (3, self._replace_disk)]
        loop = asyncio.get_running_loop()
        end = loop.time() + for_s
        while loop.time() < end:
            await asyncio.sleep(self._chance.uniform(0.05, 1.5))
            [action] = self._chance.choices([a for _, a in actions], [w for w, _ in actions])
            self.count += 1
            await action()

    def _say(self, line: str) -> None:
        self._cluster.say(line)

    def _some_broker(self) -> int:
        """A random broker. Mostly the leader of a partition, where a fault has the most effect."""
        info = self._cluster.stored(self._chance.choice(self._names))
        if info is not None and info.leader > 0 and self._chance.random() < 0.6:
            return info.leader
        return self._chance.choice(list(self._cluster.brokers))

    async def _kill_one(self) -> None:
        broker = self._cluster.brokers[self._some_broker()]
        self._say(f"kill {broker.id}")
        await broker.kill()

    async def _kill_two_leaders(self) -> None:
        """Kills a leader, then the next one just after its election, before it has heard from its followers."""
        name = self._chance.choice(self._names)
        first = self._cluster.stored(name)
        if first is None or first.leader < 0:
            return
        others = [broker for broker in self._cluster.brokers.values() if not broker.is_up]
        for broker in others:
            broker.start()
        self._say(f"kill leader {first.leader} of {name}")
        await self._kill_or_cut_power(first.leader)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + 8.0
        while loop.time() < deadline:
            await asyncio.sleep(0.02)
            now = self._cluster.stored(name)
            if now is not None and now.leader > 0 and now.leader_epoch > first.leader_epoch:
                await asyncio.sleep(self._chance.choice((0.0, 0.02, 0.1, 0.5)))
                self._say(f"kill leader {now.leader} of {name} too")
                await self._kill_or_cut_power(now.leader)
                if self._chance.random() < 0.7 and not self._cluster.brokers[first.leader].is_up:
                    self._cluster.brokers[first.leader].start()
                return

    async def _kill_at_a_join(self) -> None:
        """A follower falls behind, the leader changes, and the new leader dies when the follower joins the in-sync
        set."""
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
            await self.heal()
        else:
            await self._kill_or_cut_power(before.leader)
        deadline = asyncio.get_running_loop().time() + 8.0
        while asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.005)
            now = cluster.stored(name)
            if now is not None and now.leader_epoch > before.leader_epoch and slow in now.isr and now.leader > 0:
                await asyncio.sleep(self._chance.choice((0.0, 0.01, 0.03, 0.1)))
                self._say(f"{slow} joined {name}: kill leader {now.leader}")
                await self._kill_or_cut_power(now.leader)
                return

    async def _kill_or_cut_power(self, number: int) -> None:
        """Kill or power cut. The store ends the session at once (connection reset) or at its time-out."""
        broker = self._cluster.brokers[number]
        if self._chance.random() < 0.3:
            lost = await broker.power_cut(self._chance)
            if lost:
                self._cluster.history.damage(number)
        else:
            await broker.kill()
        if self._chance.random() < 0.5:
            self._cluster.zookeeper.end_session(broker.store.session_id)

    async def _power_cut_one(self) -> None:
        broker = self._cluster.brokers[self._some_broker()]
        lost = await broker.power_cut(self._chance)
        if lost:
            self._cluster.history.damage(broker.id)
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
        await self._kill_or_cut_power(broker.id)
        await asyncio.sleep(self._chance.uniform(0.0, 0.5))
        if not broker.is_up:
            broker.start()

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

    async def _isolate_leader(self) -> None:
        """Cuts a leader off from its followers for longer than the replica lag time. All of them reach the store."""
        name = self._chance.choice(self._names)
        info = self._cluster.stored(name)
        if info is None or info.leader < 0:
            return
        self._say(f"part leader {info.leader} of {name} from all others")
        others = [broker for broker in self._cluster.brokers if broker != info.leader]
        links = {(info.leader, other) for other in others} | {(other, info.leader) for other in others}
        self._cluster.network.cut |= links
        await asyncio.sleep(self._chance.uniform(2.0, 9.0))
        self._cluster.network.cut -= links

    async def _cut_from_store(self) -> None:
        broker = self._some_broker()
        self._say(f"cut {broker} from the store")
        self._cluster.network.cut.add((broker, STORE_NODE))

    async def _freeze_one(self) -> None:
        """For less or more than the session time-out, or until just after it."""
        broker = self._cluster.brokers[self._some_broker()]
        seconds = self._chance.choice((0.3, 1.0, 2.0, 2.9, 3.1, 3.5, 6.0))
        self._say(f"freeze {broker.id} for {seconds} s")
        if broker.is_up:
            broker.freeze(seconds)

    async def _freeze_controller(self) -> None:
        for broker in self._cluster.up():
            if broker.controller.is_active:
                self._say(f"freeze controller {broker.id}")
                broker.freeze(self._chance.uniform(2.0, 5.0))

    async def _drop_store_answers(self) -> None:
        """The store executes the broker's requests, but the answers are lost."""
        broker = self._some_broker()
        self._say(f"{broker} does not hear the store")
        self._cluster.network.cut.add((STORE_NODE, broker))

    async def _cut_controller(self) -> None:
        """Cuts the controller off from the store while leaders send it requests, and reconnects it."""
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

    async def _fail_disk(self) -> None:
        """Fails one of the two disks. The broker continues with the other."""
        broker = self._cluster.brokers[self._some_broker()]
        if broker.is_up and not broker.logs.failed:
            lost = broker.fail_disk(self._chance.choice(DISKS))
            self._cluster.history.damage(broker.id)
            names = [f"{log.topic}-{log.partition}" for log in lost]
            self._say(f"a disk of {broker.id} fails, with {names}")

    async def _replace_disk(self) -> None:
        """Stops the broker and replaces a disk, failed or good, by an empty one."""
        broker = self._cluster.brokers[self._some_broker()]
        await broker.kill()
        if not broker.logs.failed:
            broker.logs.fail(self._chance.choice(DISKS))
        self._say(f"{broker.id} gets a new disk")
        broker.logs.replace_failed()
        self._cluster.history.damage(broker.id)

    async def _mend_links(self) -> None:
        self._say("mend")
        self._cluster.network.cut.clear()

    async def _stop_store(self) -> None:
        self._say("store down")
        self._cluster.zookeeper.is_down = True
        await asyncio.sleep(self._chance.uniform(0.1, 5.0))
        self._say("store up")
        self._cluster.zookeeper.restart()

    async def _toggle_network_faults(self) -> None:
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

    async def heal(self) -> None:
        """Ends all faults: no delays, no cut links, the store is up, every broker runs."""
        self._say("heal")
        cluster = self._cluster
        cluster.network.faults = CALM
        cluster.network.cut.clear()
        if cluster.zookeeper.is_down:
            cluster.zookeeper.restart()
        for broker in cluster.brokers.values():
            broker.thaw()
            if broker.logs.failed:
                await broker.kill()
            if not broker.is_up:
                broker.start()
