"""DeleteTopics (key 20, versions 1–6): topics by name, or from v6 by id (KIP-516).

v3  TOPIC_DELETION_DISABLED (older versions: INVALID_REQUEST) · v4 flexible · v5 error messages · v6 names or ids
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, ClassVar, Final
from uuid import UUID

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
    from headrace.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse

_UNKNOWN_TOPIC: Final = ErrorCode.unknown_topic_or_partition, "This server does not host this topic-partition."


@dataclass(frozen=True)
class DeleteTopics(Handler):
    gateway: ControllerGateway
    metering: Metering = field(default_factory=Metering)

    api_key: ClassVar[ApiKey] = ApiKey.DELETE_TOPICS
    versions: ClassVar[range] = range(1, 7)
    needs: ClassVar[Needs] = Needs(cluster=Operation.DELETE, topic=(Operation.DESCRIBE, Operation.DELETE))

    async def serve(self, request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
        timeout = millis(request.timeout) / 1000
        if timeout <= 0:
            return self.refuse(request, context, int(ErrorCode.request_timed_out), None)
        answer = await self.gateway.serve(
            request,
            context,
            lambda: self._delete(request, context),
            timeout=timeout,
        )
        names = [str(row["name"]) for row in answer["responses"] if row["name"] and not int(row["error_code"])]
        await self.gateway.view.wait_until(lambda image: not any(n in image.topics for n in names), min(timeout, 0.5))
        return answer

    def refuse(
        self, request: DeleteTopicsRequest, context: RequestContext, error_code: int, message: str | None
    ) -> DeleteTopicsResponse:
        results = [TopicResult(name, ErrorCode(error_code), message, topic_id) for name, topic_id in _asked(request)]
        return {"throttle_time": 0, "responses": [_row(result, context.version) for result in results]}

    async def _delete(self, request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
        asked = _asked(request)
        for name, topic_id in asked:
            if (name is None) == (topic_id is None):
                why = (
                    "You may not specify both topic name and topic id."
                    if name
                    else "Neither topic name nor id were specified."
                )
                return self.refuse(request, context, int(ErrorCode.invalid_request), why)
        allowed, denied = self._authorized(asked, context.access)
        admitted, refused, wait_ms = self.metering.admit_mutations(
            context, ((one, self._partitions(*one)) for one in allowed), strict=context.version >= 5
        )
        results = await self.gateway.controller.delete_topics(admitted)
        results += [TopicResult(name, *EXCEEDED, topic_id) for name, topic_id in refused]
        results += denied
        return {"throttle_time": wait_ms, "responses": [_row(result, context.version) for result in results]}

    def _authorized(
        self, asked: list[tuple[str | None, UUID | None]], access: Access
    ) -> tuple[list[tuple[str | None, UUID | None]], list[TopicResult]]:
        """(topics that may be deleted or are unknown, answers for the others)."""
        if access.may_cluster(Operation.DELETE):
            return asked, []
        names = self.gateway.view.current.topic_names
        allowed: list[tuple[str | None, UUID | None]] = []
        denied: list[TopicResult] = []
        for name, topic_id in asked:
            known = names.get(topic_id) if topic_id is not None else name
            if known is None:
                allowed.append((name, topic_id))
            elif not access.may(Operation.DESCRIBE, ResourceType.TOPIC, known):
                # A client that may not see the topic and gives its id does not learn its name.
                denied.append(TopicResult(name, *DENIED_TOPIC, topic_id))
            elif access.may(Operation.DELETE, ResourceType.TOPIC, known):
                allowed.append((name, topic_id))
            elif known in self.gateway.view.current.topics:
                denied.append(TopicResult(known, *DENIED_TOPIC, topic_id))
            else:
                # Not left to the controller: a request that waits there may create the topic.
                denied.append(TopicResult(name, *_UNKNOWN_TOPIC, topic_id))
        return allowed, denied

    def _partitions(self, name: str | None, topic_id: UUID | None) -> int:
        image = self.gateway.view.current
        topic = image.topics.get(name) if name is not None else image.topic_by_id(topic_id) if topic_id else None
        return len(topic.partitions) if topic is not None else 0


def _asked(request: DeleteTopicsRequest) -> list[tuple[str | None, UUID | None]]:
    """Up to v5 a request has names only; from v6 on it has names and ids in one list."""
    return [(str(name), None) for name in request.topic_names] + [
        (None if t.name is None else str(t.name), t.topic_id) for t in request.topics
    ]


def _row(result: TopicResult, version: int) -> DeletableTopicResult:
    error = result.error
    if error is ErrorCode.topic_deletion_disabled and version < 3:
        error = ErrorCode.invalid_request
    # A client that sends only an unknown id does not get a name.
    return {
        "name": result.name if result.name is not None or version >= 6 else "",
        "topic_id": result.topic_id,
        "error_code": int(error),
        "error_message": result.message,
    }
