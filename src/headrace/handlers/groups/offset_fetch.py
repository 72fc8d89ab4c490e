"""OffsetFetch (key 9, versions 1–10): committed offsets of groups.

v2 all topics (null), top-level error · v5 leader epoch · v6 flexible · v7 require stable (KIP-447) · v8 several groups
(KIP-709) · v9 members of consumer groups · v10 topic ids instead of names
An unknown group is not an error: offset -1 for each partition.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from headrace.cluster.view import ClusterView
from headrace.coordinators.group.coordinator import GroupCoordinator
from headrace.coordinators.group.core.offsets.requests import FetchedOffset
from headrace.handlers.dispatch.authorization import Access, Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault
from headrace.security.acl.model import Operation, ResourceType
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.offset_fetch import (
        OffsetFetchRequest,
        OffsetFetchRequestGroup,
        OffsetFetchResponse,
        OffsetFetchResponseGroup,
        OffsetFetchResponsePartitions,
        OffsetFetchResponseTopic,
        OffsetFetchResponseTopics,
    )


_TOP_LEVEL_ERROR_FROM: Final = 2
_BATCHED_FROM: Final = 8
_TOPIC_IDS_FROM: Final = 10


class GroupQuery(NamedTuple):
    """The request for one group, for all versions: topics by name, or by id from v10 on; None means all."""

    group_id: str
    topics: Sequence[tuple[str, uuid.UUID | None, Sequence[int]]] | None
    member_id: str | None = None
    member_epoch: int = -1


def _of_group(group: OffsetFetchRequestGroup) -> GroupQuery:
    topics = None if group.topics is None else [(t.name, t.topic_id, t.partition_indexes) for t in group.topics]
    return GroupQuery(group.group_id, topics, group.member_id, group.member_epoch)


@dataclass(frozen=True)
class OffsetFetch(Handler):
    groups: GroupCoordinator
    view: ClusterView

    api_key: ClassVar[ApiKey] = ApiKey.OFFSET_FETCH
    versions: ClassVar[range] = range(1, 11)
    needs: ClassVar[Needs] = Needs(group=Operation.DESCRIBE, topic=Operation.DESCRIBE)

    async def serve(self, request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
        stable = request.require_stable
        if context.version >= _BATCHED_FROM:
            answers = await asyncio.gather(
                *(self._group(_of_group(g), stable, context.version, context.access) for g in request.groups)
            )
            return {"groups": answers}
        asked = GroupQuery(
            request.group_id,
            None if request.topics is None else [(t.name, None, t.partition_indexes) for t in request.topics],
        )
        alone = await self._group(asked, stable, context.version, context.access)
        topics: list[OffsetFetchResponseTopic] = [
            {"name": topic["name"], "partitions": topic["partitions"]} for topic in alone["topics"]
        ]
        return {"topics": topics, "error_code": alone["error_code"]}

    async def _group(self, asked: GroupQuery, stable: bool, version: int, access: Access) -> OffsetFetchResponseGroup:
        topics, refused = self._asked_topics(asked, version, access)
        try:
            access.require(Operation.DESCRIBE, ResourceType.GROUP, asked.group_id)
            found = await self.groups.fetch_offsets(
                asked.group_id,
                topics,
                require_stable=stable,
                member_id=asked.member_id,
                member_epoch=asked.member_epoch,
            )
        except Fault as fault:
            return self._failed(asked, fault.code, version)
        if topics is None:
            visible = access.filter(Operation.DESCRIBE, ResourceType.TOPIC, found)
            topics = [(name, list(partitions)) for name, partitions in found.items() if name in visible]
        # Duplicates stay: a request may contain a topic or a partition twice.
        answers = [
            self._topic(name, [(index, found[name][index]) for index in indexes], version) for name, indexes in topics
        ]
        return {"group_id": asked.group_id, "topics": [*answers, *refused], "error_code": ErrorCode.none}

    def _asked_topics(
        self, asked: GroupQuery, version: int, access: Access
    ) -> tuple[list[tuple[str, Sequence[int]]] | None, list[OffsetFetchResponseTopics]]:
        """The names to look up, and the answers for unknown ids and for topics that the client may not see."""
        if asked.topics is None:
            return None, []
        names = self.view.current.topic_names
        by_id = version >= _TOPIC_IDS_FROM
        known: list[tuple[str, Sequence[int]]] = []
        refused: list[OffsetFetchResponseTopics] = []
        for given, topic_id, indexes in asked.topics:
            name = given if not by_id else None if topic_id is None else names.get(topic_id)
            if name is not None and access.may(Operation.DESCRIBE, ResourceType.TOPIC, name):
                known.append((name, indexes))
                continue
            error = ErrorCode.unknown_topic_id if name is None else ErrorCode.topic_authorization_failed
            partitions = [_partition(p, error) for p in indexes]
            refused.append({"name": "" if by_id else given, "topic_id": topic_id, "partitions": partitions})
        return known, refused

    def _topic(self, name: str, partitions: list[tuple[int, FetchedOffset]], version: int) -> OffsetFetchResponseTopics:
        image = self.view.current
        info = image.topics.get(name)
        topic_id = None if info is None else info.id
        gone = image.deleted_topics
        return {
            "name": name,
            "topic_id": topic_id,
            "partitions": [_fetched(index, offset, topic_id, gone, version) for index, offset in partitions],
        }

    def _failed(self, asked: GroupQuery, error: ErrorCode, version: int) -> OffsetFetchResponseGroup:
        answers: list[OffsetFetchResponseTopics] = []
        if version < _TOP_LEVEL_ERROR_FROM:
            # No top-level error: every partition carries it.
            answers = [
                {"name": name, "topic_id": None, "partitions": [_partition(p, error) for p in partitions]}
                for name, _, partitions in asked.topics or ()
            ]
        return {"group_id": asked.group_id, "topics": answers, "error_code": error}


def _fetched(
    index: int, offset: FetchedOffset, topic_id: uuid.UUID | None, gone: Collection[uuid.UUID], version: int
) -> OffsetFetchResponsePartitions:
    value = offset.value
    if value is None:
        return _partition(index, offset.error)
    is_other = version >= _TOPIC_IDS_FROM and value.topic_id is not None and value.topic_id != topic_id
    if is_other or value.topic_id in gone:
        return _partition(index, ErrorCode.none)  # committed for a deleted topic of this name
    return _partition(index, ErrorCode.none, value.offset, value.leader_epoch, value.metadata)


def _partition(
    index: int, error: ErrorCode, offset: int = -1, leader_epoch: int = -1, metadata: str = ""
) -> OffsetFetchResponsePartitions:
    return {
        "partition_index": index,
        "committed_offset": offset,
        "committed_leader_epoch": leader_epoch,
        "metadata": metadata,
        "error_code": error,
    }
