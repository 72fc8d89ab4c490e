"""Faults in which a broker loses its last records and restarts before the cluster detects that it was down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from headrace.testing.simulation.broker import SimulatedBroker
from headrace.testing.simulation.cluster import SimulatedCluster
from headrace.testing.simulation.history import PartitionName
from headrace.testing.simulation.store import STORE_NODE

_LOOK_S: Final = 0.005


class Reboots:
    def __init__(self, cluster: SimulatedCluster, names: list[PartitionName]) -> None:
        self._cluster = cluster
        self._chance = cluster.chance
        self._names = names

    def _say(self, line: str) -> None:
        self._cluster.say(line)

    async def _until(self, condition: Callable[[], bool], within_s: float) -> bool:
        deadline = asyncio.get_running_loop().time() + within_s
        while not condition():
            if asyncio.get_running_loop().time() > deadline:
                return False
            await asyncio.sleep(_LOOK_S)
        return True

    async def _cut_power(self, broker: SimulatedBroker) -> int:
        """Power cut whose lost session the store detects at once."""
        lost = await broker.power_cut(self._chance)
        if lost:
            self._cluster.history.damage(broker.id)
        self._cluster.zookeeper.end_session(broker.store.session_id)
        return lost

    def _controller(self) -> SimulatedBroker | None:
        return next((broker for broker in self._cluster.up() if broker.controller.is_active), None)

    async def bounce_follower(self) -> None:
        """A follower loses records and restarts before its leader detects it. Its fetches from before the restart
        arrive after it left the in-sync set. The leader dies when the follower is in sync again."""
        name = self._chance.choice(self._names)
        cluster = self._cluster
        before = cluster.stored(name)
        if before is None or before.leader < 0 or len(before.isr) < 2:
            return
        follower = cluster.brokers[self._chance.choice([b for b in before.isr if b != before.leader])]
        cluster.network.hold(follower.id, before.leader)
        await asyncio.sleep(self._chance.uniform(0.0, 0.2))
        last_words = cluster.network.taken_out(follower.id, before.leader)
        lost = await follower.power_cut(self._chance)
        if lost:
            cluster.history.damage(follower.id)
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
            knows = cluster.brokers[now.leader].partitions.live_brokers if cluster.brokers[now.leader].is_up else ()
            if not left and follower.id not in now.isr and follower.id in knows:
                left = True
                for arrive in last_words:
                    arrive()
            if left and follower.id in now.isr:
                self._say(f"{follower.id} is in sync again: kill leader {now.leader}")
                await cluster.brokers[now.leader].kill()
                cluster.zookeeper.end_session(cluster.brokers[now.leader].store.session_id)
                return

    async def bounce_joiner(self) -> None:
        """A follower loses records and restarts while the leader's AlterPartition that adds it is in flight."""
        cluster = self._cluster
        name = self._chance.choice(self._names)
        info, controller = cluster.stored(name), self._controller()
        if info is None or controller is None or info.leader < 0 or info.leader == controller.id or len(info.isr) < 2:
            return
        leader = cluster.brokers[info.leader]
        follower = cluster.brokers[self._chance.choice([b for b in info.isr if b != info.leader])]
        self._say(f"follower {follower.id} of {name} falls behind")
        links = {(leader.id, follower.id), (follower.id, leader.id)}
        cluster.network.cut |= links
        left = await self._until(
            lambda: (now := cluster.stored(name)) is None or follower.id not in now.isr, within_s=4.0
        )
        cluster.network.cut -= links
        if not left or not leader.is_up or not follower.is_up:
            return

        def is_asked_for() -> bool:
            partition = leader.partitions.get(*name)
            proposal = partition.isr.proposal if partition is not None and partition.isr is not None else None
            return proposal is not None and follower.id in proposal.ids

        cluster.network.hold(leader.id, controller.id)
        asked = await self._until(is_asked_for, within_s=2.0)
        await asyncio.sleep(self._chance.uniform(0.02, 0.3))
        report = cluster.network.taken_out(leader.id, controller.id)
        if asked and follower.is_up:
            lost = await self._cut_power(follower)
            self._say(f"{follower.id} is about to join {name} and bounces, {lost} records lost")
            follower.start()
            await self._until(lambda: self._is_accepted(follower), within_s=2.0)
        for arrive in report:
            arrive()

    def _is_accepted(self, broker: SimulatedBroker) -> bool:
        controller = self._controller()
        known = controller.view.current.brokers.get(broker.id) if controller is not None else None
        return broker.is_up and known is not None and known.epoch == broker.member.epoch

    async def register_twice(self) -> None:
        """A broker loses records and registers. Its session ends before a controller reads the registration, so it
        registers again: the second registration must also say that the start was unclean. Then the other possible
        leaders die."""
        cluster = self._cluster
        name = self._chance.choice(self._names)
        info, controller = cluster.stored(name), self._controller()
        if info is None or controller is None or not info.isr:
            return
        others = [b for b in info.isr if b != controller.id]
        if not others:
            return
        broker = cluster.brokers[self._chance.choice(others)]
        cut = (controller.id, STORE_NODE)
        cluster.network.cut.add(cut)
        lost = await self._cut_power(broker)
        self._say(f"{broker.id} loses {lost} records and registers twice")
        broker.start()
        if await self._until(lambda: not broker.is_up or broker.member.epoch >= 0, within_s=2.0) and broker.is_up:
            cluster.zookeeper.end_session(broker.store.session_id)
            await self._until(lambda: not broker.is_up or broker.member.epoch < 0, within_s=2.0)
            await self._until(lambda: not broker.is_up or broker.member.epoch >= 0, within_s=2.0)
        cluster.network.cut.discard(cut)
