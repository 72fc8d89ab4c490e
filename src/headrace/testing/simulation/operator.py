"""Administration of the cluster while faults happen: reassigns replicas, adds partitions, deletes and recreates topics,
deletes records, changes settings.

It has its own random generator, so that the faults of a seed do not depend on it.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from headrace.client.errors import NoAnswer
from headrace.cluster.core.image import NO_LEADER
from headrace.controller.controller import Controller
from headrace.controller.core.config_changes import MIN_INSYNC, KeyChange
from headrace.controller.core.config_changes import Operation as ConfigOperation
from headrace.controller.core.partition_states import Election
from headrace.controller.core.topics import NewTopic
from headrace.controller.topic_operations import Growth
from headrace.kernel.errors import Fault
from headrace.kernel.ids import TopicPartition
from headrace.testing.simulation.cluster import SimulatedCluster
from headrace.testing.simulation.history import InvariantBroken, PartitionName
from headrace.testing.simulation.network import CLIENT, SimulatedConnection
from headrace.testing.simulation.serving import DELETE_RECORDS

T = TypeVar("T")

_MOST_PARTITIONS: Final = 2
_FINISH_S: Final = 30.0
# Within this time every partition gets a leader that can get one by itself.
_ELECTIONS_S: Final = 20


class Operator:
    def __init__(
        self, seed: int, cluster: SimulatedCluster, names: list[PartitionName], topics: Sequence[NewTopic]
    ) -> None:
        """`names` gets each new partition."""
        self._chance = random.Random(f"operator {seed}")
        self._cluster = cluster
        self._names = names
        self._topics = {topic.name: topic for topic in topics}

    async def operate(self) -> None:
        actions: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (5, self._move_replicas),
            (3, self._change_factor),
            (2, self._cancel_moves),
            (2, self._drain),
            (1, self._add_partition),
            (3, self._recreate_topic),
            (4, self._delete_records),
            (2, self._elect_preferred),
            (2, self._shut_down_in_turn),
        ]
        while True:
            await asyncio.sleep(self._chance.uniform(0.2, 2.0))
            [action] = self._chance.choices([a for _, a in actions], [w for w, _ in actions])
            await action()

    async def move_settings(self) -> None:
        chance = random.Random(f"settings {self._chance.random()}")
        while True:
            await asyncio.sleep(chance.uniform(0.1, 1.5))
            name, value = chance.choice(sorted(self._topics)), chance.choice("1123")
            change = KeyChange(MIN_INSYNC, ConfigOperation.SET, value)
            self._cluster.say(f"{MIN_INSYNC}={value} for {name}")
            await self._ask(lambda c, n=name, k=change: c.change_configs([("topic", n, [k])]))  # type: ignore[misc]

    async def finish(self) -> None:
        """Starts brokers and creates topics that an interrupted operation left stopped or deleted. Elects leaders of
        partitions that cannot get one by themselves."""
        for broker in self._cluster.brokers.values():
            if not broker.is_up:
                broker.start()
        deadline = asyncio.get_running_loop().time() + _FINISH_S
        while missing := [name for name in self._topics if self._cluster.topic_id(name) is None]:
            if asyncio.get_running_loop().time() > deadline:
                raise InvariantBroken(f"{missing} could not be created within {_FINISH_S:g} s of calm")
            await self._create(missing)
            await asyncio.sleep(0.2)
        for _ in range(_ELECTIONS_S):
            if self._leaderless():
                await asyncio.sleep(1.0)
        for name in self._leaderless():
            self._cluster.say(f"unclean election of a leader of {name}")
            self._cluster.history.asked_for.add(name)
            partition = TopicPartition(*name)
            await self._ask(lambda c, one=partition: c.elect_leaders(Election.UNCLEAN, [one]))  # type: ignore[misc]

    def _leaderless(self) -> list[PartitionName]:
        """Their last leader lost its log with a disk."""
        states = {name: self._cluster.stored(name) for name in self._names}
        return [name for name, info in states.items() if info is not None and info.leader == NO_LEADER]

    async def _ask(self, operation: Callable[[Controller], Awaitable[T]], timeout_s: float = 1.0) -> T | None:
        """Asks a broker that believes it is the controller. None if it refuses or does not answer in time."""
        for broker in self._cluster.up():
            if broker.controller.is_active:
                with contextlib.suppress(Fault, TimeoutError):
                    async with asyncio.timeout(timeout_s):
                        return await operation(broker.controller)
                return None
        return None

    # Replicas

    async def _reassign(self, targets: dict[PartitionName, list[int] | None]) -> None:
        for name, target in targets.items():
            self._cluster.say(f"replicas of {name}: {'as before' if target is None else target}")
        asked = {TopicPartition(*name): target for name, target in targets.items()}
        await self._ask(lambda controller: controller.alter_reassignments(asked))

    async def _move_replicas(self) -> None:
        name = self._chance.choice(self._names)
        count = min(3, len(self._cluster.brokers))
        await self._reassign({name: self._chance.sample(sorted(self._cluster.brokers), count)})

    async def _change_factor(self) -> None:
        """Changes the replication factor. Sometimes kills one of the new replicas soon after."""
        name = ("small", 0) if self._chance.random() < 0.6 else self._chance.choice(self._names)
        target = self._chance.sample(sorted(self._cluster.brokers), self._chance.choice((1, 2, 3, 3)))
        await self._reassign({name: target})
        if self._chance.random() < 0.4:
            await asyncio.sleep(self._chance.uniform(0.0, 0.3))
            victim = self._cluster.brokers[self._chance.choice(target)]
            self._cluster.say(f"kill {victim.id}, a target")
            await victim.kill()

    async def _cancel_moves(self) -> None:
        moving = [name for name in self._names if (info := self._cluster.stored(name)) and info.is_reassigning]
        await self._reassign(dict.fromkeys(moving))

    async def _drain(self) -> None:
        """Moves all replicas away from one broker."""
        if len(self._cluster.brokers) < 4:
            return
        drained = self._chance.choice(sorted(self._cluster.brokers))
        self._cluster.say(f"drain {drained}")
        targets: dict[PartitionName, list[int] | None] = {}
        for name in self._names:
            info = self._cluster.stored(name)
            if info is not None and drained in info.replicas:
                free = [b for b in sorted(self._cluster.brokers) if b != drained and b not in info.replicas]
                staying = [b for b in info.replicas if b != drained and b not in info.removing]
                targets[name] = [*staying, *free][: max(1, min(3, len(info.replicas)))]
        await self._reassign(targets)

    async def _elect_preferred(self) -> None:
        self._cluster.say("preferred leaders for all")
        await self._ask(lambda controller: controller.elect_leaders(Election.PREFERRED, None))

    async def _shut_down_in_turn(self) -> None:
        """Controlled shutdown, then a start soon after."""
        broker = self._cluster.brokers[self._chance.choice(sorted(self._cluster.brokers))]
        self._cluster.say(f"restart {broker.id}")
        await broker.shut_down()
        await asyncio.sleep(self._chance.uniform(0.1, 2.0))
        if not broker.is_up:
            broker.start()

    # Topics

    async def _create(self, names: Sequence[str]) -> None:
        await self._ask(lambda controller: controller.create_topics([self._topics[name] for name in names]))

    async def _recreate_topic(self) -> None:
        """Deletes and recreates a topic. Some brokers learn of the deletion or the creation much later."""
        name = "again"
        self._cluster.say(f"delete {name}")
        await self._ask(lambda controller: controller.delete_topics([(name, None)]))
        for _ in range(self._chance.randint(1, 6)):
            await asyncio.sleep(self._chance.choice((0.0, 0.05, 0.5)))
            self._cluster.say(f"create {name}")
            await self._create([name])

    async def _add_partition(self) -> None:
        name = self._chance.choice(("safe", "fast"))
        count = 1 + max(index for topic, index in self._names if topic == name)
        if count < _MOST_PARTITIONS:
            self._cluster.say(f"{name} gets partition {count}")
            results = await self._ask(lambda controller: controller.create_partitions([Growth(name, count + 1)]))
            if self._cluster.stored((name, count)) is not None or (results and not results[0].error):
                self._names.append((name, count))

    async def _delete_records(self) -> None:
        name = self._chance.choice(self._names)
        info = self._cluster.stored(name)
        if info is None or info.leader < 0:
            return
        self._cluster.say(f"delete records of {name}")
        share = self._chance.choice((0.2, 0.8, 1.0))
        body = {"topic": name[0], "index": name[1], "share": share, "timeout_ms": 500}
        connection = SimulatedConnection(self._cluster.network, CLIENT, info.leader)
        with contextlib.suppress(NoAnswer):
            await connection.request(DELETE_RECORDS, body, timeout=1.0)
