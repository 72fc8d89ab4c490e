"""Heartbeats of consumer and share groups: requests, answers, and the validation of a request.

The validation looks at the request alone, and its messages are Kafka's. Checks that depend on the group are in the
state machine of the group.
"""

from __future__ import annotations

from headrace.coordinators.group.core.consumer.group import LEAVE_EPOCH, STATIC_LEAVE_EPOCH, Partitions
from headrace.coordinators.group.core.consumer.regex import Regex, TopicFilter
from headrace.coordinators.group.core.consumer.regex_syntax import BadRegex
from headrace.coordinators.group.core.settings import GroupSettings
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Refused


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    """None means unchanged."""

    group_id: str
    member_id: str
    epoch: int
    client_id: str
    client_host: str
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topic_names: tuple[str, ...] | None = None
    topic_regex: str | None = None
    server_assignor: str | None = None
    owned: Partitions | None = None
    visible: TopicFilter = frozenset

    @property
    def is_full(self) -> bool:
        said = self.topic_names is not None or self.topic_regex is not None
        return self.epoch == 0 or (self.rebalance_timeout_ms != -1 and said and self.owned is not None)


@dataclass(frozen=True, slots=True)
class ShareHeartbeatRequest:
    group_id: str
    member_id: str
    epoch: int
    client_id: str
    client_host: str
    rack_id: str | None = None
    topic_names: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    member_id: str
    epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Partitions | None = None


def check_heartbeat(request: HeartbeatRequest, settings: GroupSettings, version: int) -> None:
    """Raises INVALID_REQUEST and other errors, with Kafka's messages."""
    _check_not_empty(("GroupId", request.group_id), ("InstanceId", request.instance_id), ("RackId", request.rack_id))
    names_itself = version >= 1 or request.epoch > 0 or request.epoch == LEAVE_EPOCH
    if names_itself and not request.member_id.strip():
        raise Refused(ErrorCode.invalid_request, "MemberId can't be empty.")
    if request.epoch == 0:
        if request.rebalance_timeout_ms == -1:
            raise Refused(ErrorCode.invalid_request, "RebalanceTimeoutMs must be provided in first request.")
        if request.owned is None or request.owned:
            raise Refused(ErrorCode.invalid_request, "TopicPartitions must be empty when (re-)joining.")
        if request.topic_names is None and request.topic_regex is None:
            raise Refused(
                ErrorCode.invalid_request,
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
            )
    elif request.epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        raise Refused(ErrorCode.invalid_request, "InstanceId can't be null.")
    elif request.epoch < STATIC_LEAVE_EPOCH:
        raise Refused(ErrorCode.invalid_request, "MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in settings.consumer_assignors:
        names = ", ".join(settings.consumer_assignors)
        raise Refused(
            ErrorCode.unsupported_assignor,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {names}.",
        )
    if request.epoch == 0:
        check_regex(request)


def check_regex(request: HeartbeatRequest) -> None:
    """Called only for known and joining members: a leaving or unknown member gets its own error first."""
    if request.topic_regex:
        try:
            Regex(request.topic_regex)
        except BadRegex as bad:
            raise Refused(ErrorCode.invalid_regular_expression, f"SubscribedTopicRegex {bad}") from bad


def check_share_heartbeat(request: ShareHeartbeatRequest) -> None:
    _check_not_empty(("GroupId", request.group_id), ("MemberId", request.member_id), ("RackId", request.rack_id))
    if request.epoch == 0 and not request.topic_names:
        raise Refused(ErrorCode.invalid_request, "SubscribedTopicNames must be set in first request.")
    if request.epoch < LEAVE_EPOCH:
        raise Refused(ErrorCode.invalid_request, "MemberEpoch is invalid.")


def _check_not_empty(*fields: tuple[str, str | None]) -> None:
    for name, value in fields:
        if value is not None and not value.strip():
            raise Refused(ErrorCode.invalid_request, f"{name} can't be empty.")
