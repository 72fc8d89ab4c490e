"""ConsumerGroupDescribe (key 69, versions 0–1): groups of the new protocol (KIP-848). v1 member type."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar

from headrace.cluster.view import ClusterView
from headrace.coordinators.group.coordinator import GroupCoordinator
from headrace.coordinators.group.core.consumer.group import ConsumerGroup, ConsumerMember
from headrace.handlers.dispatch.authorization import NOT_ASKED, Access, Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.handlers.groups.described_topics import require_topics
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault
from headrace.security.acl.model import Operation, ResourceType
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.consumer_group_describe import (
        Assignment,
        ConsumerGroupDescribeRequest,
        ConsumerGroupDescribeResponse,
        DescribedGroup,
        Member,
    )


@dataclass(frozen=True)
class ConsumerGroupDescribe(Handler):
    groups: GroupCoordinator
    view: ClusterView

    api_key: ClassVar[ApiKey] = ApiKey.CONSUMER_GROUP_DESCRIBE
    versions: ClassVar[range] = range(2)
    needs: ClassVar[Needs] = Needs(group=Operation.DESCRIBE, topic=Operation.DESCRIBE)

    async def serve(
        self, request: ConsumerGroupDescribeRequest, context: RequestContext
    ) -> ConsumerGroupDescribeResponse:
        asks, access = request.include_authorized_operations, context.access
        described = (self._describe(g, access, asks_operations=asks) for g in request.group_ids)
        return {"groups": await asyncio.gather(*described)}

    async def _describe(self, group_id: str, access: Access, *, asks_operations: bool) -> DescribedGroup:
        try:
            access.require(Operation.DESCRIBE, ResourceType.GROUP, group_id)
            group = await self.groups.describe_consumer(group_id)
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
            "group_id": group.group_id,
            "group_state": group.state_name,
            "group_epoch": group.epoch,
            "assignment_epoch": group.assignment_epoch,
            "assignor_name": group.shown_assignor(self.groups.settings.consumer_assignors[0]),
            "members": [self._member(member, group) for member in group.members.values()],
            "authorized_operations": access.operations(ResourceType.GROUP, group_id) if asks_operations else NOT_ASKED,
        }

    def _topics(self, group: ConsumerGroup) -> set[str]:
        """The topics that the description shows."""
        names = self.view.current.topic_names
        shown = [_held(member) for member in group.members.values()] + list(group.target.values())
        return {names[topic_id] for assignment in shown for topic_id in assignment if topic_id in names}

    def _member(self, member: ConsumerMember, group: ConsumerGroup) -> Member:
        about = member.about
        return {
            "member_id": member.member_id,
            "instance_id": about.instance_id,
            "rack_id": about.rack_id,
            "member_epoch": member.epoch,
            "client_id": about.client_id,
            "client_host": about.client_host,
            "subscribed_topic_names": about.topic_names,
            "subscribed_topic_regex": about.topic_regex or "",
            "assignment": self._assignment(_held(member)),
            "target_assignment": self._assignment(group.target.get(member.member_id, {})),
            "member_type": 0 if member.uses_classic_protocol else 1,
        }

    def _assignment(self, partitions: Mapping[uuid.UUID, Iterable[int]]) -> Assignment:
        names = self.view.current.topic_names
        return {
            "topic_partitions": [
                {"topic_id": topic_id, "topic_name": names[topic_id], "partitions": sorted(indexes)}
                for topic_id, indexes in partitions.items()
                if topic_id in names
            ]
        }


def _held(member: ConsumerMember) -> dict[uuid.UUID, set[int]]:
    """The partitions that the member holds, including those it must still revoke."""
    held: dict[uuid.UUID, set[int]] = {}
    for partitions in (member.assigned, member.pending_revocation):
        for topic_id, indexes in partitions.items():
            held.setdefault(topic_id, set()).update(indexes)
    return held
