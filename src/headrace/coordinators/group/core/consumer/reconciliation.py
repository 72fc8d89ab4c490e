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
    """Target of a member. It gets the partitions that it still subscribes to and that no other member holds."""

    epoch: int
    target: Partitions
    subscribed: frozenset[uuid.UUID]
    is_held: IsHeld
    # The partitions that the member reports (None: not reported), and whether it just changed its subscription.
    owned: Partitions | None = None
    resubscribed: bool = False

    def wanted(self, topic_id: uuid.UUID) -> frozenset[int]:
        return self.target.get(topic_id, frozenset()) if topic_id in self.subscribed else frozenset()


def reconcile(member: ConsumerMember, aim: TargetState) -> ConsumerMember:
    """Raises FENCED_MEMBER_EPOCH for a state of a newer release."""
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
    """Revokes topics that the member unsubscribed from at once, also without a new target or during another
    revocation."""
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
    # The previous epoch ends even if nothing else changes: a member that returns knows the current one.
    moved = replace(member.moved_to(aim.epoch), state=state, assigned=kept, pending_revocation={})
    return member if moved == member else moved


def _owns_any(owned: Partitions | None, partitions: Epoched) -> bool:
    """A member that does not report its partitions may own any."""
    if owned is None:
        return True
    return any(not owned.get(topic_id, frozenset()).isdisjoint(epochs) for topic_id, epochs in partitions.items())
