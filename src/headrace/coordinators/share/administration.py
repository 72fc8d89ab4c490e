"""Offsets of the share partitions of a group: describe, alter and delete them.

Owned by the event loop.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from headrace.cluster.core.image import ClusterImage
from headrace.cluster.view import ClusterView
from headrace.coordinators.codec.share_state import ShareKey
from headrace.coordinators.group.coordinator import GroupCoordinator
from headrace.coordinators.group.core.share.initialization import joined
from headrace.coordinators.peers import Peers
from headrace.coordinators.runtime.runtime import LedPartitions
from headrace.coordinators.share.core.share_state import NOT_STARTED
from headrace.coordinators.share.persister import Persister
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.kernel.isolation import READ_UNCOMMITTED
from headrace.wire.apis import ApiKey

_LIST_OFFSETS_VERSION: Final = 7
_LATEST: Final = -1


@dataclass(frozen=True, slots=True)
class SharePartitionOffset:
    partition: int
    error: ErrorCode = ErrorCode.none
    message: str | None = None
    start_offset: int = NOT_STARTED
    leader_epoch: int = 0
    lag: int = -1


class ShareAdministration:
    def __init__(
        self,
        groups: GroupCoordinator,
        persister: Persister,
        view: ClusterView,
        partitions: LedPartitions,
        peers: Peers,
    ) -> None:
        self._groups = groups
        self._persister = persister
        self._view = view
        self._partitions = partitions
        self._peers = peers

    async def describe(
        self, group_id: str, asked: Iterable[tuple[str, Sequence[int]]] | None
    ) -> dict[str, list[SharePartitionOffset]]:
        """Topic → offsets of its share partitions. asked=None: all that the group has; an unknown group has none."""
        if asked is None:
            try:
                group = await self._groups.share_group(group_id)
            except Refused as refused:
                if refused.code is not ErrorCode.group_id_not_found:
                    raise
                return {}
            asked = [(name, sorted(indexes)) for name, indexes in group.initialized.values()]
        return {
            topic: [await self._offset(group_id, topic, index) for index in partitions] for topic, partitions in asked
        }

    async def _offset(self, group_id: str, topic: str, index: int) -> SharePartitionOffset:
        info = self._view.current.topics.get(topic)
        if info is None:
            return SharePartitionOffset(index)  # not initialised: no error, as in Kafka
        if not 0 <= index < len(info.partitions):
            return SharePartitionOffset(index, ErrorCode.unknown_topic_or_partition, f"{topic}-{index} does not exist")
        try:
            found = await self._persister.summary(ShareKey(group_id, info.id, index))
        except Fault as fault:
            return SharePartitionOffset(index, fault.code, fault.message)
        if found is None or found.start_offset == NOT_STARTED:
            return SharePartitionOffset(index)
        lag = -1
        if found.delivery_complete_count >= 0:
            end = await self._end_offset(topic, index, info.partitions[index].leader)
            if end >= 0:
                lag = max(end - found.start_offset - found.delivery_complete_count, 0)
        return SharePartitionOffset(index, ErrorCode.none, None, found.start_offset, max(found.leader_epoch, 0), lag)

    async def _end_offset(self, topic: str, index: int, leader: int) -> int:
        partition = self._partitions.get(topic, index)
        if partition is not None and partition.isr is not None:
            return partition.high_watermark
        body = {
            "replica_id": -1,
            "isolation_level": READ_UNCOMMITTED,
            "topics": [
                {
                    "name": topic,
                    "partitions": [{"partition_index": index, "current_leader_epoch": -1, "timestamp": _LATEST}],
                }
            ],
        }
        try:
            answer = await self._peers.request(leader, ApiKey.LIST_OFFSETS, body, version=_LIST_OFFSETS_VERSION)
        except Fault:
            return -1
        found = answer.topics[0].partitions[0]
        return -1 if found.error_code else int(found.offset)

    async def alter(self, group_id: str, asked: Mapping[str, Mapping[int, int]]) -> dict[str, dict[int, ErrorCode]]:
        """Resets each share partition to the given offset. Raises NON_EMPTY_GROUP. Creates an unknown group."""
        if not asked:
            return {}
        image = self._view.current
        errors: dict[str, dict[int, ErrorCode]] = {}
        wanted: dict[ShareKey, int] = {}
        begun: dict[uuid.UUID, tuple[str, frozenset[int]]] = {}
        for topic, offsets in asked.items():
            info = image.topics.get(topic)
            count = 0 if info is None else len(info.partitions)
            errors[topic] = dict.fromkeys(offsets, ErrorCode.unknown_topic_or_partition)
            if info is not None:
                wanted |= {ShareKey(group_id, info.id, i): offset for i, offset in offsets.items() if 0 <= i < count}
        epoch = await self._groups.begin_share_partitions(group_id, _named(wanted, image))
        for key, offset in wanted.items():
            topic = image.topic_names[key.topic_id]
            try:
                known = await self._persister.summary(key)
                # A higher state epoch fences a leader that still writes the state from before the reset.
                state_epoch = epoch if known is None else max(epoch, known.state_epoch + 1)
                await self._persister.initialize(key, state_epoch, offset)
            except Fault as fault:
                errors[topic][key.partition] = fault.code
            else:
                errors[topic][key.partition] = ErrorCode.none
                begun = joined(begun, _named([key], image))
        if begun:
            await self._groups.share_partitions_begun(group_id, begun)
        return errors

    async def delete(self, group_id: str, topics: Sequence[str]) -> dict[str, ErrorCode]:
        """Raises GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP."""
        if not topics:
            return {}
        going = await self._groups.end_share_partitions(group_id, topics)
        errors = dict(going.errors)
        gone: set[uuid.UUID] = set()
        for topic, keys in going.share_partitions.items():
            errors[topic] = ErrorCode.none
            try:
                for key in keys:
                    await self._persister.delete(key)
                gone |= {key.topic_id for key in keys}
            except Fault as fault:
                errors[topic] = fault.code
        if gone:
            await self._groups.share_partitions_ended(group_id, gone)
        return errors

    async def delete_group(self, group_id: str) -> None:
        """The share partitions first: afterwards no record would name them. Raises NON_EMPTY_GROUP."""
        for key in await self._groups.end_share_group(group_id):
            await self._persister.delete(key)
        await self._groups.delete_share_group(group_id)


def _named(keys: Iterable[ShareKey], image: ClusterImage) -> dict[uuid.UUID, tuple[str, frozenset[int]]]:
    found: dict[uuid.UUID, tuple[str, frozenset[int]]] = {}
    for key in keys:
        found = joined(found, {key.topic_id: (image.topic_names[key.topic_id], frozenset((key.partition,)))})
    return found
