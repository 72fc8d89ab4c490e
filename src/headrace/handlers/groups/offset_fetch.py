"""OffsetFetch (key 9, versions 1–10): how far a group has come.

v2 all topics (null), top-level error · v5 leader epoch · v6 flexible · v7 require stable (KIP-447) · v8 several groups
(KIP-709) · v9 members of consumer groups · v10 topic ids instead of names
A group that nobody knows has committed nothing, and that is not an error: offset -1 for each partition.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from headrace.cluster.view import ClusterView
from headrace.coordinators.group.coordinator import GroupCoordinator
from headrace.coordinators.group.core.offsets.requests import FetchedOffset
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault
from headrace.wire.apis import ApiKey

_TOP_LEVEL_ERROR_FROM: Final = 2
_BATCHED_FROM: Final = 8
_TOPIC_IDS_FROM: Final = 10


@dataclass(frozen=True)
class OffsetFetch(Handler):
    groups: GroupCoordinator
    view: ClusterView

    api_key: ClassVar[ApiKey] = ApiKey.OFFSET_FETCH
    versions: ClassVar[range] = range(1, 11)

    async def serve(self, request: Any, context: RequestContext) -> dict[str, Any]:
        stable = getattr(request, "require_stable", False)
        if context.version >= _BATCHED_FROM:
            answers = await asyncio.gather(*(self._group(g, stable, context.version) for g in request.groups))
            return {"groups": answers}
        return await self._group(request, stable, context.version)

    async def _group(self, asked: Any, stable: bool, version: int) -> dict[str, Any]:
        topics, unknown = self._asked_topics(asked, version)
        try:
            found = await self.groups.fetch_offsets(
                asked.group_id,
                topics,
                require_stable=stable,
                member_id=getattr(asked, "member_id", None),
                member_epoch=getattr(asked, "member_epoch", -1),
            )
        except Fault as fault:
            return self._failed(asked, topics, fault.code, version)
        if topics is None:
            topics = [(name, list(partitions)) for name, partitions in found.items()]
        # As often as it was asked for: a topic, or a partition, may be named twice.
        answers = [
            self._topic(name, [(index, found[name][index]) for index in indexes], version) for name, indexes in topics
        ]
        return {"group_id": asked.group_id, "topics": [*answers, *unknown], "error_code": ErrorCode.none}

    def _asked_topics(
        self, asked: Any, version: int
    ) -> tuple[list[tuple[str, Sequence[int]]] | None, list[dict[str, Any]]]:
        """What to look up by name, and the answers for ids that no topic has."""
        if asked.topics is None:
            return None, []
        if version < _TOPIC_IDS_FROM:
            return [(topic.name, topic.partition_indexes) for topic in asked.topics], []
        names = self.view.current.topic_names
        known: list[tuple[str, Sequence[int]]] = []
        unknown: list[dict[str, Any]] = []
        for topic in asked.topics:
            name = names.get(topic.topic_id)
            if name is not None:
                known.append((name, topic.partition_indexes))
                continue
            partitions = [_partition(p, ErrorCode.unknown_topic_id) for p in topic.partition_indexes]
            unknown.append({"name": "", "topic_id": topic.topic_id, "partitions": partitions})
        return known, unknown

    def _topic(self, name: str, partitions: list[tuple[int, FetchedOffset]], version: int) -> dict[str, Any]:
        info = self.view.current.topics.get(name)
        topic_id = None if info is None else info.id
        return {
            "name": name,
            "topic_id": topic_id,
            "partitions": [_fetched(index, offset, topic_id, version) for index, offset in partitions],
        }

    def _failed(
        self, asked: Any, topics: list[tuple[str, Sequence[int]]] | None, error: ErrorCode, version: int
    ) -> dict[str, Any]:
        answers: list[dict[str, Any]] = []
        if version < _TOP_LEVEL_ERROR_FROM:
            # No place at the top: every partition says it.
            answers = [
                {"name": name, "topic_id": None, "partitions": [_partition(p, error) for p in partitions]}
                for name, partitions in topics or ()
            ]
        return {"group_id": asked.group_id, "topics": answers, "error_code": error}


def _fetched(index: int, offset: FetchedOffset, topic_id: uuid.UUID | None, version: int) -> dict[str, Any]:
    value = offset.value
    if value is None:
        return _partition(index, offset.error)
    if version >= _TOPIC_IDS_FROM and value.topic_id is not None and value.topic_id != topic_id:
        return _partition(index, ErrorCode.none)  # committed for a topic of this name that is gone
    return _partition(index, ErrorCode.none, value.offset, value.leader_epoch, value.metadata)


def _partition(
    index: int, error: ErrorCode, offset: int = -1, leader_epoch: int = -1, metadata: str = ""
) -> dict[str, Any]:
    return {
        "partition_index": index,
        "committed_offset": offset,
        "committed_leader_epoch": leader_epoch,
        "metadata": metadata,
        "error_code": error,
    }
