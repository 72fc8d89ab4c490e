"""Reads and writes the state of a share partition at its share coordinator: in this broker, or over the wire in
another.

While a coordinator moves, the persister retries for some seconds; every operation may be repeated. Only a fetch gets
the error at once, because it has its own retries. Owned by the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from headrace.cluster.view import ClusterView
from headrace.coordinators.codec.share_state import ShareKey, ShareSnapshot, StateBatch
from headrace.coordinators.peers import Peers
from headrace.coordinators.share.core.share_state import NOT_STARTED
from headrace.coordinators.share.state_coordinator import ShareStateCoordinator, coordinator_key
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.kernel.ids import SHARE_GROUP_STATE_TOPIC, coordinator_partition
from headrace.wire.apis import ApiKey
from headrace.wire.entities import Body, Entity

_WRITE_VERSION: Final = 1
_SUMMARY_VERSION: Final = 1

# Longer than a failover takes, shorter than a client's request timeout (30 s).
_PATIENCE_SECONDS: Final = 15.0
_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 1.0
_IS_AWAY: Final = frozenset(
    (
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.broker_not_available,
        ErrorCode.network_exception,
        ErrorCode.request_timed_out,
    )
)

Reply = TypeVar("Reply")


class Persister:
    def __init__(
        self,
        local: ShareStateCoordinator,
        view: ClusterView,
        broker_id: int,
        peers: Peers,
        ensure_topic: Callable[[str], Awaitable[bool]],
    ) -> None:
        self._local = local
        self._view = view
        self._broker_id = broker_id
        self._peers = peers
        self._ensure_topic = ensure_topic

    async def initialize(self, key: ShareKey, state_epoch: int, start_offset: int) -> None:
        await self._patiently(lambda: self._initialize(key, state_epoch, start_offset))

    async def _initialize(self, key: ShareKey, state_epoch: int, start_offset: int) -> None:
        if await self._is_local(key):
            return await self._local.initialize(key, state_epoch, start_offset)
        await self._ask(
            key, ApiKey.INITIALIZE_SHARE_GROUP_STATE, {"state_epoch": state_epoch, "start_offset": start_offset}, 0
        )
        return None

    async def read(self, key: ShareKey, leader_epoch: int) -> ShareSnapshot:
        """Asks once: a fetch retries by itself. The group initialises its share partitions. If it has not (the group is
        of an earlier release, or has no members), the first fetch initialises the share partition.
        """
        try:
            return await self._read(key, leader_epoch)
        except Refused as refused:
            if refused.code is not ErrorCode.invalid_request:
                raise
        await self._initialize(key, 0, NOT_STARTED)
        return await self._read(key, leader_epoch)

    async def _read(self, key: ShareKey, leader_epoch: int) -> ShareSnapshot:
        if await self._is_local(key):
            return await self._local.read(key, leader_epoch)
        found = await self._ask(key, ApiKey.READ_SHARE_GROUP_STATE, {"leader_epoch": leader_epoch}, 0)
        batches = tuple(
            StateBatch(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count) for b in found.state_batches
        )
        return ShareSnapshot(0, found.state_epoch, leader_epoch, found.start_offset, 0, 0, batches)

    async def write(
        self,
        key: ShareKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        complete_count: int,
        batches: Sequence[StateBatch],
    ) -> None:
        async def once() -> None:
            if await self._is_local(key):
                await self._local.write(key, state_epoch, leader_epoch, start_offset, complete_count, batches)
                return
            state = {
                "state_epoch": state_epoch,
                "leader_epoch": leader_epoch,
                "start_offset": start_offset,
                "delivery_complete_count": complete_count,
                "state_batches": [batch._asdict() for batch in batches],
            }
            await self._ask(key, ApiKey.WRITE_SHARE_GROUP_STATE, state, _WRITE_VERSION)

        await self._patiently(once)

    async def delete(self, key: ShareKey) -> None:
        await self._patiently(lambda: self._delete(key))

    async def _delete(self, key: ShareKey) -> None:
        if await self._is_local(key):
            return await self._local.delete(key)
        await self._ask(key, ApiKey.DELETE_SHARE_GROUP_STATE, {}, 0)
        return None

    async def summary(self, key: ShareKey) -> ShareSnapshot | None:
        """None if the share partition is not initialised."""
        return await self._patiently(lambda: self._summary(key))

    async def _summary(self, key: ShareKey) -> ShareSnapshot | None:
        if await self._is_local(key):
            return await self._local.summary(key)
        found = await self._ask(key, ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, {"leader_epoch": -1}, _SUMMARY_VERSION)
        if found.start_offset == NOT_STARTED and found.state_epoch == 0:
            return None
        complete = getattr(found, "delivery_complete_count", -1)
        return ShareSnapshot(0, found.state_epoch, found.leader_epoch, found.start_offset, 0, 0, (), complete)

    async def _patiently(self, once: Callable[[], Awaitable[Reply]]) -> Reply:
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + _PATIENCE_SECONDS, _PAUSE_SECONDS
        while True:
            try:
                return await once()
            except Fault as fault:
                if fault.code not in _IS_AWAY or loop.time() + pause > deadline:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _is_local(self, key: ShareKey) -> bool:
        return await self._coordinator(key) == self._broker_id

    async def _coordinator(self, key: ShareKey) -> int:
        if not await self._ensure_topic(SHARE_GROUP_STATE_TOPIC):
            raise Refused(ErrorCode.coordinator_not_available, f"{SHARE_GROUP_STATE_TOPIC} is not there yet")
        topic = self._view.current.topics[SHARE_GROUP_STATE_TOPIC]
        leader = topic.partitions[coordinator_partition(coordinator_key(key), len(topic.partitions))].leader
        if leader < 0:
            raise Refused(ErrorCode.coordinator_not_available, "the share coordinator's partition has no leader")
        return leader

    async def _ask(self, key: ShareKey, api_key: int, partition: Body, version: int) -> Entity:
        """The answer for one partition. Raises the error of the coordinator as Refused."""
        body = {
            "group_id": key.group_id,
            "topics": [{"topic_id": key.topic_id, "partitions": [{"partition": key.partition, **partition}]}],
        }
        answer = await self._peers.request(await self._coordinator(key), api_key, body, version=version)
        found = answer.results[0].partitions[0]
        if found.error_code:
            raise Refused(found.error_code, found.error_message or "")
        return found
