"""OffsetDelete (key 47, version 0): forget offsets of topics that a group does not read (KIP-496)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from headrace.cluster.view import ClusterView
from headrace.coordinators.group.coordinator import GroupCoordinator
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse


@dataclass(frozen=True)
class OffsetDelete(Handler):
    groups: GroupCoordinator
    view: ClusterView

    api_key: ClassVar[ApiKey] = ApiKey.OFFSET_DELETE
    versions: ClassVar[range] = range(1)

    async def serve(self, request: OffsetDeleteRequest, context: RequestContext) -> OffsetDeleteResponse:
        image = self.view.current
        asked = [(t.name, [p.partition_index for p in t.partitions]) for t in request.topics]
        try:
            errors = await self.groups.delete_offsets(
                request.group_id,
                [(name, [p for p in partitions if image.partition(name, p)]) for name, partitions in asked],
            )
        except Fault as fault:
            return {"error_code": fault.code, "topics": []}
        unknown = ErrorCode.unknown_topic_or_partition
        return {
            "error_code": ErrorCode.none,
            "topics": [
                {
                    "name": name,
                    "partitions": [
                        {"partition_index": p, "error_code": errors[name].get(p, unknown)} for p in partitions
                    ],
                }
                for name, partitions in asked
                if partitions or name not in image.topics
            ],
        }
