"""Checks of a heartbeat against what the group knows of its member and of its tasks. The messages are Kafka's."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headrace.coordinators.group.core.streams.group import StreamsMember
from headrace.coordinators.group.core.streams.internal_topics import ConfiguredTopology
from headrace.coordinators.group.core.streams.messages import StreamsHeartbeatRequest
from headrace.kernel.errors import ErrorCode, Refused


def check_epoch(member: StreamsMember, request: StreamsHeartbeatRequest) -> None:
    """Raises FENCED_MEMBER_EPOCH. A member may repeat its previous epoch with tasks that it still has: the answer that
    raised its epoch may be lost.
    """
    if request.epoch == member.epoch:
        return
    if request.epoch > member.epoch:
        raise _fenced("greater", request.epoch, member.epoch)
    has = member.assigned
    if not (
        request.epoch == member.previous_epoch
        and _contains(has.active, request.active)
        and _contains(has.standby, request.standby)
        and _contains(has.warmup, request.warmup)
    ):
        raise _fenced("smaller", request.epoch, member.epoch)


def check_tasks(topology: ConfiguredTopology, request: StreamsHeartbeatRequest) -> None:
    """Raises INVALID_REQUEST for a reported task that the topology does not have."""
    assert topology.subtopologies is not None, "a topology that is ready has tasks"
    for reported in (request.active, request.standby, request.warmup):
        for subtopology, partitions in (reported or {}).items():
            configured = topology.subtopologies.get(subtopology)
            if configured is None:
                raise Refused(ErrorCode.invalid_request, f"Subtopology {subtopology} does not exist in the topology.")
            for partition in sorted(partitions):
                if not 0 <= partition < configured.tasks:
                    raise Refused(
                        ErrorCode.invalid_request,
                        f"Task {partition} for subtopology {subtopology} is invalid. Number of tasks for this "
                        f"subtopology: {configured.tasks}",
                    )


def _contains(has: Mapping[str, Collection[int]], owned: Mapping[str, frozenset[int]] | None) -> bool:
    return owned is not None and all(
        subtopology in has and partitions.issubset(has[subtopology]) for subtopology, partitions in owned.items()
    )


def _fenced(how: str, received: int, known: int) -> Refused:
    return Refused(
        ErrorCode.fenced_member_epoch,
        f"The streams group member has a {how} member epoch ({received}) than the one known by the group coordinator "
        f"({known}). The member must abandon all its partitions and rejoin.",
    )
