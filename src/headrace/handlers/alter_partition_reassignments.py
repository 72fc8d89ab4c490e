"""AlterPartitionReassignments (key 45, versions 0–1): move replicas, or cancel moving them (KIP-455).

v1  the caller may forbid a change of the replication factor. A null replica list cancels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from headrace.controller.gateway import ControllerGateway
from headrace.controller.results import PartitionResult
from headrace.handlers.context import RequestContext
from headrace.kernel.ids import TopicPartition
from headrace.wire.codec import millis


@dataclass(frozen=True)
class AlterPartitionReassignments:
    gateway: ControllerGateway

    api_key: ClassVar[int] = 45
    versions: ClassVar[range] = range(2)

    async def __call__(self, request: Any, context: RequestContext) -> Any:
        return await self.gateway.serve(
            request,
            context.header,
            context.principal,
            context.peer_host,
            lambda: self._alter(request),
            timeout=max(0.05, millis(request.timeout) / 1000),
        )

    async def _alter(self, request: Any) -> dict[str, Any]:
        targets: dict[TopicPartition, Sequence[int] | None] = {}
        for topic in request.topics:
            for partition in topic.partitions:
                replicas = None if partition.replicas is None else tuple(map(int, partition.replicas))
                targets[TopicPartition(str(topic.name), int(partition.partition_index))] = replicas
        allowed = bool(getattr(request, "allow_replication_factor_change", True))
        results = await self.gateway.controller.alter_reassignments(targets, allow_replication_factor_change=allowed)
        return {
            "throttle_time": 0,
            "allow_replication_factor_change": allowed,
            "error_code": 0,
            "error_message": None,
            "responses": _rows(results),
        }


def _rows(results: Sequence[PartitionResult]) -> list[dict[str, Any]]:
    topics: dict[str, list[dict[str, Any]]] = {}
    for result in results:
        topics.setdefault(result.partition.topic, []).append(
            {
                "partition_index": result.partition.partition,
                "error_code": int(result.error),
                "error_message": result.message,
            }
        )
    return [{"name": topic, "partitions": rows} for topic, rows in topics.items()]
