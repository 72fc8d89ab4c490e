"""ShareGroupDescribe (key 77, version 1): share groups with their members (KIP-932)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from headrace.cluster.core import features
from headrace.cluster.view import ClusterView
from headrace.coordinators.group.coordinator import GroupCoordinator
from headrace.coordinators.group.core.share.group import ShareGroup, ShareMember
from headrace.handlers.dispatch.authorization import NOT_ASKED, Access, Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.handlers.groups.described_topics import require_topics
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault
from headrace.security.acl.model import Operation, ResourceType
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.share_group_describe import (
        DescribedGroup,
        Member,
        ShareGroupDescribeRequest,
        ShareGroupDescribeResponse,
    )


@dataclass(frozen=True)
class ShareGroupDescribe(Handler):
    groups: GroupCoordinator
    view: ClusterView

    api_key: ClassVar[ApiKey] = ApiKey.SHARE_GROUP_DESCRIBE
    versions: ClassVar[range] = range(1, 2)
    needs: ClassVar[Needs] = Needs(group=Operation.DESCRIBE, topic=Operation.DESCRIBE)

    async def serve(self, request: ShareGroupDescribeRequest, context: RequestContext) -> ShareGroupDescribeResponse:
        asks, access = request.include_authorized_operations, context.access
        described = (self._describe(g, access, asks_operations=asks) for g in request.group_ids)
        return {"groups": await asyncio.gather(*described)}

    async def _describe(self, group_id: str, access: Access, *, asks_operations: bool) -> DescribedGroup:
        try:
            access.require(Operation.DESCRIBE, ResourceType.GROUP, group_id)
            features.require(self.view.current, features.SHARE_GROUPS)
            group = await self.groups.share_group(group_id)
            require_topics(access, self._topics(group))
        except Fault as fault:
            return {
                "error_code": fault.code,
                "error_message": fault.message,
                "group_id": group_id,
                "group_state": "",
                "group_epoch": 0,
                "assignment_epoch": 0,
                "assignor_name": "",
                "members": [],
                "authorized_operations": NOT_ASKED,
            }
        return {
            "error_code": ErrorCode.none,
            "error_message": None,
            "group_id": group_id,
            "group_state": group.state_name,
            "group_epoch": group.epoch,
            "assignment_epoch": group.assignment_epoch,
            "assignor_name": "simple",
            "members": [self._member(member, group) for member in group.members.values()],
            "authorized_operations": access.operations(ResourceType.GROUP, group_id) if asks_operations else NOT_ASKED,
        }

    def _topics(self, group: ShareGroup) -> set[str]:
        """The topics that the description shows."""
        names = self.view.current.topic_names
        members = group.members.values()
        return {names[topic_id] for member in members for topic_id in member.assigned if topic_id in names}

    def _member(self, member: ShareMember, group: ShareGroup) -> Member:
        names = self.view.current.topic_names
        return {
            "member_id": member.member_id,
            "rack_id": member.about.rack_id,
            "member_epoch": member.epoch,
            "client_id": member.about.client_id,
            "client_host": member.about.client_host,
            "subscribed_topic_names": member.about.topic_names,
            "assignment": {
                "topic_partitions": [
                    {"topic_id": topic_id, "topic_name": names[topic_id], "partitions": sorted(indexes)}
                    for topic_id, indexes in member.assigned.items()
                    if topic_id in names
                ]
            },
        }
