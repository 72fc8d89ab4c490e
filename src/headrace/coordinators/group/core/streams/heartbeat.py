"""StreamsGroupHeartbeat (KIP-1071): one request to join, to stay, to reconcile and to leave.

Each heartbeat takes the same steps: identify the member, update what is known of it, take the topology of the first
member, compare the topology with the topics of the cluster, raise the group epoch if one of these changed, compute a
target if the old one is behind the epoch, and reconcile this member by one step.

A new group waits before its first target (`streams.initial.rebalance.delay.ms`): instances that start together get one
target. Until then members have the first epoch and no tasks, and the status ASSIGNMENT_DELAYED.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from headrace.coordinators.codec.rebalance_causes import CauseKind, RebalanceCause
from headrace.coordinators.codec.streams_groups import StreamsGroupMetadata, StreamsMemberMetadata, Tasks
from headrace.coordinators.codec.streams_topology import StreamsTopology
from headrace.coordinators.group.core.consumer.target import may_assign
from headrace.coordinators.group.core.effects import Effects
from headrace.coordinators.group.core.groups import Groups
from headrace.coordinators.group.core.streams.endpoints import endpoints_of
from headrace.coordinators.group.core.streams.group import (
    NO_METADATA,
    NO_TASKS,
    StreamsGroup,
    StreamsMember,
    StreamsMemberState,
)
from headrace.coordinators.group.core.streams.internal_topics import ConfiguredTopology, configure, topics_hash
from headrace.coordinators.group.core.streams.member_checks import check_epoch, check_tasks
from headrace.coordinators.group.core.streams.messages import (
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    StreamsHeartbeatReply,
    StreamsHeartbeatRequest,
    check_possible,
)
from headrace.coordinators.group.core.streams.partition_counts import StatusCode
from headrace.coordinators.group.core.streams.reconciliation import TaskTarget, reconcile
from headrace.coordinators.group.core.streams.sticky_assignor import AssignedStreamsMember, assign_sticky
from headrace.coordinators.runtime.result import NOTHING, Result
from headrace.kernel.errors import ErrorCode, Refused

_STANDBY_REPLICAS: Final = "num.standby.replicas"
Status = tuple[StatusCode, str]


class _Target(NamedTuple):
    epoch: int
    tasks: Tasks


class StreamsHeartbeats:
    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        # Groups whose first target waits for more members.
        self._delayed: set[str] = set()

    def heartbeat(self, request: StreamsHeartbeatRequest, now_ms: int) -> Result:
        if request.epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            return self._leave(request)
        effects, statuses = Effects(), list[Status]()
        group, member = self._group_and_member(request, effects)
        updated = replace(member, about=_updated(member.about, request))
        changed = updated != member
        if changed:
            group.write_member(updated, effects)
        topology = _topology(group, request, effects)
        if group.topology is not None and updated.about.topology_epoch < group.topology.epoch:
            statuses.append((StatusCode.STALE_TOPOLOGY, _stale(updated, group.topology)))
        seen_hash, configured = self._configure(group, topology)
        if configured.is_ready:
            check_tasks(configured, request)
        changed = changed or seen_hash != group.metadata_hash
        epoch = self._raise_epoch(group, seen_hash, configured, effects, changed=changed)
        if group.is_empty:
            self._delay(group.group_id, effects)
        target = self._target(group, updated, configured, epoch, statuses, effects, now_ms)
        final = self._reconcile(group, updated, target, request.owned, effects)
        self.keep_alive(group.group_id, member.member_id, effects)
        if request.shutdown_application and group.shutdown_member_id is None:
            group.shutdown_member_id = member.member_id
        reply = self._reply(group, member, final, configured, request, statuses)
        if effects.records:
            effects.then = partial(self._not_written, group.group_id, member.member_id)
        return effects.result(reply)

    def _not_written(self, group_id: str, member_id: str, error: ErrorCode, now_ms: int) -> Result | None:
        """The timers of a heartbeat are not set if its records are refused. The member is alive."""
        if error is ErrorCode.none:
            return None
        group = self._groups.by_id.get(group_id)
        if not isinstance(group, StreamsGroup) or group.is_empty:
            self._delayed.discard(group_id)  # the next member that joins begins the delay
            return None
        if member_id not in group.members:
            return None
        effects = Effects()
        self.keep_alive(group_id, member_id, effects)
        return effects.result()

    # Who

    def _group_and_member(
        self, request: StreamsHeartbeatRequest, effects: Effects
    ) -> tuple[StreamsGroup, StreamsMember]:
        if request.epoch != 0:
            group = self._groups.streams_group(request.group_id)
            known = group.members.get(request.member_id)
            if known is None:
                raise _unknown(request)
            check_epoch(known, request)
            return group, known
        group = self._groups.streams_group_to_join(request.group_id, effects)
        limit = self._groups.settings.streams_max_size
        if len(group.members) >= limit:  # as in Kafka also for a member that joins again
            raise Refused(
                ErrorCode.group_max_size_reached,
                f"The streams group has reached its maximum capacity of {limit} members.",
            )
        return group, group.members.get(request.member_id) or StreamsMember(request.member_id, NO_METADATA)

    # Topology and epoch

    def _configure(self, group: StreamsGroup, topology: StreamsTopology) -> tuple[int, ConfiguredTopology]:
        """The hash of the topics, and the topology with their partition counts."""
        image = self._groups.image
        configured = group.configured
        if configured is not None and group.topology is not None and image.version == group.seen_image_version:
            return group.metadata_hash, configured
        seen_hash = topics_hash(topology, image)
        if configured is None or group.topology is None or seen_hash != group.metadata_hash:
            configured = configure(topology, image)
        if seen_hash == group.metadata_hash:
            # Otherwise the next heartbeat looks again: this group may be new, or its record may not be written.
            group.seen_image_version = image.version
        group.configured = configured
        return seen_hash, configured

    def _raise_epoch(
        self, group: StreamsGroup, seen_hash: int, configured: ConfiguredTopology, effects: Effects, *, changed: bool
    ) -> int:
        validated = configured.epoch if configured.is_ready else -1
        configs = ((_STANDBY_REPLICAS, str(self._standby_replicas(group.group_id))),)
        if not changed and validated == group.validated_topology_epoch and configs == group.assignment_configs:
            return group.epoch
        group.write_metadata(StreamsGroupMetadata(group.epoch + 1, seen_hash, validated, configs), effects)
        return group.epoch + 1

    # Target

    def _delay(self, group_id: str, effects: Effects) -> None:
        delay_ms = self._own(
            group_id, "streams.initial.rebalance.delay.ms", self._groups.settings.streams_initial_rebalance_delay_ms
        )
        if delay_ms > 0 and group_id not in self._delayed:
            self._delayed.add(group_id)
            key = ("streams-initial-rebalance", group_id)
            effects.arm(key, delay_ms, lambda now_ms: self._delay_ended(group_id, now_ms))

    def forget_delay(self, group_id: str, effects: Effects) -> None:
        """The group is deleted."""
        if group_id in self._delayed:
            self._delayed.remove(group_id)
            effects.disarm(("streams-initial-rebalance", group_id))

    def _delay_ended(self, group_id: str, now_ms: int) -> Result:
        self._delayed.discard(group_id)
        group = self._groups.by_id.get(group_id)
        if not isinstance(group, StreamsGroup) or group.is_empty or group.topology is None:
            return NOTHING
        if group.epoch <= group.assignment_epoch:
            return NOTHING
        effects = Effects()
        configured = group.configured or configure(group.topology, self._groups.image)
        if self._may_assign(group, now_ms):
            replicas = int(dict(group.assignment_configs).get(_STANDBY_REPLICAS, "0"))
            targets = _targets(group, group.members, configured, replicas)
            group.write_targets(targets, group.epoch, now_ms, effects)
        return effects.result()

    def _target(
        self,
        group: StreamsGroup,
        member: StreamsMember,
        configured: ConfiguredTopology,
        epoch: int,
        statuses: list[Status],
        effects: Effects,
        now_ms: int,
    ) -> _Target:
        member_id = member.member_id
        if group.group_id in self._delayed:
            reason = "Assignment delayed due to the configured initial rebalance delay."
            statuses.append((StatusCode.ASSIGNMENT_DELAYED, reason))
            return _Target(group.assignment_epoch, NO_TASKS)
        if group.assignment_epoch < epoch and self._may_assign(group, now_ms):
            members = {**group.members, member_id: member}
            targets = _targets(group, members, configured, self._standby_replicas(group.group_id))
            group.write_targets(targets, epoch, now_ms, effects)
            return _Target(epoch, targets[member_id])
        if group.assignment_epoch < epoch:
            reason = "Assignment delayed due to the configured assignment interval."
            statuses.append((StatusCode.ASSIGNMENT_DELAYED, reason))
        return _Target(group.assignment_epoch, group.target.get(member_id, NO_TASKS))

    def _reconcile(
        self, group: StreamsGroup, member: StreamsMember, target: _Target, owned: Tasks | None, effects: Effects
    ) -> StreamsMember:
        final = reconcile(member, TaskTarget(target.epoch, target.tasks, group.processes, owned))
        if final is not member:
            group.write_current(final, effects)
            self.watch_revocation(group.group_id, final, effects)
        return final

    # The answer

    def _reply(
        self,
        group: StreamsGroup,
        member: StreamsMember,
        final: StreamsMember,
        configured: ConfiguredTopology,
        request: StreamsHeartbeatRequest,
        statuses: list[Status],
    ) -> StreamsHeartbeatReply:
        tell = request.epoch == 0 or final.assigned != member.assigned
        if tell and final.about.user_endpoint is not None:
            group.endpoint_epoch += 1
        endpoints = None
        if group.endpoint_epoch != request.endpoint_epoch:
            others = [each for each in group.members.values() if each.member_id != final.member_id]
            endpoints = endpoints_of([*others, final], configured, self._groups.image)
        if configured.problem is not None:
            statuses.append(configured.problem)
        if group.shutdown_member_id is not None:
            statuses.append((StatusCode.SHUTDOWN_APPLICATION, _shutdown(group.shutdown_member_id)))
        is_known = group.group_id in self._groups.by_id
        return StreamsHeartbeatReply(
            final.member_id,
            final.epoch,
            self.interval_ms(group.group_id),
            tuple(statuses),
            final.assigned if tell else None,
            # The epoch of a new group is not kept: its records create another object.
            group.endpoint_epoch if is_known else 0,
            endpoints,
            configured.missing,
        )

    # Timers

    def keep_alive(self, group_id: str, member_id: str, effects: Effects) -> None:
        timeout_ms = self._own(group_id, "streams.session.timeout.ms", self._groups.settings.streams_session_timeout_ms)
        effects.arm(
            ("session", group_id, member_id), timeout_ms, lambda now_ms: self._expired(group_id, member_id, None)
        )

    def watch_revocation(self, group_id: str, member: StreamsMember, effects: Effects) -> None:
        """Removes a member that does not revoke its tasks within its rebalance timeout."""
        key = ("revocation", group_id, member.member_id)
        if member.state is not StreamsMemberState.UNREVOKED_TASKS:
            effects.disarm(key)
            return
        member_id, epoch = member.member_id, member.epoch
        effects.arm(key, member.about.rebalance_timeout_ms, lambda now_ms: self._expired(group_id, member_id, epoch))

    def _expired(self, group_id: str, member_id: str, epoch: int | None) -> Result:
        group = self._groups.by_id.get(group_id)
        member = group.members.get(member_id) if isinstance(group, StreamsGroup) else None
        if member is None or (epoch is not None and member.epoch != epoch):
            return NOTHING
        assert isinstance(group, StreamsGroup)
        effects = Effects()
        kind = CauseKind.SESSION_EXPIRED if epoch is None else CauseKind.TIMED_OUT
        self._remove(group, RebalanceCause(kind, member_id), effects)
        return effects.result()

    # Leaving

    def _leave(self, request: StreamsHeartbeatRequest) -> Result:
        group = self._groups.streams_group(request.group_id, missing="Group {} not found.")
        if request.shutdown_application and group.shutdown_member_id is None:
            group.shutdown_member_id = request.member_id
        if request.member_id not in group.members:
            raise _unknown(request)
        effects = Effects()
        self._remove(group, RebalanceCause(CauseKind.LEFT, request.member_id), effects)
        return effects.result(StreamsHeartbeatReply(request.member_id, request.epoch))

    def _remove(self, group: StreamsGroup, cause: RebalanceCause, effects: Effects) -> None:
        group.write_removal(cause, effects)
        for timer in ("session", "revocation"):
            effects.disarm((timer, group.group_id, cause.member_id))

    # Settings of one group

    def interval_ms(self, group_id: str) -> int:
        default = self._groups.settings.streams_heartbeat_interval_ms
        return self._own(group_id, "streams.heartbeat.interval.ms", default)

    def _may_assign(self, group: StreamsGroup, now_ms: int) -> bool:
        default = self._groups.settings.streams_assignment_interval_ms
        interval_ms = self._own(group.group_id, "streams.assignment.interval.ms", default)
        return may_assign(group.assigned_at_ms, interval_ms, now_ms)

    def _standby_replicas(self, group_id: str) -> int:
        default = self._groups.settings.streams_num_standby_replicas
        return self._own(group_id, "streams.num.standby.replicas", default)

    def _own(self, group_id: str, name: str, default: int) -> int:
        return int(self._groups.image.config_of("group", group_id).get(name, default))


def _targets(
    group: StreamsGroup, members: Mapping[str, StreamsMember], configured: ConfiguredTopology, standby_replicas: int
) -> dict[str, Tasks]:
    if not configured.is_ready:
        return dict.fromkeys(members, NO_TASKS)
    had = {member_id: group.target.get(member_id, NO_TASKS) for member_id in members}
    return assign_sticky(
        {
            member_id: AssignedStreamsMember(member.about.process_id, had[member_id].active, had[member_id].standby)
            for member_id, member in members.items()
        },
        configured.sources,
        standby_replicas,
    )


def _topology(group: StreamsGroup, request: StreamsHeartbeatRequest, effects: Effects) -> StreamsTopology:
    """The topology of the group. The first member brings it."""
    given, known = request.topology, group.topology
    if given is not None:
        check_possible(given)
    if known is None:
        if given is None:
            raise Refused(ErrorCode.unknown_server_error, f"streams group {group.group_id} has no topology")
        group.write_topology(given, effects)
        return given
    if given is not None and given.epoch >= known.epoch and given != known:
        raise Refused(ErrorCode.invalid_request, "Topology updates are not supported yet.")
    return known


def _updated(about: StreamsMemberMetadata, request: StreamsHeartbeatRequest) -> StreamsMemberMetadata:
    return StreamsMemberMetadata(
        about.instance_id,
        about.rack_id if request.rack_id is None else request.rack_id,
        request.client_id,
        request.client_host,
        about.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
        about.topology_epoch if request.topology is None else request.topology.epoch,
        about.process_id if request.process_id is None else request.process_id,
        about.user_endpoint if request.user_endpoint is None else request.user_endpoint,
        about.client_tags if request.client_tags is None else tuple(sorted(request.client_tags)),
    )


def _stale(member: StreamsMember, topology: StreamsTopology) -> str:
    return (
        f"The member's topology epoch {member.about.topology_epoch} is behind the group's topology epoch "
        f"{topology.epoch}."
    )


def _shutdown(member_id: str) -> str:
    return (
        f"Streams group member {member_id} encountered a fatal error and requested a shutdown for the entire "
        "application."
    )


def _unknown(request: StreamsHeartbeatRequest) -> Refused:
    return Refused(
        ErrorCode.unknown_member_id, f"Member {request.member_id} is not a member of group {request.group_id}."
    )
