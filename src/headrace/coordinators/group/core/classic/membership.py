"""SyncGroup, Heartbeat and LeaveGroup of the classic protocol."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.coordinators.group.core.classic.group import ClassicGroup, ClassicState
from headrace.coordinators.group.core.classic.messages import (
    NO_MEMBER_ID,
    LeavingMember,
    LeftMember,
    SyncReply,
    SyncRequest,
)
from headrace.coordinators.group.core.classic.rebalance import Rebalances, session_key
from headrace.coordinators.group.core.effects import Effects
from headrace.coordinators.runtime.result import Result, Token
from headrace.kernel.errors import ErrorCode, Refused


class Membership:
    def __init__(self, rebalances: Rebalances) -> None:
        self._rebalances = rebalances

    # Sync

    def sync(self, group: ClassicGroup, request: SyncRequest, token: Token, effects: Effects) -> None:
        """The answer goes to `token`: at once, or when the leader's assignment is committed. Raises Refused."""
        member = group.require_member(request.member_id, request.instance_id)
        if request.generation != group.generation:
            raise Refused(ErrorCode.illegal_generation, f"generation {request.generation}: it is {group.generation}")
        if _differ(request.protocol_type, group.protocol_type) or _differ(request.protocol_name, group.protocol_name):
            raise Refused(
                ErrorCode.inconsistent_group_protocol, f"the group speaks {group.protocol_type}/{group.protocol_name}"
            )
        if group.state is ClassicState.PREPARING_REBALANCE:
            raise Refused(ErrorCode.rebalance_in_progress, "the group is rebalancing: join again")
        self._rebalances.synced(group, member.member_id, effects)
        if group.state is ClassicState.STABLE:
            effects.answer(
                token, SyncReply(ErrorCode.none, group.protocol_type, group.protocol_name, member.assignment)
            )
            return
        assert group.state is ClassicState.COMPLETING_REBALANCE, f"{group.group_id} has members in {group.state}"
        group.answer_sync(member, SyncReply(ErrorCode.rebalance_in_progress), effects)
        member.sync_token = token
        if group.is_leader(member.member_id):
            self._take_assignment(group, dict(request.assignments), effects)

    def _take_assignment(self, group: ClassicGroup, assignments: dict[str, bytes], effects: Effects) -> None:
        generation = group.generation
        group.write_to(effects, assignments)
        told = len(group.causes)

        def written(error: ErrorCode, now_ms: int) -> Result | None:
            if error is ErrorCode.none:
                del group.causes[:told]
            # A member may have joined while the record was being written: then this generation is over.
            if group.state is not ClassicState.COMPLETING_REBALANCE or group.generation != generation:
                return None
            after = Effects()
            if error is not ErrorCode.none:
                for member in group.members.values():
                    member.assignment = b""
                # Too large for the log is permanent; a member should retry after any other error.
                lasting = error is ErrorCode.unknown_server_error
                self._rebalances.propagate(group, error if lasting else ErrorCode.coordinator_not_available, after)
                self._rebalances.prepare(group, after, now_ms)
            else:
                for member in group.members.values():
                    member.assignment = assignments.get(member.member_id, b"")
                group.become(ClassicState.STABLE, now_ms)
                self._rebalances.propagate(group, ErrorCode.none, after)
            return after.result(replay=False)

        effects.then = written

    # Heartbeat

    def heartbeat(
        self, group: ClassicGroup, member_id: str, instance_id: str | None, generation: int, effects: Effects
    ) -> ErrorCode:
        """Raises Refused."""
        member = group.require_member(member_id, instance_id)
        if generation != group.generation:
            raise Refused(ErrorCode.illegal_generation, f"generation {generation}: it is {group.generation}")
        if group.is_empty:
            return ErrorCode.unknown_member_id
        self._rebalances.keep_alive(group, member, effects)
        if group.state is ClassicState.PREPARING_REBALANCE:
            return ErrorCode.rebalance_in_progress
        return ErrorCode.none

    # Leave

    def leave(
        self, group: ClassicGroup, leaving: Sequence[LeavingMember], effects: Effects, now_ms: int
    ) -> list[LeftMember]:
        """One answer per member of the request, known or not."""
        answers = [
            LeftMember(member.member_id, member.instance_id, self._leave_one(group, member, effects))
            for member in leaving
        ]
        if any(answer.error is ErrorCode.none for answer in answers):
            if group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
                self._rebalances.prepare(group, effects, now_ms)
            elif group.state is ClassicState.PREPARING_REBALANCE:
                self._rebalances.maybe_complete_join(group, effects, now_ms)
        return answers

    def _leave_one(self, group: ClassicGroup, leaving: LeavingMember, effects: Effects) -> ErrorCode:
        member_id = leaving.member_id
        if member_id == NO_MEMBER_ID:
            # An administrator removes a static member by its instance id alone.
            found = group.static_members.get(leaving.instance_id) if leaving.instance_id is not None else None
            if found is None:
                return ErrorCode.unknown_member_id
            member_id = found
        elif member_id in group.pending_members:
            group.remove(member_id, leaving.cause)
            effects.disarm(session_key(group.group_id, member_id))
            return ErrorCode.none
        try:
            member = group.require_member(member_id, leaving.instance_id)
        except Refused as refused:
            return refused.code
        self._rebalances.drop(group, member, effects, leaving.cause, leaving.reason)
        return ErrorCode.none


def _differ(asked: str | None, actual: str | None) -> bool:
    """Clients before version 5 do not send it; a missing value counts as equal."""
    return asked is not None and actual is not None and asked != actual
