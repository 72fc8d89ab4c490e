"""Where share groups stand, for administrators (KIP-932, KIP-1226): 90 describe, 91 alter, 92 delete."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar, Final

from headrace.cluster.core import features
from headrace.cluster.view import ClusterView
from headrace.coordinators.share.administration import QueueOffset, ShareAdministration
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault
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
    )


_NO_QUEUE: Final = ErrorCode.unknown_topic_or_partition


@dataclass(frozen=True)
class DescribeShareGroupOffsets(Handler):
    """Key 90, versions 0–1: v1 lag."""

    shares: ShareAdministration
    view: ClusterView

    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS
    versions: ClassVar[range] = range(2)

    async def serve(
        self, request: DescribeShareGroupOffsetsRequest, context: RequestContext
    ) -> DescribeShareGroupOffsetsResponse:
        return {"groups": await asyncio.gather(*map(self._group, request.groups))}

    async def _group(self, asked: DescribeShareGroupOffsetsRequestGroup) -> DescribeShareGroupOffsetsResponseGroup:
        topics = None if asked.topics is None else [(t.topic_name, t.partitions) for t in asked.topics]
        try:
            features.require(self.view.current, features.SHARE_GROUPS)
            found = await self.shares.describe(asked.group_id, topics)
        except Fault as fault:
            return {
                "group_id": asked.group_id,
                "topics": [],
                "error_code": fault.code,
                "error_message": fault.message,
            }
        known = self.view.current.topics
        return {
            "group_id": asked.group_id,
            "topics": [
                {
                    "topic_name": name,
                    "topic_id": known[name].id if name in known else None,
                    "partitions": [_offset(each) for each in offsets],
                }
                for name, offsets in found.items()
            ],
            "error_code": ErrorCode.none,
            "error_message": None,
        }


def _offset(each: QueueOffset) -> DescribeShareGroupOffsetsResponsePartition:
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
    """Key 91, version 0: queues begin anew somewhere else; the group must be empty."""

    shares: ShareAdministration
    view: ClusterView

    api_key: ClassVar[ApiKey] = ApiKey.ALTER_SHARE_GROUP_OFFSETS
    versions: ClassVar[range] = range(1)

    async def serve(
        self, request: AlterShareGroupOffsetsRequest, context: RequestContext
    ) -> AlterShareGroupOffsetsResponse:
        features.require(self.view.current, features.SHARE_GROUPS)
        asked = {t.topic_name: {p.partition_index: p.start_offset for p in t.partitions} for t in request.topics}
        errors = await self.shares.alter(request.group_id, asked)
        known = self.view.current.topics
        return {
            "error_code": ErrorCode.none,
            "error_message": None,
            "responses": [
                {
                    "topic_name": name,
                    "topic_id": known[name].id if name in known else None,
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
    """Key 92, version 0: queues of topics go; the group must be empty."""

    shares: ShareAdministration
    view: ClusterView

    api_key: ClassVar[ApiKey] = ApiKey.DELETE_SHARE_GROUP_OFFSETS
    versions: ClassVar[range] = range(1)

    async def serve(
        self, request: DeleteShareGroupOffsetsRequest, context: RequestContext
    ) -> DeleteShareGroupOffsetsResponse:
        features.require(self.view.current, features.SHARE_GROUPS)
        errors = await self.shares.delete(request.group_id, [t.topic_name for t in request.topics])
        known = self.view.current.topics
        return {
            "error_code": ErrorCode.none,
            "error_message": None,
            "responses": [
                {
                    "topic_name": name,
                    "topic_id": known[name].id if name in known and error is not _NO_QUEUE else None,
                    "error_code": error,
                    "error_message": f"the group has no queues of topic {name}" if error is _NO_QUEUE else None,
                }
                for name, error in errors.items()
            ],
        }
