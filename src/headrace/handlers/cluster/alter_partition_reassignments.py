"""AlterPartitionReassignments (key 45, versions 0–1): move replicas, or cancel moving them (KIP-455).

v1  the caller may forbid a change of the replication factor. A null replica list cancels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from headrace.controller.gateway import ControllerGateway
from headrace.controller.results import PartitionResult
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode
from headrace.kernel.ids import TopicPartition
from headrace.security.acl.model import Operation
from headrace.wire.apis import ApiKey
from headrace.wire.codec import millis

if TYPE_CHECKING:
    from headrace.wire.messages.alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
        ReassignablePartitionResponse,
        ReassignableTopicResponse,
    )


@dataclass(frozen=True)
class AlterPartitionReassignments(Handler):
    gateway: ControllerGateway

    api_key: ClassVar[ApiKey] = ApiKey.ALTER_PARTITION_REASSIGNMENTS
    versions: ClassVar[range] = range(2)
    needs: ClassVar[Needs] = Needs(request=Operation.ALTER)

    async def serve(
        self, request: AlterPartitionReassignmentsRequest, context: RequestContext
    ) -> AlterPartitionReassignmentsResponse:
        if millis(request.timeout) <= 0:
            return _answer(request, {}, ErrorCode.request_timed_out)
        return await self.gateway.serve(
            request,
            context,
            lambda: self._alter(request),
            timeout=millis(request.timeout) / 1000,
        )

    def refuse(
        self, request: AlterPartitionReassignmentsRequest, context: RequestContext, error_code: int, message: str
    ) -> AlterPartitionReassignmentsResponse:
        return _answer(request, {}, ErrorCode(error_code))

    async def _alter(self, request: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
        targets: dict[TopicPartition, Sequence[int] | None] = {}
        for topic in request.topics:
            for partition in topic.partitions:
                replicas = None if partition.replicas is None else tuple(map(int, partition.replicas))
                targets[TopicPartition(str(topic.name), int(partition.partition_index))] = replicas
        allowed = request.allow_replication_factor_change
        results = await self.gateway.controller.alter_reassignments(targets, allow_replication_factor_change=allowed)
        return _answer(request, {result.partition: result for result in results})


def _answer(
    request: AlterPartitionReassignmentsRequest,
    results: Mapping[TopicPartition, PartitionResult],
    otherwise: ErrorCode = ErrorCode.none,
) -> AlterPartitionReassignmentsResponse:
    """A row for each partition of the request, from `results`, else with the top-level code."""
    rows: list[ReassignableTopicResponse] = []
    for topic in request.topics:
        partitions: list[ReassignablePartitionResponse] = []
        for asked in topic.partitions:
            index = int(asked.partition_index)
            result = results.get(TopicPartition(str(topic.name), index))
            code, words = (otherwise, None) if result is None else (result.error, result.message)
            partitions.append({"partition_index": index, "error_code": int(code), "error_message": words})
        rows.append({"name": topic.name, "partitions": partitions})
    return {
        "throttle_time": 0,
        "allow_replication_factor_change": request.allow_replication_factor_change,
        "error_code": int(otherwise),
        "error_message": None if rows else "",
        "responses": rows,
    }
