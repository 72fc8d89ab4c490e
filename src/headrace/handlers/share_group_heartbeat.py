"""ShareGroupHeartbeat (key 76, version 1): members of share groups (KIP-932). Epoch 0 joins, -1 leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from headrace.coordinators.group.coordinator import GroupCoordinator
from headrace.coordinators.group.core.heartbeat_messages import ShareHeartbeatRequest
from headrace.handlers.context import RequestContext
from headrace.kernel.errors import ErrorCode, Fault


@dataclass(frozen=True)
class ShareGroupHeartbeat:
    groups: GroupCoordinator

    api_key: ClassVar[int] = 76
    versions: ClassVar[range] = range(1, 2)

    async def __call__(self, request: Any, context: RequestContext) -> dict[str, Any]:
        try:
            return await self._beat(request, context)
        except Fault as fault:
            return {
                "error_code": fault.code,
                "error_message": fault.message,
                "member_id": None,
                "member_epoch": 0,
                "heartbeat_interval": 0,
                "assignment": None,
            }

    async def _beat(self, request: Any, context: RequestContext) -> dict[str, Any]:
        reply = await self.groups.share_heartbeat(
            ShareHeartbeatRequest(
                request.group_id,
                request.member_id,
                request.member_epoch,
                context.client_id or "",
                f"/{context.peer_host}",
                request.rack_id,
                request.subscribed_topic_names,
            )
        )
        assignment = None
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
