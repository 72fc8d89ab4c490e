"""Graceful shutdown: a stopping broker serves until the other brokers have stopped sending clients to it.

The controller moves leadership and allows the shutdown once that is stored. The other brokers read the change from the
store a little later. If the broker closed its connections at once, its clients would ask a broker that still names it
as leader, and would retry in vain until their next metadata refresh. So the old leader keeps answering
(NOT_LEADER_OR_FOLLOWER, with the new leader) until every other broker names the new leaders.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Final, Protocol

from headrace.cluster.core.image import ClusterImage
from headrace.cluster.view import ClusterView
from headrace.controller.core.elections import leads_movable
from headrace.kernel.errors import Fault
from headrace.wire.apis import ApiKey
from headrace.wire.entities import Body, Entity

log = logging.getLogger(__name__)

# Other brokers follow within milliseconds; one that takes longer than this has a problem of its own.
_FORGOTTEN_WITHIN_S: Final = 3.0
_ASK_AGAIN_AFTER_S: Final = 0.01


class Peers(Protocol):
    async def request(self, broker_id: int, api_key: int, body: Body) -> Entity: ...


def led_topics(image: ClusterImage, broker_id: int) -> frozenset[str]:
    return frozenset(name for name, _, info in image.partitions() if info.leader == broker_id)


async def wait_until_clients_are_redirected(
    view: ClusterView, peers: Peers, broker_id: int, topics: Collection[str], within_s: float = _FORGOTTEN_WITHIN_S
) -> bool:
    """Waits until all other brokers name new leaders for this broker's partitions of `topics`. False after the
    timeout."""
    try:
        async with asyncio.timeout(within_s):
            await view.wait_until(lambda image: not leads_movable(image, broker_id), within_s)
            kept = _led(view.current, broker_id, topics)
            gone = [name for name in topics if name in view.current.topics]
            others = [one.id for one in view.current.brokers.values() if one.id != broker_id and not one.shutting_down]
            if gone:
                await asyncio.gather(*(_until_forgotten(peers, other, broker_id, gone, kept) for other in others))
    except TimeoutError:
        log.info("stopping although not every broker names the new leaders after %g s", within_s)
        return False
    return True


def _led(image: ClusterImage, broker_id: int, topics: Collection[str]) -> set[tuple[str, int]]:
    """Partitions that stay here to the end, because no other replica can lead them."""
    found = set()
    for name in topics:
        topic = image.topics.get(name)
        for index, info in enumerate(topic.partitions if topic is not None else ()):
            if info.leader == broker_id:
                found.add((name, index))
    return found


async def _until_forgotten(
    peers: Peers, other: int, broker_id: int, topics: Collection[str], kept: set[tuple[str, int]]
) -> None:
    body = {"topics": [{"topic_id": None, "name": name} for name in topics], "allow_auto_topic_creation": False}
    while True:
        try:
            answer = await peers.request(other, ApiKey.METADATA, body)
        except Fault as fault:
            log.info("cannot read which leaders broker %d names to clients: %s", other, fault.message)
            return
        if not any(
            partition.leader_id == broker_id and (topic.name, partition.partition_index) not in kept
            for topic in answer.topics
            for partition in topic.partitions
        ):
            return
        await asyncio.sleep(_ASK_AGAIN_AFTER_S)
