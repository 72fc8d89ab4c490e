"""Damaged or hand-made nodes of a topic: no broker takes the topic for deleted, no controller deletes its nodes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headrace.cluster.loading import load_image
from headrace.controller.core.topics import NewTopic
from headrace.controller.ledger import Deposed
from headrace.coordination import paths
from headrace.coordination.store import Delete, StoreFailed
from tests.unit.controller.test_controller import Opened, active, cleared, run


def test_a_topic_that_lacks_a_node_stops_the_start_and_keeps_its_other_nodes(tmp_path: Path) -> None:
    async def create(cluster: Opened) -> None:
        await cluster.controller.create_topics([NewTopic("orders", 2), NewTopic("other", 1)])

    run(tmp_path, create)

    async def damage_and_start() -> None:
        cluster = Opened(tmp_path)
        store = cluster.store
        await store.multi([Delete(paths.partition_state("orders", 1))])
        with pytest.raises(StoreFailed, match=r"topic orders has no node /brokers/topics/orders/partitions/1/state"):
            await cluster.member.start()
        assert await store.exists(paths.topic("orders")) is not None
        assert await store.exists(paths.partition_state("orders", 0)) is not None
        await cluster.member.close()
        await store.close()

    asyncio.run(damage_and_start())


def test_an_election_deletes_no_complete_topic_that_the_image_lacks(tmp_path: Path) -> None:
    """Someone restored the nodes of a topic while the brokers ran: the next start of a broker reads them."""

    async def use(cluster: Opened) -> None:
        await cluster.controller.create_topics([NewTopic("orders", 1)])
        store = cluster.store
        for path in (paths.topic, paths.topic_partitions):
            await store.create(path("restored"), (await store.get(path("orders"))).data)
        await store.create(paths.partition("restored", 0), b"")
        state = (await store.get(paths.partition_state("orders", 0))).data
        await store.create(paths.partition_state("restored", 0), state)
        await store.set(paths.CONTROLLER_EPOCH, b"41")
        with pytest.raises(Deposed):
            await cluster.controller.create_topics([NewTopic("late", 1)])
        await active(cluster)
        assert cluster.image.controller_epoch == 42, "this broker was elected again"
        await cleared(cluster)
        assert "restored" in (await load_image(store)).topics

    run(tmp_path, use)
