"""Heartbeats of share groups: the group coordinator keeps the members, `initializer` handles their share partitions.

Owned by the event loop.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.coordinators.group.coordinator import GroupCoordinator
from headrace.coordinators.group.core.heartbeat_messages import HeartbeatReply, ShareHeartbeatRequest
from headrace.coordinators.share.initializer import ShareInitializer


class ShareMembership:
    def __init__(self, groups: GroupCoordinator, initializer: ShareInitializer) -> None:
        self._groups = groups
        self._initializer = initializer

    async def heartbeat(self, request: ShareHeartbeatRequest) -> HeartbeatReply:
        reply = await self._groups.share_heartbeat(request)
        joins = request.epoch == 0
        if request.epoch < 0 or not await self._initializer.begin(request.group_id, waits=joins):
            return reply
        # In Kafka a joining member gets its partitions with a later heartbeat. Headrace answers the first with them.
        later = await self._groups.share_heartbeat(replace(request, epoch=reply.epoch, topic_names=None))
        return later if later.assignment is not None else replace(later, assignment=reply.assignment)
