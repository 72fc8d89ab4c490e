"""The rebalance of classic groups: how a generation ends, how the next one begins, and the timers for both.

    prepare        ask all members to rejoin; wait until all have, or the longest rebalance timeout is over
    complete_join  remove members that did not rejoin, elect the leader, choose the protocol, answer every join
    propagate      send the assignment (or an error) to every member that waits for a sync

The first rebalance of an empty group waits for `group.initial.rebalance.delay.ms`. Each later member extends the wait,
up to one rebalance timeout in all. So fifty members that start together make one generation and not fifty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headrace.coordinators.codec.rebalance_causes import CauseKind
from headrace.coordinators.group.core.classic.group import ClassicGroup, ClassicMember, ClassicState
from headrace.coordinators.group.core.classic.messages import NO_MEMBER_ID, JoinReply, SyncReply
from headrace.coordinators.group.core.effects import Effects
from headrace.coordinators.group.core.settings import GroupSettings
from headrace.coordinators.runtime.result import NOTHING, Result
from headrace.kernel.errors import ErrorCode

_REBALANCING: Final = (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE)


def session_key(group_id: str, member_id: str) -> tuple[str, str, str]:
    return "session", group_id, member_id


def join_key(group_id: str) -> tuple[str, str]:
    return "join", group_id


def sync_key(group_id: str) -> tuple[str, str]:
    return "sync", group_id


class Rebalances:
    def __init__(self, find: Callable[[str], ClassicGroup | None], settings: GroupSettings) -> None:
        self._find = find
        self.settings = settings

    # Sessions

    def keep_alive(
        self, group: ClassicGroup, member: ClassicMember, effects: Effects, timeout_ms: int | None = None
    ) -> None:
        delay_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        self.watch(group.group_id, member.member_id, delay_ms, effects)

    def watch(self, group_id: str, member_id: str, delay_ms: int, effects: Effects) -> None:
        effects.arm(
            session_key(group_id, member_id), delay_ms, lambda now_ms: self.expired(group_id, member_id, now_ms)
        )

    def expired(self, group_id: str, member_id: str, now_ms: int) -> Result:
        """A session has expired. For a member that left or was replaced this does nothing. A member whose request waits
        is alive, and its session begins again: if the broker loses its lease, the timer refuses the request, and the
        member may have died meanwhile."""
        group = self._find(group_id)
        if group is None:
            return NOTHING
        effects = Effects()
        if member_id in group.pending_members:
            group.remove(member_id, CauseKind.SESSION_EXPIRED)
            self._complete_if_all_joined(group, effects, now_ms)
            return effects.result(replay=False)
        member = group.members.get(member_id)
        if member is not None and member.heartbeat_is_satisfied:
            self.keep_alive(group, member, effects)
        elif member is not None:
            self.drop(group, member, effects, CauseKind.SESSION_EXPIRED)
            self.after_drop(group, effects, now_ms)
        return effects.result(replay=False)

    def drop(
        self, group: ClassicGroup, member: ClassicMember, effects: Effects, cause: CauseKind, reason: str = ""
    ) -> None:
        # The client of a new member may have given up on a join that still waits here. If it is alive, it joins again.
        group.answer_join(member, JoinReply(NO_MEMBER_ID, ErrorCode.unknown_member_id), effects)
        group.answer_sync(member, SyncReply(ErrorCode.unknown_member_id), effects)
        group.remove(member.member_id, cause, reason)
        effects.disarm(session_key(group.group_id, member.member_id))

    def after_drop(self, group: ClassicGroup, effects: Effects, now_ms: int) -> None:
        if group.state in _REBALANCING:
            self.prepare(group, effects, now_ms)
        else:
            self._complete_if_all_joined(group, effects, now_ms)

    def _complete_if_all_joined(self, group: ClassicGroup, effects: Effects, now_ms: int) -> None:
        if group.state is ClassicState.PREPARING_REBALANCE and group.all_have_joined:
            self.complete_join(group, effects, now_ms)

    # The join phase

    def prepare_or_complete(self, group: ClassicGroup, effects: Effects, now_ms: int) -> None:
        if group.can_rebalance:
            self.prepare(group, effects, now_ms)
        else:
            self.maybe_complete_join(group, effects, now_ms)

    def prepare(self, group: ClassicGroup, effects: Effects, now_ms: int) -> None:
        if group.state is ClassicState.COMPLETING_REBALANCE:
            for member in group.members.values():
                member.assignment = b""
            self.propagate(group, ErrorCode.rebalance_in_progress, effects)
        group.pending_syncs.clear()
        effects.disarm(sync_key(group.group_id))
        is_first = group.is_empty
        group.become(ClassicState.PREPARING_REBALANCE, now_ms)
        if is_first:
            delay_ms = self.settings.initial_rebalance_delay_ms
            self._arm_initial(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0), effects)
        elif group.all_have_joined:
            self.complete_join(group, effects, now_ms)
        else:
            self._arm_join(group, effects)

    def maybe_complete_join(self, group: ClassicGroup, effects: Effects, now_ms: int) -> None:
        # The first rebalance ends by its timer alone.
        if group.previous_state is not ClassicState.EMPTY:
            self._complete_if_all_joined(group, effects, now_ms)

    def _arm_join(self, group: ClassicGroup, effects: Effects) -> None:
        group_id = group.group_id
        effects.arm(join_key(group_id), group.rebalance_timeout_ms, lambda now_ms: self._join_is_over(group_id, now_ms))

    def _join_is_over(self, group_id: str, now_ms: int) -> Result:
        group = self._find(group_id)
        if group is None or group.state is not ClassicState.PREPARING_REBALANCE:
            return NOTHING
        effects = Effects()
        self.complete_join(group, effects, now_ms)
        return effects.result(replay=False)

    def _arm_initial(self, group: ClassicGroup, delay_ms: int, remaining_ms: int, effects: Effects) -> None:
        group_id = group.group_id
        effects.arm(
            join_key(group_id), delay_ms, lambda now_ms: self._initial_is_over(group_id, delay_ms, remaining_ms, now_ms)
        )

    def _initial_is_over(self, group_id: str, delay_ms: int, remaining_ms: int, now_ms: int) -> Result:
        group = self._find(group_id)
        if group is None or group.state is not ClassicState.PREPARING_REBALANCE:
            return NOTHING
        effects = Effects()
        if group.new_member_added and remaining_ms:
            group.new_member_added = False
            next_delay_ms = min(self.settings.initial_rebalance_delay_ms, remaining_ms)
            self._arm_initial(group, next_delay_ms, max(remaining_ms - delay_ms, 0), effects)
        else:
            self.complete_join(group, effects, now_ms)
        return effects.result(replay=False)

    def complete_join(self, group: ClassicGroup, effects: Effects, now_ms: int) -> None:
        effects.disarm(join_key(group.group_id))
        # A static member keeps its place until its session expires; a dynamic one that did not rejoin is removed.
        for member in [m for m in group.members.values() if not m.awaits_join and m.instance_id is None]:
            group.remove(member.member_id, CauseKind.TIMED_OUT)
            effects.disarm(session_key(group.group_id, member.member_id))
        if group.members and not group.elect_joined_leader():
            # Only static members, and none of them rejoined: wait for another rebalance timeout.
            self._arm_join(group, effects)
            return
        group.begin_generation(now_ms)
        if group.is_empty:
            group.write_to(effects)
            group.causes.clear()
            return
        for member in group.members.values():
            with_members = group.is_leader(member.member_id)
            group.answer_join(member, group.join_reply(member.member_id, with_members=with_members), effects)
            self.keep_alive(group, member, effects)
            member.is_new = False
            group.pending_syncs.add(member.member_id)
        group_id, generation = group.group_id, group.generation
        effects.arm(
            sync_key(group_id),
            group.rebalance_timeout_ms,
            lambda at_ms: self._syncs_are_over(group_id, generation, at_ms),
        )

    # The sync phase

    def _syncs_are_over(self, group_id: str, generation: int, now_ms: int) -> Result:
        group = self._find(group_id)
        if group is None or group.generation != generation or group.state not in _REBALANCING:
            return NOTHING
        effects = Effects()
        if group.pending_syncs:
            for member_id in sorted(group.pending_syncs):
                group.remove(member_id, CauseKind.TIMED_OUT)
                effects.disarm(session_key(group_id, member_id))
            self.prepare(group, effects, now_ms)
        return effects.result(replay=False)

    def synced(self, group: ClassicGroup, member_id: str, effects: Effects) -> None:
        group.pending_syncs.discard(member_id)
        if not group.pending_syncs:
            effects.disarm(sync_key(group.group_id))

    def propagate(self, group: ClassicGroup, error: ErrorCode, effects: Effects) -> None:
        ok = error is ErrorCode.none
        for member in group.members.values():
            reply = SyncReply(
                error, group.protocol_type if ok else None, group.protocol_name if ok else None, member.assignment
            )
            if group.answer_sync(member, reply, effects):
                # It sent no heartbeat while its sync waited here.
                self.keep_alive(group, member, effects)
