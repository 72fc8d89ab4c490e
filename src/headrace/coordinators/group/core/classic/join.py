"""JoinGroup of the classic protocol: admission of members, their ids, and whether the join starts a rebalance."""

from __future__ import annotations

from collections.abc import Callable

from headrace.coordinators.codec.rebalance_causes import CauseKind
from headrace.coordinators.group.core.classic.group import ClassicGroup, ClassicMember, ClassicState
from headrace.coordinators.group.core.classic.messages import NO_MEMBER_ID, JoinReply, JoinRequest
from headrace.coordinators.group.core.classic.rebalance import Rebalances
from headrace.coordinators.group.core.effects import Effects
from headrace.coordinators.runtime.result import Token
from headrace.kernel.errors import ErrorCode, Refused


class ClassicJoin:
    def __init__(self, rebalances: Rebalances, new_id: Callable[[], str]) -> None:
        self._rebalances = rebalances
        self._new_id = new_id

    def join(self, group: ClassicGroup, request: JoinRequest, token: Token, effects: Effects, now_ms: int) -> None:
        """The answer goes to `token`, now or when the join phase is complete."""
        if not self._has_room(group, request.member_id):
            group.remove(request.member_id, CauseKind.NO_ROOM)
            effects.answer(token, JoinReply(NO_MEMBER_ID, ErrorCode.group_max_size_reached))
        elif not group.supports(request.protocol_type, request.protocols):
            effects.answer(token, JoinReply(request.member_id, ErrorCode.inconsistent_group_protocol))
        elif request.member_id == NO_MEMBER_ID:
            self._join_new(group, request, token, effects, now_ms)
        elif request.member_id in group.pending_members and request.instance_id is None:
            self._add(group, request, request.member_id, token, effects, now_ms)
        else:
            self._rejoin(group, request, token, effects, now_ms)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        limit = self._rebalances.settings.max_size
        member = group.members.get(member_id)
        if group.state is ClassicState.PREPARING_REBALANCE:
            # Counts members that have joined: after the limit was lowered, the last ones are refused.
            return (member is not None and member.awaits_join) or group.awaiting_joins < limit
        if group.state in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE):
            return member is not None or len(group.members) < limit
        return True

    def _join_new(self, group: ClassicGroup, request: JoinRequest, token: Token, effects: Effects, now_ms: int) -> None:
        if request.instance_id is not None:
            member_id = f"{request.instance_id}-{self._new_id()}"
            if request.instance_id in group.static_members:
                self._replace_static(group, request, member_id, token, effects, now_ms)
            else:
                self._add(group, request, member_id, token, effects, now_ms)
            return
        member_id = f"{request.client_id}-{self._new_id()}"
        if request.requires_known_member_id:
            # The answer only carries the id, so that a client that dies now leaves no member behind.
            group.pending_members.add(member_id)
            self._rebalances.watch(group.group_id, member_id, request.session_timeout_ms, effects)
            effects.answer(token, JoinReply(member_id, ErrorCode.member_id_required))
        else:
            self._add(group, request, member_id, token, effects, now_ms)

    def _add(
        self, group: ClassicGroup, request: JoinRequest, member_id: str, token: Token, effects: Effects, now_ms: int
    ) -> None:
        member = ClassicMember(
            member_id,
            request.instance_id,
            request.client_id,
            request.client_host,
            request.rebalance_timeout_ms,
            request.session_timeout_ms,
            request.protocol_type,
            request.protocols,
            is_new=True,
            join_token=token,
        )
        if group.state is ClassicState.PREPARING_REBALANCE and group.previous_state is ClassicState.EMPTY:
            group.new_member_added = True
        group.add(member)
        self._rebalances.keep_alive(group, member, effects, self._rebalances.settings.new_member_join_timeout_ms)
        self._rebalances.prepare_or_complete(group, effects, now_ms)

    def _rejoin(self, group: ClassicGroup, request: JoinRequest, token: Token, effects: Effects, now_ms: int) -> None:
        try:
            member = group.require_member(request.member_id, request.instance_id)
        except Refused as refused:
            effects.answer(token, JoinReply(request.member_id, refused.code))
            return
        same = member.protocols == request.protocols
        is_leader = group.is_leader(member.member_id)
        if group.state is ClassicState.COMPLETING_REBALANCE and same:
            # The member did not get the answer of this generation's join: send it again.
            effects.answer(token, group.join_reply(member.member_id, with_members=is_leader))
        elif group.state is ClassicState.STABLE and same and not is_leader:
            # A follower that rejoins unchanged gets the current generation; a leader may want a new assignment.
            effects.answer(token, group.join_reply(member.member_id, with_members=False))
        elif group.is_empty:
            effects.answer(token, JoinReply(request.member_id, ErrorCode.unknown_member_id))
        else:
            if group.can_rebalance:
                group.note(CauseKind.REJOINED, member.member_id, request.reason)
            self._update(group, member, request, token, effects)
            self._rebalances.prepare_or_complete(group, effects, now_ms)

    def _update(
        self, group: ClassicGroup, member: ClassicMember, request: JoinRequest, token: Token, effects: Effects
    ) -> None:
        # A client that repeats a waiting request reads only one answer: the first request is dropped.
        if member.join_token is not None:
            group.answer_join(member, JoinReply(member.member_id, ErrorCode.rebalance_in_progress), effects)
        group.update(member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms, token)

    def _replace_static(
        self, group: ClassicGroup, request: JoinRequest, member_id: str, token: Token, effects: Effects, now_ms: int
    ) -> None:
        """A static member restarted and takes its old place. The others rejoin only if its protocol changed."""
        assert request.instance_id is not None
        former_leader = group.leader
        member = group.replace_static(request.instance_id, member_id, effects)
        self._rebalances.keep_alive(group, member, effects)
        self._update(group, member, request, token, effects)
        if group.state is ClassicState.STABLE:
            if group.select_protocol() != group.protocol_name:
                self._rebalances.prepare_or_complete(group, effects, now_ms)
                return
            is_leader = group.is_leader(member_id)
            if request.can_skip_assignment:
                reply = group.join_reply(member_id, with_members=is_leader, skip_assignment=is_leader)
            else:
                # An older client that leads would assign again, so its answer names the former leader.
                told = group.join_reply(member_id, with_members=False)
                reply = JoinReply(
                    member_id,
                    ErrorCode.none,
                    told.generation,
                    told.protocol_type,
                    told.protocol_name,
                    former_leader or "",
                )
            group.answer_join(member, reply, effects)
            group.write_to(effects)
        elif group.state is ClassicState.COMPLETING_REBALANCE:
            # The leader may already be assigning to the old id: all members rejoin.
            self._rebalances.prepare(group, effects, now_ms)
        else:
            self._rebalances.maybe_complete_join(group, effects, now_ms)
