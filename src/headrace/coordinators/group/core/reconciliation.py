"""One step of a member towards its target (KIP-848): give up first, then take what is free.

    STABLE ──target moved──► UNREVOKED_PARTITIONS ──member says it let go──► STABLE or UNRELEASED_PARTITIONS
                                                       others let go ──► STABLE
A member's epoch rises only when it has given up everything that the target takes from it. Pure: the member that comes
out is a new value; the caller writes it down.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace

from headrace.coordinators.group.core.consumer_group import ConsumerMember, Epoched, MemberState, Partitions
from headrace.kernel.errors import ErrorCode, Refused

IsHeld = Callable[[uuid.UUID, int], bool]


def reconcile(
    member: ConsumerMember, target_epoch: int, target: Partitions, is_held: IsHeld, owned: Partitions | None
) -> ConsumerMember:
    """`is_held` says whether another member may still be reading a partition; `owned` is what this one says it reads
    (None: it did not say). Raises FENCED_MEMBER_EPOCH for a state that only a newer release knows.
    """
    match member.state:
        case MemberState.STABLE:
            if member.epoch == target_epoch:
                return member
            return _step(member, member.epoch, target_epoch, target, is_held, owned)
        case MemberState.UNREVOKED_PARTITIONS:
            if _owns_any(owned, member.pending_revocation):
                return member
            return _step(member, member.epoch + 1, target_epoch, target, is_held, owned)
        case MemberState.UNRELEASED_PARTITIONS:
            return _step(member, member.epoch, target_epoch, target, is_held, owned)
        case _:
            if owned is None or owned:
                raise Refused(ErrorCode.fenced_member_epoch, "unknown member state: give everything up and rejoin")
            return _step(member, target_epoch, target_epoch, target, is_held, owned)


def _step(
    member: ConsumerMember,
    epoch: int,
    target_epoch: int,
    target: Partitions,
    is_held: IsHeld,
    owned: Partitions | None,
) -> ConsumerMember:
    kept: dict[uuid.UUID, dict[int, int]] = {}
    to_revoke: dict[uuid.UUID, dict[int, int]] = {}
    for topic_id, epochs in member.assigned.items():
        wanted = target.get(topic_id, frozenset())
        for partition, since in epochs.items():
            place = kept if partition in wanted else to_revoke
            place.setdefault(topic_id, {})[partition] = since
    if to_revoke and _owns_any(owned, to_revoke):
        return replace(
            member.moved_to(epoch),
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=kept,
            pending_revocation=to_revoke,
        )
    waits = False
    for topic_id, wanted in target.items():
        for partition in sorted(wanted - set(kept.get(topic_id, ()))):
            if is_held(topic_id, partition):
                waits = True
            else:
                kept.setdefault(topic_id, {})[partition] = target_epoch
    state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
    if (state, member.epoch, member.assigned) == (member.state, target_epoch, kept) and not member.pending_revocation:
        return member  # it still waits for the same partitions: nothing to write down
    return replace(member.moved_to(target_epoch), state=state, assigned=kept, pending_revocation={})


def _owns_any(owned: Partitions | None, partitions: Epoched) -> bool:
    """A member that does not say what it owns may own anything."""
    if owned is None:
        return True
    return any(not owned.get(topic_id, frozenset()).isdisjoint(epochs) for topic_id, epochs in partitions.items())
