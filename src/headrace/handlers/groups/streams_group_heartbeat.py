"""StreamsGroupHeartbeat (key 88, version 0): members of a Kafka Streams application (KIP-1071).

Epoch 0 joins and brings the topology, -1 leaves. The broker creates the internal topics of the application with the
rights of the member: CREATE on the cluster or on each topic. Kafka 4.3 has no static members, warm-up tasks and regular
expressions in topologies yet; such a request gets INVALID_REQUEST.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from headrace.coordinators.codec.streams_groups import Endpoint
from headrace.coordinators.codec.streams_topology import (
    CopartitionGroup,
    InternalTopicInfo,
    StreamsTopology,
    Subtopology,
)
from headrace.coordinators.group.coordinator import GroupCoordinator
from headrace.coordinators.group.core.streams.endpoints import EndpointPartitions
from headrace.coordinators.group.core.streams.messages import StreamsHeartbeatReply, StreamsHeartbeatRequest
from headrace.coordinators.group.core.streams.partition_counts import StatusCode
from headrace.handlers.dispatch.authorization import Access, Needs, denied
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.handlers.groups.streams_internal_topics import StreamsInternalTopics
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.kernel.ids import INTERNAL_TOPICS, topic_name_problem
from headrace.security.acl.model import Operation, ResourceType
from headrace.wire.apis import ApiKey
from headrace.wire.codec import millis

if TYPE_CHECKING:
    from headrace.wire.messages import streams_group_heartbeat as wire


@dataclass(frozen=True)
class StreamsGroupHeartbeat(Handler):
    groups: GroupCoordinator
    internal_topics: StreamsInternalTopics

    api_key: ClassVar[ApiKey] = ApiKey.STREAMS_GROUP_HEARTBEAT
    versions: ClassVar[range] = range(1)
    needs: ClassVar[Needs] = Needs(
        group=Operation.READ, topic=(Operation.DESCRIBE, Operation.CREATE), cluster=Operation.CREATE
    )

    async def serve(
        self, request: wire.StreamsGroupHeartbeatRequest, context: RequestContext
    ) -> wire.StreamsGroupHeartbeatResponse:
        try:
            reply = await self._beat(request, context)
        except Fault as fault:
            return _answer(StreamsHeartbeatReply("", 0), fault.code, fault.message)
        return _answer(reply)

    async def _beat(self, request: wire.StreamsGroupHeartbeatRequest, context: RequestContext) -> StreamsHeartbeatReply:
        access = context.access
        self.groups.require_streams()
        access.require(Operation.READ, ResourceType.GROUP, request.group_id)
        topology = None if request.topology is None else _topology(request.topology)
        if topology is not None:
            _check_topics(topology, access)
        endpoint = request.user_endpoint
        tags = request.client_tags
        reply = await self.groups.streams_heartbeat(
            StreamsHeartbeatRequest(
                request.group_id,
                request.member_id,
                request.member_epoch,
                context.client_id or "",
                f"/{context.peer_host}",
                request.endpoint_information_epoch,
                request.instance_id,
                request.rack_id,
                millis(request.rebalance_timeout),
                topology,
                _task_ids(request.active_tasks),
                _task_ids(request.standby_tasks),
                _task_ids(request.warmup_tasks),
                request.process_id,
                None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
                None if tags is None else tuple((tag.key, tag.value) for tag in tags),
                reports_task_offsets=request.task_offsets is not None,
                reports_task_end_offsets=request.task_end_offsets is not None,
                shutdown_application=request.shutdown_application,
            )
        )
        return self._create_topics(reply, access) if reply.missing_topics else reply

    def _create_topics(self, reply: StreamsHeartbeatReply, access: Access) -> StreamsHeartbeatReply:
        """Begins the creation of missing internal topics. The status of the answer says what prevents it."""
        missing = reply.missing_topics or {}
        if not access.may_cluster(Operation.CREATE):
            denied_names = [name for name in missing if not access.may(Operation.CREATE, ResourceType.TOPIC, name)]
            if denied_names:
                return _explained(reply, f"Unauthorized to CREATE on topics {', '.join(denied_names)}.")
        self.internal_topics.begin(missing, 2 * reply.heartbeat_interval_ms)
        errors = self.internal_topics.errors_of(missing)
        return _explained(reply, f"Creation failed: {errors}.") if errors else reply


def _explained(reply: StreamsHeartbeatReply, reason: str) -> StreamsHeartbeatReply:
    statuses = tuple(
        (code, f"{detail}; {reason}" if code is StatusCode.MISSING_INTERNAL_TOPICS else detail)
        for code, detail in reply.statuses
    )
    return StreamsHeartbeatReply(
        reply.member_id,
        reply.epoch,
        reply.heartbeat_interval_ms,
        statuses,
        reply.assigned,
        reply.endpoint_epoch,
        reply.endpoints,
        reply.missing_topics,
    )


def _check_topics(topology: StreamsTopology, access: Access) -> None:
    """Raises STREAMS_INVALID_TOPOLOGY for names that no application may use, TOPIC_AUTHORIZATION_FAILED."""
    names = list(
        dict.fromkeys(
            topic
            for each in topology.subtopologies
            for topic in (
                *each.source_topics,
                *each.repartition_sink_topics,
                *(info.name for info in each.repartition_source_topics),
                *(info.name for info in each.changelog_topics),
            )
        )
    )
    if prohibited := [name for name in names if name in INTERNAL_TOPICS]:
        raise Refused(
            ErrorCode.streams_invalid_topology,
            f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is prohibited.",
        )
    if invalid := [name for name in names if topic_name_problem(name) is not None]:
        raise Refused(ErrorCode.streams_invalid_topology, f"Topic names {','.join(invalid)} are not valid topic names.")
    if not all(access.may(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in names):
        raise denied(ResourceType.TOPIC)


def _topology(topology: wire.Topology) -> StreamsTopology:
    return StreamsTopology(
        topology.epoch,
        [
            Subtopology(
                each.subtopology_id,
                tuple(each.source_topics),
                tuple(each.source_topic_regex),
                tuple(map(_topic_info, each.state_changelog_topics)),
                tuple(each.repartition_sink_topics),
                tuple(map(_topic_info, each.repartition_source_topics)),
                tuple(
                    CopartitionGroup(
                        tuple(group.source_topics),
                        tuple(group.source_topic_regex),
                        tuple(group.repartition_source_topics),
                    )
                    for group in each.copartition_groups
                ),
            )
            for each in topology.subtopologies
        ],
    )


def _topic_info(topic: wire.TopicInfo) -> InternalTopicInfo:
    configs = tuple((config.key, config.value) for config in topic.topic_configs)
    return InternalTopicInfo(topic.name, topic.partitions, topic.replication_factor, configs)


def _task_ids(tasks: tuple[wire.RequestTaskIds, ...] | None) -> Mapping[str, frozenset[int]] | None:
    if tasks is None:
        return None
    found: dict[str, frozenset[int]] = {}
    for each in tasks:
        found[each.subtopology_id] = found.get(each.subtopology_id, frozenset()).union(each.partitions)
    return found


def _answer(
    reply: StreamsHeartbeatReply, code: ErrorCode = ErrorCode.none, message: str | None = None
) -> wire.StreamsGroupHeartbeatResponse:
    tasks: list[list[wire.ResponseTaskIds] | None] = [None, None, None]
    if reply.assigned is not None:
        tasks = [
            [{"subtopology_id": name, "partitions": sorted(numbers)} for name, numbers in sorted(kind.items())]
            for kind in (reply.assigned.active, reply.assigned.standby, reply.assigned.warmup)
        ]
    active, standby, warmup = tasks
    return {
        "error_code": code,
        "error_message": message,
        "member_id": reply.member_id,
        "member_epoch": reply.epoch,
        "heartbeat_interval": reply.heartbeat_interval_ms,
        "acceptable_recovery_lag": 0,
        "task_offset_interval": 0,
        "status": [{"status_code": code, "status_detail": detail} for code, detail in reply.statuses],
        "active_tasks": active,
        "standby_tasks": standby,
        "warmup_tasks": warmup,
        "endpoint_information_epoch": reply.endpoint_epoch,
        "partitions_by_user_endpoint": None if reply.endpoints is None else [*map(_endpoint, reply.endpoints)],
    }


def _endpoint(each: EndpointPartitions) -> wire.EndpointToPartitions:
    return {
        "user_endpoint": {"host": each.endpoint.host, "port": each.endpoint.port},
        "active_partitions": [{"topic": topic, "partitions": numbers} for topic, numbers in each.active],
        "standby_partitions": [{"topic": topic, "partitions": numbers} for topic, numbers in each.standby],
    }
