"""ConsumerGroupHeartbeat (KIP-848): one request to join, to stay, to change, to reconcile and to leave.

Each heartbeat takes the same steps: identify the member, update its subscription, raise the group epoch if that
changed, compute a target if the old one is behind the epoch, and reconcile this member by one step. The records of a
heartbeat are in the log before its answer is sent; only replayed records change the group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from headrace.coordinators.codec.classic_groups import group_metadata_key
from headrace.coordinators.codec.consumer_groups import MemberMetadata
from headrace.coordinators.codec.rebalance_causes import CauseKind, RebalanceCause
from headrace.coordinators.group.core.classic.group import ClassicGroup
from headrace.coordinators.group.core.consumer import migration
from headrace.coordinators.group.core.consumer import target as consumer_target
from headrace.coordinators.group.core.consumer.downgrade import Downgrades
from headrace.coordinators.group.core.consumer.group import (
    LEAVE_EPOCH,
    NO_METADATA,
    STATIC_LEAVE_EPOCH,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    Partitions,
    ResolvedRegex,
)
from headrace.coordinators.group.core.consumer.reconciliation import TargetState, reconcile
from headrace.coordinators.group.core.consumer.regex import TopicFilter
from headrace.coordinators.group.core.consumer.target import may_assign
from headrace.coordinators.group.core.effects import Effects
from headrace.coordinators.group.core.groups import Groups
from headrace.coordinators.group.core.heartbeat_messages import HeartbeatReply, HeartbeatRequest, check_regex
from headrace.coordinators.runtime.result import NOTHING, Result
from headrace.kernel.errors import ErrorCode, Refused


class HeartbeatResult(NamedTuple):
    """The member after its step, and the group epoch that its request led to."""

    member: ConsumerMember
    group_epoch: int


class ConsumerHeartbeats:
    def __init__(self, groups: Groups, downgrades: Downgrades, new_id: Callable[[], str]) -> None:
        self._groups = groups
        self._downgrades = downgrades
        self._new_id = new_id
        # Classic members that must rejoin: their time for it starts with the first request to rejoin.
        self.told_to_rejoin: set[tuple[str, str]] = set()

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> Result:
        if request.epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            return self._leave(request, now_ms)
        effects = Effects()
        joins = request.epoch == 0
        if joins:
            group = self._group_to_join(request.group_id, request.member_id, effects)
        else:
            group = self._groups.consumer_group(request.group_id)
        limit = self._groups.settings.consumer_max_size
        if len(group.members) >= limit and request.member_id not in group.members:
            raise Refused(ErrorCode.group_max_size_reached, f"The consumer group has reached its capacity of {limit}.")
        member_id = request.member_id or self._new_id()
        member, replaced = self._member(group, member_id, request, effects)
        if request.topic_regex != member.about.topic_regex and not joins:
            check_regex(request)
        updated = replace(member, about=_updated(member.about, request))
        final = self.advance(
            group, member, updated, replaced, request.owned, effects, now_ms, visible=request.visible
        ).member
        self.keep_alive(group.group_id, member_id, self._session_timeout_ms(group.group_id), effects)
        if effects.records:
            effects.then = partial(self._look_again, group, member_id)
        shown = final.assigned_partitions
        tell = request.is_full or shown != member.assigned_partitions
        reply = HeartbeatReply(member_id, final.epoch, self._interval_ms(group.group_id), shown if tell else None)
        return effects.result(reply)

    def _look_again(self, group: ConsumerGroup, member_id: str, error: ErrorCode, now_ms: int) -> Result | None:
        """If a heartbeat is not written, the next one must find the same changes of topics. The member is alive."""
        if error is ErrorCode.none:
            return None
        group.seen_image_version, group.seen_topic_names = -2, None
        if self._groups.by_id.get(group.group_id) is not group or member_id not in group.members:
            return None
        effects = Effects()
        self.keep_alive(group.group_id, member_id, self._session_timeout_ms(group.group_id), effects)
        return effects.result()

    def _group_to_join(self, group_id: str, member_id: str, effects: Effects) -> ConsumerGroup:
        """Possibly a new group or an upgraded classic group. Only its replayed records add it to `groups`."""
        self._groups.check_no_share_group(group_id, ErrorCode.group_id_not_found)
        group = self._groups.by_id.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if group is None:
            return ConsumerGroup(group_id)
        if not isinstance(group, ClassicGroup):
            raise Refused(ErrorCode.group_id_not_found, f"Group {group_id} is not a consumer group.")
        if group.is_empty:
            effects.write(group_metadata_key(group_id), None)
            return ConsumerGroup(group_id)
        migration.check_upgrade(group, member_id, self._groups.settings)
        upgraded = migration.upgrade(group, self._groups.image, effects)
        for member in upgraded.members.values():
            assert member.about.classic is not None
            self.keep_alive(group_id, member.member_id, member.about.classic.session_timeout_ms, effects)
        return upgraded

    # Who

    def _member(
        self, group: ConsumerGroup, member_id: str, request: HeartbeatRequest, effects: Effects
    ) -> tuple[ConsumerMember, ConsumerMember | None]:
        """The member, and the static member that it replaces."""
        if request.instance_id is None:
            known = group.members.get(member_id)
            if known is None:
                if request.epoch != 0:
                    raise Refused(
                        ErrorCode.unknown_member_id, f"Member {member_id} is not a member of group {group.group_id}."
                    )
                return ConsumerMember(member_id, NO_METADATA), None
            _check_epoch(known, request)
            return known, None
        holder = group.static_member(request.instance_id)
        if request.epoch == 0:
            if holder is None:
                return ConsumerMember(member_id, NO_METADATA), None
            # Not even under its own id: the old member must have left with epoch -2 first.
            if not holder.uses_classic_protocol and holder.epoch != STATIC_LEAVE_EPOCH:
                raise Refused(
                    ErrorCode.unreleased_instance_id,
                    f"Static member {member_id} with instance id {request.instance_id} cannot join the group because "
                    f"the instance id is owned by {holder.member_id} member.",
                )
            return self.take_over(group, holder, member_id, effects), holder
        if holder is None:
            raise Refused(ErrorCode.unknown_member_id, f"Instance id {request.instance_id} is unknown.")
        _check_instance(holder, member_id, request.instance_id)
        _check_epoch(holder, request)
        return holder, None

    def take_over(
        self, group: ConsumerGroup, holder: ConsumerMember, member_id: str, effects: Effects
    ) -> ConsumerMember:
        """A static member returns under a new id and keeps its partitions."""
        fresh = replace(holder, member_id=member_id, epoch=0, previous_epoch=0)
        group.write_removal(holder.member_id, effects)
        group.write_member(fresh, effects)
        group.write_target(member_id, group.target.get(holder.member_id, {}), effects)
        group.write_current(fresh, effects)
        return fresh

    # What follows

    def advance(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        updated: ConsumerMember,
        replaced: ConsumerMember | None,
        owned: Partitions | None,
        effects: Effects,
        now_ms: int,
        *,
        may_retarget: bool = True,
        visible: TopicFilter | None = None,
    ) -> HeartbeatResult:
        """Writes changes, raises epochs, computes the target if it is behind, and reconciles one step. While the
        assignment interval forbids a new target, a member whose group epoch is ahead of the target stays as it is.
        """
        image, settings = self._groups.image, self._groups.settings
        member_id = updated.member_id
        members: dict[str, ConsumerMember] = dict(group.members)
        if replaced is not None:
            del members[replaced.member_id]
        members[member_id] = updated
        is_new = member_id not in group.members and replaced is None
        if is_new or updated.about != member.about:
            group.write_member(updated, effects)
        # A new member without subscription changes nothing for the others.
        resubscribed = _subscription(updated) != _subscription(member)
        epoch, regexes = group.epoch, dict(group.regexes)
        if resubscribed or image.version != group.seen_image_version:
            regexes = consumer_target.resolve_regexes(group, members, image, effects, now_ms, visible)
            epoch = self._raise_epoch(group, members, regexes, resubscribed, effects)
            if visible is not None:
                group.seen_image_version, group.seen_topic_names = image.version, frozenset(image.topics)
        target = group.target.get(replaced.member_id if replaced else member_id, {})
        target_epoch = group.assignment_epoch
        if epoch > group.assignment_epoch and not may_retarget:
            return HeartbeatResult(updated, epoch)
        if epoch > group.assignment_epoch and self._may_assign(group, now_ms):
            target = self._retarget(group, members, regexes, epoch, member_id, replaced, effects, now_ms)
            target_epoch = epoch
        assert settings.consumer_assignors, "a broker offers at least one assignor"
        if updated.is_reconciled_to(target_epoch) and not resubscribed:
            return HeartbeatResult(updated, epoch)
        own = {member_id, replaced.member_id if replaced else member_id}
        aim = TargetState(
            target_epoch,
            target,
            consumer_target.subscribed_ids(updated, regexes, image),
            lambda topic_id, partition: group.holders.get((topic_id, partition), member_id) not in own,
            owned,
            resubscribed,
        )
        return HeartbeatResult(self._reconcile(group, updated, aim, effects), epoch)

    def _raise_epoch(
        self,
        group: ConsumerGroup,
        members: Mapping[str, ConsumerMember],
        regexes: Mapping[str, ResolvedRegex],
        resubscribed: bool,
        effects: Effects,
    ) -> int:
        image = self._groups.image
        seen_hash = consumer_target.topics_hash(members, regexes, image)
        if not resubscribed and seen_hash == group.metadata_hash:
            return group.epoch
        group.write_epoch(group.epoch + 1, seen_hash, effects)
        return group.epoch + 1

    def _retarget(
        self,
        group: ConsumerGroup,
        members: Mapping[str, ConsumerMember],
        regexes: Mapping[str, ResolvedRegex],
        epoch: int,
        member_id: str,
        replaced: ConsumerMember | None,
        effects: Effects,
        now_ms: int,
    ) -> Partitions:
        former = {member_id: replaced.member_id} if replaced is not None else {}
        default = self._groups.settings.consumer_assignors[0]
        targets = consumer_target.compute_target(
            group, members, regexes, self._groups.image, former, member_id, default
        )
        for each, partitions in targets.items():
            if group.target.get(former.get(each, each)) != partitions or each in former:
                group.write_target(each, partitions, effects)
        group.write_target_epoch(epoch, now_ms, effects)
        return targets[member_id]

    def _reconcile(
        self, group: ConsumerGroup, member: ConsumerMember, aim: TargetState, effects: Effects
    ) -> ConsumerMember:
        final = reconcile(member, aim)
        if final is not member:
            group.write_current(final, effects)
            if not final.uses_classic_protocol:
                self.watch_rebalance(group.group_id, final, effects)
        return final

    # Timers

    def keep_alive(self, group_id: str, member_id: str, timeout_ms: int, effects: Effects) -> None:
        effects.arm(
            ("session", group_id, member_id),
            timeout_ms,
            lambda now_ms: self.expired(group_id, member_id, now_ms, CauseKind.SESSION_EXPIRED),
        )

    def watch_rebalance(self, group_id: str, member: ConsumerMember, effects: Effects) -> None:
        """Removes a member that does not revoke its partitions within its rebalance timeout."""
        key = ("revocation", group_id, member.member_id)
        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            effects.disarm(key)
            return
        member_id, epoch = member.member_id, member.epoch
        effects.arm(
            key,
            member.about.rebalance_timeout_ms,
            lambda now_ms: self.expired(group_id, member_id, now_ms, CauseKind.TIMED_OUT, epoch),
        )

    def expired(self, group_id: str, member_id: str, now_ms: int, cause: CauseKind, epoch: int | None = None) -> Result:
        """`epoch`: only if the member is still at it."""
        try:
            group = self._groups.consumer_group(group_id)
        except Refused:
            return NOTHING
        member = group.members.get(member_id)
        if member is None or (epoch is not None and member.epoch != epoch):
            return NOTHING
        return self.fence(group, [RebalanceCause(cause, member_id)], now_ms, None)

    # Leaving

    def _leave(self, request: HeartbeatRequest, now_ms: int) -> Result:
        group = self._groups.consumer_group(request.group_id)
        reply = HeartbeatReply(request.member_id, request.epoch)
        if request.instance_id is None:
            member = group.members.get(request.member_id)
            if member is None:
                raise Refused(
                    ErrorCode.unknown_member_id,
                    f"Member {request.member_id} is not a member of group {request.group_id}.",
                )
            return self.fence(group, [RebalanceCause(CauseKind.LEFT, member.member_id)], now_ms, reply)
        holder = group.static_member(request.instance_id)
        if holder is None:
            raise Refused(ErrorCode.unknown_member_id, f"Instance id {request.instance_id} is unknown.")
        _check_instance(holder, request.member_id, request.instance_id)
        if request.epoch == LEAVE_EPOCH:
            return self.fence(group, [RebalanceCause(CauseKind.LEFT, holder.member_id)], now_ms, reply)
        # A static member will return: its place is kept until its session expires, and its partitions count as its own
        # from the beginning.
        kept = {topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in holder.assigned.items()}
        effects = Effects()
        group.write_current(replace(holder, epoch=STATIC_LEAVE_EPOCH, assigned=kept, pending_revocation={}), effects)
        return effects.result(reply)

    def fence(self, group: ConsumerGroup, causes: Sequence[RebalanceCause], now_ms: int, reply: object) -> Result:
        """Removes the members that `causes` name. The rest may become a classic group."""
        effects = Effects()
        gone = [group.members[cause.member_id] for cause in causes]
        if migration.may_downgrade(group, gone, self._groups.settings):
            self.become_classic(group, gone, None, effects, now_ms, rebalances=True)
            return effects.result(reply, replay=False)
        self._remove(group, causes, effects, now_ms)
        return effects.result(reply)

    def become_classic(
        self,
        group: ConsumerGroup,
        gone: Sequence[ConsumerMember],
        joining: ConsumerMember | None,
        effects: Effects,
        now_ms: int,
        *,
        rebalances: bool,
    ) -> None:
        for member_id in group.members:
            self.forget_timers(group.group_id, member_id, effects)
        self._downgrades.run(group, gone, joining, effects, now_ms, rebalances=rebalances)

    def forget_timers(self, group_id: str, member_id: str, effects: Effects) -> None:
        self.told_to_rejoin.discard((group_id, member_id))
        for timer in ("session", "revocation", "join", "sync"):
            effects.disarm((timer, group_id, member_id))

    def _remove(self, group: ConsumerGroup, causes: Sequence[RebalanceCause], effects: Effects, now_ms: int) -> None:
        """Writes the records that remove members."""
        for cause in causes:
            group.write_removal(cause.member_id, effects, cause)
            self.forget_timers(group.group_id, cause.member_id, effects)
        left_ids = {cause.member_id for cause in causes}
        rest = {m: member for m, member in group.members.items() if m not in left_ids}
        regexes = consumer_target.resolve_regexes(group, rest, self._groups.image, effects, now_ms, None)
        group.write_epoch(group.epoch + 1, consumer_target.topics_hash(rest, regexes, self._groups.image), effects)

    # Settings of one group

    def _may_assign(self, group: ConsumerGroup, now_ms: int) -> bool:
        own = self._groups.image.config_of("group", group.group_id).get("consumer.assignment.interval.ms")
        interval_ms = self._groups.settings.consumer_assignment_interval_ms if own is None else int(own)
        return may_assign(group.assigned_at_ms, interval_ms, now_ms)

    def _session_timeout_ms(self, group_id: str) -> int:
        own = self._groups.image.config_of("group", group_id).get("consumer.session.timeout.ms")
        return self._groups.settings.consumer_session_timeout_ms if own is None else int(own)

    def _interval_ms(self, group_id: str) -> int:
        own = self._groups.image.config_of("group", group_id).get("consumer.heartbeat.interval.ms")
        return self._groups.settings.consumer_heartbeat_interval_ms if own is None else int(own)


def _updated(about: MemberMetadata, request: HeartbeatRequest) -> MemberMetadata:
    return MemberMetadata(
        about.instance_id if request.instance_id is None else request.instance_id,
        about.rack_id if request.rack_id is None else request.rack_id,
        request.client_id,
        request.client_host,
        about.topic_names if request.topic_names is None else tuple(sorted(set(request.topic_names))),
        about.topic_regex if request.topic_regex is None else request.topic_regex or None,
        about.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
        about.server_assignor if request.server_assignor is None else request.server_assignor,
        None,
    )


def _subscription(member: ConsumerMember) -> tuple[tuple[str, ...], str | None]:
    return member.about.topic_names, member.about.topic_regex


def _check_epoch(member: ConsumerMember, request: HeartbeatRequest) -> None:
    if request.epoch == 0:
        return  # the member has revoked everything and joins again
    if request.epoch > member.epoch:
        raise Refused(
            ErrorCode.fenced_member_epoch,
            f"The consumer group member has a greater member epoch ({request.epoch}) than the one known by the group "
            f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin.",
        )
    # The answer with the raised epoch may have been lost: the member owns at most its former partitions.
    if request.epoch < member.epoch and not (
        request.epoch == member.previous_epoch and member.owns_only(request.owned)
    ):
        raise Refused(
            ErrorCode.fenced_member_epoch,
            f"The consumer group member has a smaller member epoch ({request.epoch}) than the one known by the group "
            f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin.",
        )


def _check_instance(holder: ConsumerMember, member_id: str, instance_id: str) -> None:
    if holder.member_id != member_id:
        raise Refused(
            ErrorCode.fenced_instance_id,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {holder.member_id}.",
        )
