"""StreamsGroupHeartbeat: request, answer, and the validation of a request.

The validation looks at the request alone, and its messages are Kafka's. Checks that depend on the group are in
`heartbeat`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace.coordinators.codec.streams_groups import Endpoint, EpochedTasks, Tasks
from headrace.coordinators.codec.streams_topology import InternalTopicInfo, StreamsTopology
from headrace.coordinators.group.core.streams.endpoints import EndpointPartitions
from headrace.coordinators.group.core.streams.partition_counts import StatusCode
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Refused

LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2


@dataclass(frozen=True, slots=True)
class StreamsHeartbeatRequest:
    """None means unchanged."""

    group_id: str
    member_id: str
    epoch: int
    client_id: str
    client_host: str
    endpoint_epoch: int = -1
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topology: StreamsTopology | None = None
    active: Mapping[str, frozenset[int]] | None = None
    standby: Mapping[str, frozenset[int]] | None = None
    warmup: Mapping[str, frozenset[int]] | None = None
    process_id: str | None = None
    user_endpoint: Endpoint | None = None
    client_tags: tuple[tuple[str, str], ...] | None = None
    reports_task_offsets: bool = False
    reports_task_end_offsets: bool = False
    shutdown_application: bool = False

    @property
    def owned(self) -> Tasks | None:
        if self.active is None or self.standby is None or self.warmup is None:
            return None
        return Tasks(self.active, self.standby, self.warmup)


@dataclass(frozen=True, slots=True)
class StreamsHeartbeatReply:
    member_id: str
    epoch: int
    heartbeat_interval_ms: int = 0
    statuses: tuple[tuple[StatusCode, str], ...] = ()
    assigned: EpochedTasks | None = None
    endpoint_epoch: int = 0
    endpoints: tuple[EndpointPartitions, ...] | None = None
    # For the broker: the internal topics that do not exist yet.
    missing_topics: Mapping[str, InternalTopicInfo] | None = None


def check_streams_heartbeat(request: StreamsHeartbeatRequest) -> None:
    """Raises INVALID_REQUEST and STREAMS_INVALID_TOPOLOGY, with Kafka's messages."""
    _check_offered(request)
    for name, value in (
        ("MemberId", request.member_id),
        ("GroupId", request.group_id),
        ("RackId", request.rack_id),
    ):
        if value is not None and not value.strip():
            raise _invalid(f"{name} can't be empty.")
    if request.epoch == 0:
        _check_join(request)
    elif request.epoch == STATIC_LEAVE_EPOCH:
        raise _invalid("InstanceId can't be null.")
    elif request.epoch < STATIC_LEAVE_EPOCH:
        raise _invalid(f"MemberEpoch is {request.epoch}, but must be greater than or equal to -2.")
    reported = [tasks is not None for tasks in (request.active, request.standby, request.warmup)]
    if any(reported) and not all(reported):
        raise _invalid("If one task-type is non-null, all must be non-null.")
    if request.epoch != 0 and request.topology is not None:
        raise _invalid("Topology can only be provided when (re-)joining.")


def _check_offered(request: StreamsHeartbeatRequest) -> None:
    """What Kafka 4.3 does not support yet."""
    if request.instance_id is not None:
        raise _invalid("Static membership is not yet supported.")
    if request.reports_task_offsets:
        raise _invalid("TaskOffsets are not supported yet.")
    if request.reports_task_end_offsets:
        raise _invalid("TaskEndOffsets are not supported yet.")
    if request.warmup:
        raise _invalid("WarmupTasks are not supported yet.")
    if request.topology is not None and any(each.source_topic_regex for each in request.topology.subtopologies):
        raise _invalid("Regular expressions for source topics are not supported yet.")


def _check_join(request: StreamsHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    for name, tasks in (
        ("ActiveTasks", request.active),
        ("StandbyTasks", request.standby),
        ("WarmupTasks", request.warmup),
    ):
        if tasks is None or tasks:
            raise _invalid(f"{name} must be empty when (re-)joining.")
    if request.topology is None:
        raise _invalid("Topology must be non-null when (re-)joining.")
    for each in request.topology.subtopologies:
        for topic in each.changelog_topics:
            if topic.partitions != 0:
                raise Refused(
                    ErrorCode.streams_invalid_topology,
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to "
                    f"{topic.partitions}.",
                )


def check_possible(topology: StreamsTopology) -> None:
    """Kafka fails for these topologies with an unknown error. The message says what is wrong."""
    if topology.epoch < 0:
        raise Refused(ErrorCode.unknown_server_error, f"topology epoch {topology.epoch}: must be at least 0")
    if len(topology.by_id) < len(topology.subtopologies):
        raise Refused(ErrorCode.unknown_server_error, "two subtopologies have the same id")


def _invalid(message: str) -> Refused:
    return Refused(ErrorCode.invalid_request, message)
