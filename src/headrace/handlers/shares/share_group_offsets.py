"""Offsets of share groups, for administrators (KIP-932, KIP-1226): 90 describe, 91 alter, 92 delete."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from headrace.cluster.core import features
from headrace.cluster.view import ClusterView
from headrace.coordinators.share.administration import ShareAdministration, SharePartitionOffset
from headrace.handlers.dispatch.authorization import DENIED_TOPIC, Access, Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault
from headrace.security.acl.model import Operation, ResourceType
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.alter_share_group_offsets import (
        AlterShareGroupOffsetsRequest,
        AlterShareGroupOffsetsResponse,
    )
    from headrace.wire.messages.delete_share_group_offsets import (
        DeleteShareGroupOffsetsRequest,
        DeleteShareGroupOffsetsResponse,
    )
    from headrace.wire.messages.describe_share_group_offsets import (
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsRequestGroup,
        DescribeShareGroupOffsetsResponse,
        DescribeShareGroupOffsetsResponseGroup,
        DescribeShareGroupOffsetsResponsePartition,
        DescribeShareGroupOffsetsResponseTopic,
    )


_NO_SHARE_PARTITION: Final = ErrorCode.unknown_topic_or_partition


@dataclass(frozen=True)
class DescribeShareGroupOffsets(Handler):
    """Key 90, versions 0–1: v1 lag."""

    shares: ShareAdministration
    view: ClusterView

    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS
    versions: ClassVar[range] = range(2)
    needs: ClassVar[Needs] = Needs(group=Operation.DESCRIBE, topic=Operation.DESCRIBE)

    async def serve(
        self, request: DescribeShareGroupOffsetsRequest, context: RequestContext
    ) -> DescribeShareGroupOffsetsResponse:
        return {"groups": await asyncio.gather(*(self._group(asked, context.access) for asked in request.groups))}

    async def _group(
        self, asked: DescribeShareGroupOffsetsRequestGroup, access: Access
    ) -> DescribeShareGroupOffsetsResponseGroup:
        topics = None if asked.topics is None else [(t.topic_name, t.partitions) for t in asked.topics]
        denied: list[tuple[str, Sequence[int]]] = []
        if topics is not None:
            visible = {t for t, _ in topics if access.may(Operation.DESCRIBE, ResourceType.TOPIC, t)}
            denied = [(topic, partitions) for topic, partitions in topics if topic not in visible]
            topics = [(topic, partitions) for topic, partitions in topics if topic in visible]
        try:
            features.require(self.view.current, features.SHARE_GROUPS)
            access.require(Operation.DESCRIBE, ResourceType.GROUP, asked.group_id)
            found = await self.shares.describe(asked.group_id, topics)
        except Fault as fault:
            return {
                "group_id": asked.group_id,
                "topics": [],
                "error_code": fault.code,
                "error_message": fault.message,
            }
        known = self.view.current.topics
        shown = access.filter(Operation.DESCRIBE, ResourceType.TOPIC, found)
        rows: list[DescribeShareGroupOffsetsResponseTopic] = [
            {
                "topic_name": name,
                "topic_id": known[name].id if name in known else None,
                "partitions": [_offset(each) for each in offsets],
            }
            for name, offsets in found.items()
            if name in shown
        ]
        code, words = DENIED_TOPIC
        for name, indexes in denied:
            hidden = [_offset(SharePartitionOffset(index, error=code, message=words)) for index in indexes]
            rows.append({"topic_name": name, "topic_id": None, "partitions": hidden})
        return {
            "group_id": asked.group_id,
            "topics": rows,
            "error_code": ErrorCode.none,
            "error_message": None,
        }


def _offset(each: SharePartitionOffset) -> DescribeShareGroupOffsetsResponsePartition:
    return {
        "partition_index": each.partition,
        "start_offset": each.start_offset,
        "leader_epoch": each.leader_epoch,
        "lag": each.lag,
        "error_code": each.error,
        "error_message": each.message,
    }


@dataclass(frozen=True)
class AlterShareGroupOffsets(Handler):
    """Key 91, version 0: resets share partitions to given offsets; the group must be empty."""

    shares: ShareAdministration
    view: ClusterView

    api_key: ClassVar[ApiKey] = ApiKey.ALTER_SHARE_GROUP_OFFSETS
    versions: ClassVar[range] = range(1)
    needs: ClassVar[Needs] = Needs(group=Operation.READ, topic=Operation.READ)

    async def serve(
        self, request: AlterShareGroupOffsetsRequest, context: RequestContext
    ) -> AlterShareGroupOffsetsResponse:
        features.require(self.view.current, features.SHARE_GROUPS)
        access = context.access
        access.require(Operation.READ, ResourceType.GROUP, request.group_id)
        asked = {t.topic_name: {p.partition_index: p.start_offset for p in t.partitions} for t in request.topics}
        denied = {topic for topic in asked if not access.may(Operation.READ, ResourceType.TOPIC, topic)}
        errors = dict(await self.shares.alter(request.group_id, {t: p for t, p in asked.items() if t not in denied}))
        errors |= {topic: dict.fromkeys(asked[topic], DENIED_TOPIC[0]) for topic in denied}
        known = self.view.current.topics.keys() - denied
        return {
            "error_code": ErrorCode.none,
            "error_message": None,
            "responses": [
                {
                    "topic_name": name,
                    "topic_id": self.view.current.topics[name].id if name in known else None,
                    "partitions": [
                        {"partition_index": index, "error_code": error, "error_message": None}
                        for index, error in partitions.items()
                    ],
                }
                for name, partitions in errors.items()
            ],
        }


@dataclass(frozen=True)
class DeleteShareGroupOffsets(Handler):
    """Key 92, version 0: deletes the share partitions of topics; the group must be empty."""

    shares: ShareAdministration
    view: ClusterView

    api_key: ClassVar[ApiKey] = ApiKey.DELETE_SHARE_GROUP_OFFSETS
    versions: ClassVar[range] = range(1)
    needs: ClassVar[Needs] = Needs(group=Operation.DELETE, topic=Operation.READ)

    async def serve(
        self, request: DeleteShareGroupOffsetsRequest, context: RequestContext
    ) -> DeleteShareGroupOffsetsResponse:
        features.require(self.view.current, features.SHARE_GROUPS)
        access = context.access
        access.require(Operation.DELETE, ResourceType.GROUP, request.group_id)
        asked = [t.topic_name for t in request.topics]
        denied = {topic for topic in asked if not access.may(Operation.READ, ResourceType.TOPIC, topic)}
        errors = dict(await self.shares.delete(request.group_id, [topic for topic in asked if topic not in denied]))
        errors |= dict.fromkeys(denied, DENIED_TOPIC[0])
        hidden = (_NO_SHARE_PARTITION, DENIED_TOPIC[0])
        known = self.view.current.topics
        return {
            "error_code": ErrorCode.none,
            "error_message": None,
            "responses": [
                {
                    "topic_name": name,
                    "topic_id": known[name].id if name in known and error not in hidden else None,
                    "error_code": error,
                    "error_message": f"the group has no share partitions of topic {name}"
                    if error is _NO_SHARE_PARTITION
                    else None,
                }
                for name, error in errors.items()
            ],
        }
