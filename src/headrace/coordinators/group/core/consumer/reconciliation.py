"""One step of a member towards its target (KIP-848): revoke first, then take the free partitions.

    STABLE ──target changes──► UNREVOKED_PARTITIONS ──member confirms──► STABLE or UNRELEASED_PARTITIONS
                                               other members release ──► STABLE
A member's epoch rises only when it has revoked everything that the target takes from it. Pure: returns a new member
value, and the caller writes its record.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace

from headrace.coordinators.group.core.consumer.group import ConsumerMember, Epoched, MemberState, Partitions
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Refused

IsHeld = Callable[[uuid.UUID, int], bool]


@dataclass(frozen=True, slots=True)
class TargetState:
    """Where a member is going: its target, of which it gets what it reads (still) and what nobody else holds."""

    epoch: int
    target: Partitions
    subscribed: frozenset[uuid.UUID]
    is_held: IsHeld
    # What the member says that it reads (None: it did not say), and whether it just said something else about topics.
    owned: Partitions | None = None
    resubscribed: bool = False

    def wanted(self, topic_id: uuid.UUID) -> frozenset[int]:
        return self.target.get(topic_id, frozenset()) if topic_id in self.subscribed else frozenset()


def reconcile(member: ConsumerMember, aim: TargetState) -> ConsumerMember:
    """Raises FENCED_MEMBER_EPOCH for a state that only a newer release knows."""
    match member.state:
        case MemberState.STABLE:
            if member.epoch != aim.epoch:
                return _step(member, aim)
            return _give_up_unread(member, aim) if aim.resubscribed else member
        case MemberState.UNREVOKED_PARTITIONS:
            if not _owns_any(aim.owned, member.pending_revocation):
                return _step(member, aim)
            return _give_up_unread(member, aim) if aim.resubscribed else member
        case MemberState.UNRELEASED_PARTITIONS:
            return _step(member, aim)
        case _:
            if aim.owned is None or aim.owned:
                raise Refused(ErrorCode.fenced_member_epoch, "unknown member state: give everything up and rejoin")
            return _step(replace(member, epoch=aim.epoch), aim)


def _give_up_unread(member: ConsumerMember, aim: TargetState) -> ConsumerMember:
    """Topics that the member no longer reads go at once, also while there is no new target or it gives up others."""
    unread = {topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id not in aim.subscribed}
    if not unread:
        return member
    kept = {topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id in aim.subscribed}
    pending = {
        topic_id: {**member.pending_revocation.get(topic_id, {}), **unread.get(topic_id, {})}
        for topic_id in (*member.pending_revocation, *unread)
    }
    moved = replace(member.moved_to(member.epoch), assigned=kept)
    if not _owns_any(aim.owned, pending):
        return moved
    return replace(moved, state=MemberState.UNREVOKED_PARTITIONS, pending_revocation=pending)


def _step(member: ConsumerMember, aim: TargetState) -> ConsumerMember:
    kept: dict[uuid.UUID, dict[int, int]] = {}
    to_revoke: dict[uuid.UUID, dict[int, int]] = {}
    for topic_id, epochs in member.assigned.items():
        wanted = aim.wanted(topic_id)
        for partition, since in epochs.items():
            place = kept if partition in wanted else to_revoke
            place.setdefault(topic_id, {})[partition] = since
    if to_revoke and _owns_any(aim.owned, to_revoke):
        return replace(
            member.moved_to(member.epoch),
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=kept,
            pending_revocation=to_revoke,
        )
    waits = False
    for topic_id in aim.target:
        for partition in sorted(aim.wanted(topic_id) - set(kept.get(topic_id, ()))):
            if aim.is_held(topic_id, partition):
                waits = True
            else:
                kept.setdefault(topic_id, {})[partition] = aim.epoch
    state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
    # Also where nothing else changes the epoch before is over: a member that comes again has heard of the present one.
    moved = replace(member.moved_to(aim.epoch), state=state, assigned=kept, pending_revocation={})
    return member if moved == member else moved


def _owns_any(owned: Partitions | None, partitions: Epoched) -> bool:
    """A member that does not say what it owns may own anything."""
    if owned is None:
        return True
    return any(not owned.get(topic_id, frozenset()).isdisjoint(epochs) for topic_id, epochs in partitions.items())
