"""A replica leaves a failed disk of a running broker, returns to the other disk, and is in sync again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from headrace.cluster.core.image import PartitionInfo
from headrace.controller.core.topics import NewTopic
from headrace.kernel.ids import TopicPartition
from headrace.testing.simulation import virtual_loop
from headrace.testing.simulation.cluster import SimulatedCluster, VirtualClock
from headrace.testing.simulation.modes import Modes

pytestmark = pytest.mark.simulation

NAME = ("t", 0)
ALL = {1, 2, 3}
WITHIN_S = 30


def test_a_replica_that_was_reassigned_away_and_back_joins_the_isr() -> None:
    async def scenario() -> None:
        cluster = SimulatedCluster(1, Modes(), [])

        async def becomes(condition: Callable[[PartitionInfo], bool]) -> PartitionInfo:
            for _ in range(WITHIN_S * 10):
                info = cluster.stored(NAME)
                if info is not None and not info.is_reassigning and condition(info):
                    return info
                await asyncio.sleep(0.1)
            raise AssertionError(f"it is {cluster.stored(NAME)}")

        async def reassign(*replicas: int) -> None:
            [active] = [broker for broker in cluster.up() if broker.controller.is_active]
            await active.controller.alter_reassignments({TopicPartition(*NAME): replicas})
            await becomes(lambda info: set(info.replicas) == set(replicas))

        await cluster.start([NewTopic("t", 1, 3)])
        info = await becomes(lambda info: all(broker.logs.log(*NAME) for broker in cluster.up()))
        broker = cluster.brokers[min(ALL - {info.leader})]
        log = broker.logs.log(*NAME)
        assert log is not None
        broker.fail_disk(log.directory)
        await becomes(lambda info: set(info.isr) == ALL - {broker.id})
        await reassign(*ALL - {broker.id})
        await becomes(lambda info: broker.logs.log(*NAME) is None)
        await reassign(*ALL)
        await becomes(lambda info: set(info.isr) == ALL)
        for one in cluster.up():
            await one.kill()

    with VirtualClock():
        virtual_loop.run(scenario)
