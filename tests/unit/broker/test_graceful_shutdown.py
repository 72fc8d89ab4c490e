"""A stopping broker serves until the other brokers send no more clients to it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from headrace.broker.graceful_shutdown import led_topics, wait_until_clients_are_redirected
from headrace.client.errors import Unreachable
from headrace.cluster.core.image import BrokerInfo, ClusterImage, PartitionInfo, TopicInfo
from headrace.cluster.view import ClusterView

US, OTHER, THIRD = 1, 2, 3


def image(version: int, leader: int, alone: int = US) -> ClusterImage:
    """Topic `t` has a partition that others can lead and one that only this broker has."""
    moved = PartitionInfo(leader, version, version, (OTHER, THIRD) if leader != US else (US, OTHER), (US, OTHER, THIRD))
    kept = PartitionInfo(alone, 0, 0, (alone,), (alone,))
    topic = TopicInfo("t", uuid.UUID(int=7), (moved, kept))
    brokers = {n: BrokerInfo(n, n, (), shutting_down=n == US and leader != US) for n in (US, OTHER, THIRD)}
    return ClusterImage(version=version, brokers=brokers, topics={"t": topic})


class Others:
    """Each names the old leader so many times before it names the new one; None: it does not answer."""

    def __init__(self, behind: dict[int, int | None]) -> None:
        self.behind = behind

    async def request(self, broker_id: int, api_key: int, body: Mapping[str, object]) -> Any:
        left = self.behind[broker_id]
        if left is None:
            raise Unreachable("gone")
        self.behind[broker_id] = max(0, left - 1)
        leaders = [US if left else OTHER, US]
        rows = [SimpleNamespace(partition_index=at, leader_id=leader) for at, leader in enumerate(leaders)]
        return SimpleNamespace(topics=[SimpleNamespace(name="t", partitions=rows)])


def leave(behind: dict[int, int | None], within_s: float = 5.0) -> tuple[bool, Others]:
    others = Others(behind)

    async def run() -> bool:
        view = ClusterView(image(1, US))
        led = led_topics(view.current, US)
        assert led == {"t"}
        asyncio.get_running_loop().call_later(0.01, view.publish, image(2, OTHER))
        return await wait_until_clients_are_redirected(view, others, US, led, within_s)

    return asyncio.run(run()), others


def test_it_waits_until_every_other_broker_names_the_new_leader() -> None:
    done, others = leave({OTHER: 0, THIRD: 3})
    assert done
    assert others.behind == {OTHER: 0, THIRD: 0}


def test_it_does_not_wait_for_an_unreachable_broker() -> None:
    assert leave({OTHER: None, THIRD: 1})[0]


def test_it_does_not_wait_for_ever() -> None:
    assert not leave({OTHER: 0, THIRD: 1 << 30}, within_s=0.1)[0]
