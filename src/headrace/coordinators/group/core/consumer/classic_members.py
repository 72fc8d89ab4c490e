"""Members of a consumer group that still use the classic protocol (online migration, KIP-848).

Such a member sends JoinGroup, SyncGroup, Heartbeat and LeaveGroup. Otherwise it is a member like the others, and the
server assigns its partitions. Its generation is its member epoch. REBALANCE_IN_PROGRESS asks it to take the next step.
Three timers replace what the new protocol carries in one heartbeat: session, join (it must rejoin) and sync (it
rejoined and must send SyncGroup).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace

from headrace.coordinators.codec.consumer_groups import ClassicMemberMetadata, MemberMetadata
from headrace.coordinators.codec.primitives import UnreadableRecord
from headrace.coordinators.codec.rebalance_causes import CauseKind, RebalanceCause
from headrace.coordinators.group.core.classic import embedded_protocol as consumer_protocol
from headrace.coordinators.group.core.classic.messages import (
    NO_MEMBER_ID,
    JoinReply,
    JoinRequest,
    LeavingMember,
    LeftMember,
    SyncReply,
    SyncRequest,
)
from headrace.coordinators.group.core.consumer import migration
from headrace.coordinators.group.core.consumer.group import NO_METADATA, ConsumerGroup, ConsumerMember, MemberState
from headrace.coordinators.group.core.consumer.heartbeat import ConsumerHeartbeats
from headrace.coordinators.group.core.effects import Effects
from headrace.coordinators.group.core.groups import Groups
from headrace.coordinators.runtime.result import Result, Token
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Refused


@dataclass(frozen=True, slots=True)
class Downgrade:
    """The group becomes a classic one: `joining` takes the place of `replaced`."""

    replaced: ConsumerMember
    joining: ConsumerMember
    # Whether the group epoch is ahead of the target, or a member behind it: then the classic group must assign again.
    rebalances: bool


class ClassicMembers:
    def __init__(self, groups: Groups, heartbeats: ConsumerHeartbeats, new_id: Callable[[], str]) -> None:
        self._groups = groups
        self._heartbeats = heartbeats
        self._new_id = new_id

    # Join

    def join(
        self, group: ConsumerGroup, request: JoinRequest, token: Token, effects: Effects, now_ms: int
    ) -> Downgrade | None:
        """Returns a Downgrade if the group becomes a classic one: a static member was the last with the new protocol
        and returns with the old one.
        """
        is_unknown = request.member_id == NO_MEMBER_ID
        member_id = self._new_id() if is_unknown else request.member_id
        limit = self._groups.settings.consumer_max_size
        if len(group.members) >= limit and member_id not in group.members:
            raise Refused(ErrorCode.group_max_size_reached, f"The consumer group has reached its capacity of {limit}.")
        self._check_protocols(group, member_id, request)
        if is_unknown and request.instance_id is None and request.requires_known_member_id:
            effects.answer(token, JoinReply(member_id, ErrorCode.member_id_required))
            return None
        member, replaced = self._member(group, member_id, is_unknown, request, effects)
        try:
            subscription = consumer_protocol.read_subscription(request.protocols[0][1])
        except (UnreadableRecord, UnicodeDecodeError) as bad:
            raise Refused(ErrorCode.inconsistent_group_protocol, f"unreadable subscription: {bad}") from bad
        about = MemberMetadata(
            request.instance_id or member.about.instance_id,
            subscription.rack or member.about.rack_id,
            request.client_id,
            request.client_host,
            tuple(sorted(set(subscription.topics))),
            None,
            request.rebalance_timeout_ms,
            member.about.server_assignor,
            ClassicMemberMetadata(request.session_timeout_ms, request.protocols),
        )
        owned = self._by_id(subscription.owned)
        holder = None if request.instance_id is None else group.static_member(request.instance_id)
        downgrades = holder is not None and migration.may_downgrade_by_replacing(group, holder, self._groups.settings)
        final, epoch = self._heartbeats.advance(
            group,
            member,
            replace(member, about=about),
            replaced,
            owned,
            effects,
            now_ms,
            may_retarget=not downgrades,
        )
        group_id = group.group_id
        self._heartbeats.told_to_rejoin.discard((group_id, member_id))
        effects.disarm(("join", group_id, member_id))
        self._heartbeats.keep_alive(group_id, member_id, request.session_timeout_ms, effects)
        self._watch("sync", group_id, member_id, request.rebalance_timeout_ms, effects)
        effects.answer(
            token,
            JoinReply(
                member_id,
                ErrorCode.none,
                final.epoch,
                consumer_protocol.PROTOCOL_TYPE,
                request.protocols[0][0],
                # The server assigns. The answer names another member as leader, so that the client does not assign.
                "",
            ),
        )
        if holder is None or not downgrades:
            return None
        # The targets become the assignments. A member that has not reconciled to its target may still read partitions
        # that belong to another in it.
        others = (each for each in group.members.values() if each is not holder)
        is_settled = epoch == group.assignment_epoch and all(each.is_reconciled_to(epoch) for each in others)
        return Downgrade(holder, final, rebalances=not is_settled)

    def _check_protocols(self, group: ConsumerGroup, member_id: str, request: JoinRequest) -> None:
        common = {name for name, _ in request.protocols}
        for member in group.members.values():
            if member.about.classic is not None:
                common &= {name for name, _ in member.about.classic.protocols}
        if request.protocol_type != consumer_protocol.PROTOCOL_TYPE or not common:
            raise Refused(ErrorCode.inconsistent_group_protocol, f"Member {member_id}'s protocols are not supported.")

    def _member(
        self, group: ConsumerGroup, member_id: str, is_unknown: bool, request: JoinRequest, effects: Effects
    ) -> tuple[ConsumerMember, ConsumerMember | None]:
        if request.instance_id is None:
            return group.members.get(member_id, ConsumerMember(member_id, NO_METADATA)), None
        holder = group.static_member(request.instance_id)
        if is_unknown:
            if holder is None:
                return ConsumerMember(member_id, NO_METADATA), None
            return self._heartbeats.take_over(group, holder, member_id, effects), holder
        return self.require(group, member_id, request.instance_id), None

    def _by_id(self, owned: Sequence[tuple[str, tuple[int, ...]]]) -> dict[uuid.UUID, frozenset[int]]:
        topics = self._groups.image.topics
        return {topics[name].id: frozenset(partitions) for name, partitions in owned if name in topics}

    # Sync, heartbeat, leave

    def sync(self, group: ConsumerGroup, request: SyncRequest, effects: Effects) -> SyncReply:
        member = self._require_classic(group, request.member_id, request.instance_id)
        self._check_generation(member, request.generation)
        classic = member.about.classic
        assert classic is not None
        protocol = classic.protocols[0][0]
        if (request.protocol_type or consumer_protocol.PROTOCOL_TYPE) != consumer_protocol.PROTOCOL_TYPE or (
            request.protocol_name or protocol
        ) != protocol:
            raise Refused(ErrorCode.inconsistent_group_protocol, f"The member joined with protocol {protocol}.")
        if group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._tell_to_rejoin(group, member, effects)
            raise Refused(ErrorCode.rebalance_in_progress, "A new rebalance is triggered: rejoin to catch up.")
        effects.disarm(("sync", group.group_id, member.member_id))
        self._heartbeats.keep_alive(group.group_id, member.member_id, classic.session_timeout_ms, effects)
        assignment = self.assignment_bytes(member, classic)
        return SyncReply(ErrorCode.none, request.protocol_type, request.protocol_name, assignment)

    def assignment_bytes(self, member: ConsumerMember, classic: ClassicMemberMetadata) -> bytes:
        names = self._groups.image.topic_names
        topics = tuple(
            sorted(
                (names[topic_id], tuple(sorted(epochs)))
                for topic_id, epochs in member.assigned.items()
                if topic_id in names
            )
        )
        version = int.from_bytes(classic.protocols[0][1][:2], "big")
        return consumer_protocol.write_assignment(topics, version)

    def heartbeat(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int, effects: Effects
    ) -> ErrorCode:
        member = self._require_classic(group, member_id, instance_id)
        self._check_generation(member, generation)
        assert member.about.classic is not None
        self._heartbeats.keep_alive(group.group_id, member_id, member.about.classic.session_timeout_ms, effects)
        may_go_on = member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member)
        if member.epoch < group.assignment_epoch or member.state is MemberState.UNREVOKED_PARTITIONS or may_go_on:
            self._tell_to_rejoin(group, member, effects)
            return ErrorCode.rebalance_in_progress
        return ErrorCode.none

    def leave(self, group: ConsumerGroup, leaving: Sequence[LeavingMember], now_ms: int) -> Result:
        answers: list[LeftMember] = []
        gone: dict[str, RebalanceCause] = {}
        for each in leaving:
            try:
                member = self._leaving(group, each)
            except Refused as refused:
                answers.append(LeftMember(each.member_id, each.instance_id, refused.code))
            else:
                gone[member.member_id] = RebalanceCause(each.cause, member.member_id, each.reason)
                # As in the request: Java's admin client looks for the instance id alone if it sent that alone.
                answers.append(LeftMember(each.member_id, each.instance_id, ErrorCode.none))
        return self._heartbeats.fence(group, list(gone.values()), now_ms, answers) if gone else Result(reply=answers)

    def _leaving(self, group: ConsumerGroup, each: LeavingMember) -> ConsumerMember:
        """Members of either protocol: an administrator removes members by this request too."""
        if each.member_id == NO_MEMBER_ID and each.instance_id is not None:
            holder = group.static_member(each.instance_id)
            if holder is None:
                raise Refused(ErrorCode.unknown_member_id, f"Instance id {each.instance_id} is unknown.")
            return holder
        return self.require(group, each.member_id, each.instance_id)

    # Checks

    def require(self, group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
        if instance_id is None:
            member = group.members.get(member_id)
        else:
            member = group.static_member(instance_id)
            if member is not None and member.member_id != member_id:
                raise Refused(ErrorCode.fenced_instance_id, f"instance {instance_id!r} is now {member.member_id!r}")
        if member is None:
            raise Refused(ErrorCode.unknown_member_id, f"group {group.group_id} has no member {member_id!r}")
        return member

    def _require_classic(self, group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
        member = self.require(group, member_id, instance_id)
        if not member.uses_classic_protocol:
            raise Refused(ErrorCode.unknown_member_id, f"Member {member_id} does not use the classic protocol.")
        return member

    def _check_generation(self, member: ConsumerMember, generation: int) -> None:
        if generation != member.epoch:
            raise Refused(ErrorCode.illegal_generation, f"generation {generation}: it is {member.epoch}")

    # Timers

    def _tell_to_rejoin(self, group: ConsumerGroup, member: ConsumerMember, effects: Effects) -> None:
        key = (group.group_id, member.member_id)
        if key not in self._heartbeats.told_to_rejoin:
            self._heartbeats.told_to_rejoin.add(key)
            self._watch("join", *key, member.about.rebalance_timeout_ms, effects)

    def _watch(self, timer: str, group_id: str, member_id: str, delay_ms: int, effects: Effects) -> None:
        def fire(now_ms: int) -> Result:
            self._heartbeats.told_to_rejoin.discard((group_id, member_id))
            return self._heartbeats.expired(group_id, member_id, now_ms, CauseKind.TIMED_OUT)

        effects.arm((timer, group_id, member_id), delay_ms, fire)
