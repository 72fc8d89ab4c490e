"""OffsetDelete (key 47, version 0): deletes offsets of topics that a group does not subscribe to (KIP-496)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from headrace.cluster.view import ClusterView
from headrace.coordinators.group.coordinator import GroupCoordinator
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault
from headrace.security.acl.model import Operation, ResourceType
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse


@dataclass(frozen=True)
class OffsetDelete(Handler):
    groups: GroupCoordinator
    view: ClusterView

    api_key: ClassVar[ApiKey] = ApiKey.OFFSET_DELETE
    versions: ClassVar[range] = range(1)
    needs: ClassVar[Needs] = Needs(group=Operation.DELETE, topic=Operation.READ)

    async def serve(self, request: OffsetDeleteRequest, context: RequestContext) -> OffsetDeleteResponse:
        image, access = self.view.current, context.access
        asked = [(t.name, [p.partition_index for p in t.partitions]) for t in request.topics]
        may_read = {name: access.may(Operation.READ, ResourceType.TOPIC, name) for name, _ in asked}
        try:
            access.require(Operation.DELETE, ResourceType.GROUP, request.group_id)
            errors = await self.groups.delete_offsets(
                request.group_id,
                [
                    (name, [p for p in partitions if may_read[name] and image.partition(name, p)])
                    for name, partitions in asked
                ],
            )
        except Fault as fault:
            return {"error_code": fault.code, "topics": []}
        otherwise = {
            name: ErrorCode.unknown_topic_or_partition if allowed else ErrorCode.topic_authorization_failed
            for name, allowed in may_read.items()
        }
        return {
            "error_code": ErrorCode.none,
            "topics": [
                {
                    "name": name,
                    "partitions": [
                        {"partition_index": p, "error_code": errors[name].get(p, otherwise[name])} for p in partitions
                    ],
                }
                for name, partitions in asked
                if partitions or name not in image.topics
            ],
        }
