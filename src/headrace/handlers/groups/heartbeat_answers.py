"""Common part of the heartbeats of consumer and share groups: the rights of a member, and the answer's fields."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING

from headrace.coordinators.group.core.heartbeat_messages import HeartbeatReply
from headrace.handlers.dispatch.authorization import Access
from headrace.kernel.errors import ErrorCode, Fault
from headrace.security.acl.model import Operation, ResourceType

if TYPE_CHECKING:
    from headrace.wire.messages.consumer_group_heartbeat import Assignment, ConsumerGroupHeartbeatResponse


def require_member(access: Access, group_id: str, topics: Iterable[str] | None) -> None:
    """Raises Refused unless the client may be a member of the group that subscribes to these topics."""
    access.require(Operation.READ, ResourceType.GROUP, group_id)
    for topic in topics or ():
        access.require(Operation.DESCRIBE, ResourceType.TOPIC, topic)


async def heartbeat_answer(beat: Awaitable[HeartbeatReply]) -> ConsumerGroupHeartbeatResponse:
    try:
        reply = await beat
    except Fault as fault:
        return {
            "error_code": fault.code,
            "error_message": fault.message,
            "member_id": None,
            "member_epoch": 0,
            "heartbeat_interval": 0,
            "assignment": None,
        }
    assignment: Assignment | None = None
    if reply.assignment is not None:
        assignment = {
            "topic_partitions": [
                {"topic_id": topic_id, "partitions": sorted(partitions)}
                for topic_id, partitions in reply.assignment.items()
            ]
        }
    return {
        "error_code": ErrorCode.none,
        "error_message": None,
        "member_id": reply.member_id,
        "member_epoch": reply.epoch,
        "heartbeat_interval": reply.heartbeat_interval_ms,
        "assignment": assignment,
    }
