"""DescribeTopicPartitions (key 75, version 0): topics page by page, with eligible leader replicas (KIP-966)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar
from uuid import UUID

from headrace.cluster.view import ClusterView
from headrace.handlers.dispatch.authorization import NOT_ASKED, Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.handlers.topics.partition_states import partition_state
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Refused
from headrace.kernel.ids import INTERNAL_TOPICS, topic_name_problem
from headrace.security.acl.model import Operation, ResourceType
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.describe_topic_partitions import (
        DescribeTopicPartitionsRequest,
        DescribeTopicPartitionsResponse,
        DescribeTopicPartitionsResponsePartition,
        DescribeTopicPartitionsResponseTopic,
    )


@dataclass(frozen=True)
class DescribeTopicPartitions(Handler):
    view: ClusterView
    partition_limit: int = 2000

    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_TOPIC_PARTITIONS
    versions: ClassVar[range] = range(1)
    needs: ClassVar[Needs] = Needs(topic=Operation.DESCRIBE)

    def serve(
        self, request: DescribeTopicPartitionsRequest, context: RequestContext
    ) -> DescribeTopicPartitionsResponse:
        image, access = self.view.current, context.access
        cursor = request.cursor
        asked = {topic.name for topic in request.topics}
        visible = access.filter(Operation.DESCRIBE, ResourceType.TOPIC, asked or image.topics)
        names = sorted(asked or visible)
        first_partition = 0
        if cursor is not None:
            if cursor.partition_index < 0:
                raise Refused(
                    ErrorCode.invalid_request, f"cursor at partition {cursor.partition_index}: must be 0 or more"
                )
            if request.topics and cursor.topic_name not in names:
                raise Refused(
                    ErrorCode.invalid_request, f"cursor at topic '{cursor.topic_name}': not among the topics asked for"
                )
            names = [name for name in names if name >= cursor.topic_name]
            if names and names[0] == cursor.topic_name:
                first_partition = cursor.partition_index
        left = max(1, min(request.response_partition_limit, self.partition_limit))
        topics: list[DescribeTopicPartitionsResponseTopic] = []
        for name in names:
            info = image.topics.get(name)
            if name not in visible:
                topics.append(_topic(name, None, int(ErrorCode.topic_authorization_failed), False, [], NOT_ASKED))
                continue
            operations = access.operations(ResourceType.TOPIC, name)
            if info is None:
                problem = topic_name_problem(name)
                code = ErrorCode.unknown_topic_or_partition if problem is None else ErrorCode.invalid_topic_exception
                topics.append(_topic(name, None, int(code), name in INTERNAL_TOPICS, [], operations))
                continue
            if left <= 0:
                return {"topics": topics, "next_cursor": {"topic_name": name, "partition_index": 0}}
            shown = info.partitions[first_partition : first_partition + left]
            states = [
                partition_state(image, first_partition + at, one, context.listener) for at, one in enumerate(shown)
            ]
            for state in states:
                state["error_code"] = 0
            topics.append(_topic(name, info.id, 0, info.is_internal, states, operations))
            left -= len(shown)
            stopped_at = first_partition + len(shown)
            if stopped_at < len(info.partitions):
                return {"topics": topics, "next_cursor": {"topic_name": name, "partition_index": stopped_at}}
            first_partition = 0
        return {"topics": topics, "next_cursor": None}

    def refuse(
        self, request: DescribeTopicPartitionsRequest, context: RequestContext, error_code: int, message: str
    ) -> DescribeTopicPartitionsResponse:
        topics = [_topic(topic.name, None, error_code, False, [], NOT_ASKED) for topic in request.topics]
        return {"topics": topics, "next_cursor": None}


def _topic(
    name: str,
    topic_id: UUID | None,
    error_code: int,
    is_internal: bool,
    partitions: list[DescribeTopicPartitionsResponsePartition],
    operations: int,
) -> DescribeTopicPartitionsResponseTopic:
    return {
        "error_code": error_code,
        "name": name,
        "topic_id": topic_id,
        "is_internal": is_internal,
        "partitions": partitions,
        "topic_authorized_operations": operations,
    }
