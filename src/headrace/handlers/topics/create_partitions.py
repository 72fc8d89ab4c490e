"""CreatePartitions (key 37, versions 0–3): more partitions for existing topics.

v2  flexible · v3 quotas on partition changes. Validate-only and replica assignments for the new partitions are served.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, ClassVar

from headrace.controller.gateway import ControllerGateway
from headrace.controller.results import TopicResult
from headrace.controller.topic_operations import Growth
from headrace.handlers.dispatch.authorization import DENIED_TOPIC, Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.handlers.dispatch.metering import EXCEEDED, Metering
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode
from headrace.security.acl.model import Operation, ResourceType
from headrace.wire.apis import ApiKey
from headrace.wire.codec import millis

if TYPE_CHECKING:
    from headrace.wire.messages.create_partitions import (
        CreatePartitionsRequest,
        CreatePartitionsResponse,
        CreatePartitionsTopicResult,
    )


@dataclass(frozen=True)
class CreatePartitions(Handler):
    gateway: ControllerGateway
    metering: Metering = field(default_factory=Metering)

    api_key: ClassVar[ApiKey] = ApiKey.CREATE_PARTITIONS
    versions: ClassVar[range] = range(4)
    needs: ClassVar[Needs] = Needs(topic=Operation.ALTER)

    async def serve(self, request: CreatePartitionsRequest, context: RequestContext) -> CreatePartitionsResponse:
        timeout = millis(request.timeout) / 1000
        if timeout <= 0:
            return self.refuse(request, context, int(ErrorCode.request_timed_out), None)
        return await self.gateway.serve(
            request,
            context,
            lambda: self._create(request, context),
            timeout=timeout,
        )

    def refuse(
        self, request: CreatePartitionsRequest, context: RequestContext, error_code: int, message: str | None
    ) -> CreatePartitionsResponse:
        names = dict.fromkeys(str(topic.name) for topic in request.topics)
        rows: list[CreatePartitionsTopicResult] = [
            {"name": name, "error_code": error_code, "error_message": message} for name in names
        ]
        return {"throttle_time": 0, "results": rows}

    async def _create(self, request: CreatePartitionsRequest, context: RequestContext) -> CreatePartitionsResponse:
        growths = [
            Growth(
                str(topic.name),
                int(topic.count),
                None if topic.assignments is None else [tuple(map(int, a.broker_ids)) for a in topic.assignments],
            )
            for topic in request.topics
        ]
        may = context.access.may
        denied = {growth.name for growth in growths if not may(Operation.ALTER, ResourceType.TOPIC, growth.name)}
        allowed = [growth for growth in growths if growth.name not in denied]
        admitted, refused, wait_ms = self.metering.admit_mutations(
            context, ((growth, self._added(growth)) for growth in allowed), strict=context.version >= 3
        )
        results = await self.gateway.controller.create_partitions(admitted, validate_only=request.validate_only)
        results += [TopicResult(growth.name, *EXCEEDED) for growth in refused]
        results += [TopicResult(name, *DENIED_TOPIC) for name in denied]
        return {
            "throttle_time": wait_ms,
            "results": [
                {"name": result.name or "", "error_code": int(result.error), "error_message": result.message}
                for result in results
            ],
        }

    def _added(self, growth: Growth) -> int:
        topic = self.gateway.view.current.topics.get(growth.name)
        return max(growth.count - len(topic.partitions), 0) if topic is not None else 0
