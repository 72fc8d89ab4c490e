"""CreateTopics (key 19, versions 2–7): new topics, each with its own result.

v2  throttling · v4 defaults for partitions and replication factor by -1 (KIP-464) · v5 flexible, configs in the answer
(KIP-525) · v6 quotas on partition changes · v7 topic ids
Served by the controller; any broker forwards it. A timeout of 0 creates nothing and returns an error, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from typing import TYPE_CHECKING, ClassVar

from headrace.config import BrokerConfig, describe_topic
from headrace.controller.core.topics import NewTopic
from headrace.controller.gateway import ControllerGateway
from headrace.controller.results import TopicResult
from headrace.handlers.dispatch.authorization import DENIED_TOPIC, Access, Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.handlers.dispatch.metering import EXCEEDED, Metering
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode
from headrace.security.acl.model import Operation, ResourceType
from headrace.wire.apis import ApiKey
from headrace.wire.codec import millis

if TYPE_CHECKING:
    from headrace.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse


@dataclass(frozen=True)
class CreateTopics(Handler):
    gateway: ControllerGateway
    config: Callable[[], BrokerConfig]
    metering: Metering = field(default_factory=Metering)

    api_key: ClassVar[ApiKey] = ApiKey.CREATE_TOPICS
    versions: ClassVar[range] = range(2, 8)
    needs: ClassVar[Needs] = Needs(cluster=Operation.CREATE, topic=(Operation.CREATE, Operation.DESCRIBE_CONFIGS))

    async def serve(self, request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
        timeout = millis(request.timeout) / 1000
        if timeout <= 0:
            return self.refuse(request, context, int(ErrorCode.request_timed_out), None)
        answer = await self.gateway.serve(
            request,
            context,
            lambda: self._create(request, context),
            timeout=timeout,
        )
        names = [str(row["name"]) for row in answer["topics"] if not int(row["error_code"])]
        if names and not request.validate_only:
            # Waits for this broker's image, so that the next request to this broker finds the topics.
            await self.gateway.view.wait_until(lambda image: all(n in image.topics for n in names), min(timeout, 0.5))
        return answer

    def refuse(
        self, request: CreateTopicsRequest, context: RequestContext, error_code: int, message: str | None
    ) -> CreateTopicsResponse:
        names = dict.fromkeys(str(topic.name) for topic in request.topics)
        results = [TopicResult(name, ErrorCode(error_code), message) for name in names]
        return {"throttle_time": 0, "topics": [self._row(result, context.access) for result in results]}

    async def _create(self, request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
        asked = [
            NewTopic(
                str(topic.name),
                int(topic.num_partitions),
                int(topic.replication_factor),
                {int(a.partition_index): tuple(map(int, a.broker_ids)) for a in topic.assignments},
                {str(config.name): config.value for config in topic.configs},
                _twice(int(a.partition_index) for a in topic.assignments),
            )
            for topic in request.topics
        ]
        access = context.access
        denied: set[str] = set()
        if not access.may_cluster(Operation.CREATE):
            denied = {new.name for new in asked if not access.may(Operation.CREATE, ResourceType.TOPIC, new.name)}
        sizes = [(new, len(new.assignments) or new.partitions) for new in asked if new.name not in denied]
        default = self.config().num_partitions
        admitted, refused, wait_ms = self.metering.admit_mutations(
            context, ((new, default if size < 1 else size) for new, size in sizes), strict=context.version >= 6
        )
        results = await self.gateway.controller.create_topics(admitted, validate_only=request.validate_only)
        results += [TopicResult(new.name, *EXCEEDED) for new in refused]
        results += [TopicResult(name, *DENIED_TOPIC) for name in denied]
        return {"throttle_time": wait_ms, "topics": [self._row(result, access) for result in results]}

    def _row(self, result: TopicResult, access: Access) -> CreatableTopicResult:
        created = result.topic
        if created is None:
            return {
                "name": result.name or "",
                "topic_id": None,
                "error_code": int(result.error),
                "error_message": result.message,
                "num_partitions": -1,
                "replication_factor": -1,
                "configs": [],
            }
        if not access.filter(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, (created.name,)):
            return {
                "name": created.name,
                "topic_id": created.id,
                "error_code": 0,
                "error_message": None,
                "topic_config_error_code": int(ErrorCode.topic_authorization_failed),
                "num_partitions": -1,
                "replication_factor": -1,
                "configs": [],
            }
        return {
            "name": result.name or "",
            "topic_id": created.id,
            "error_code": 0,
            "error_message": None,
            "num_partitions": len(created.partitions),
            "replication_factor": len(created.partitions[0].replicas),
            "configs": [
                {
                    "name": entry.name,
                    "value": entry.value,
                    "read_only": entry.is_read_only,
                    "config_source": int(entry.source),
                    "is_sensitive": entry.is_sensitive,
                }
                for entry in sorted(describe_topic(self.config(), result.configs), key=lambda entry: entry.name)
            ],
        }


def _twice(indexes: Iterable[int]) -> int | None:
    seen: set[int] = set()
    for index in indexes:
        if index in seen:
            return index
        seen.add(index)
    return None
