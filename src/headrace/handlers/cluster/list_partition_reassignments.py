"""ListPartitionReassignments (key 46, version 0): reassignments in progress (KIP-455), from this broker's image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from headrace.cluster.view import ClusterView
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.security.acl.model import Operation
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.list_partition_reassignments import (
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse,
        OngoingPartitionReassignment,
        OngoingTopicReassignment,
    )


@dataclass(frozen=True)
class ListPartitionReassignments(Handler):
    view: ClusterView

    api_key: ClassVar[ApiKey] = ApiKey.LIST_PARTITION_REASSIGNMENTS
    versions: ClassVar[range] = range(1)
    needs: ClassVar[Needs] = Needs(request=Operation.DESCRIBE)

    def serve(
        self, request: ListPartitionReassignmentsRequest, context: RequestContext
    ) -> ListPartitionReassignmentsResponse:
        image = self.view.current
        if request.topics is None:
            asked: dict[str, Sequence[int]] = {
                name: range(len(topic.partitions)) for name, topic in image.topics.items()
            }
        else:
            asked = {str(topic.name): topic.partition_indexes for topic in request.topics}
        topics: list[OngoingTopicReassignment] = []
        for name, indexes in asked.items():
            rows: list[OngoingPartitionReassignment] = []
            for index in indexes:
                info = image.partition(name, int(index))
                if info is not None and info.is_reassigning:
                    rows.append(
                        {
                            "partition_index": int(index),
                            "replicas": list(info.replicas),
                            "adding_replicas": list(info.adding),
                            "removing_replicas": list(info.removing),
                        }
                    )
            if rows:
                topics.append({"name": name, "partitions": rows})
        return {"throttle_time": 0, "error_code": 0, "error_message": None, "topics": topics}
