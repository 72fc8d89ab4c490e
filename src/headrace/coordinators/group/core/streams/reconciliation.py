"""Moves one member of a streams group one step towards its target.

A member first revokes the tasks that its target lacks (it stays in its epoch until a heartbeat no longer reports them),
then gets the tasks that are free. A task is not free while any process processes it, or while the member's own process
holds it in another role: its state directory has one owner. Mirrors Kafka's CurrentAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from headrace.coordinators.codec.streams_groups import EpochedTasks, TaskIds, Tasks
from headrace.coordinators.group.core.streams.group import (
    NO_EPOCHED_TASKS,
    StreamsMember,
    StreamsMemberState,
    TaskProcesses,
)
from headrace.kernel.errors import ErrorCode, Refused

# Subtopology, partition → whether another role or process still holds the task.
_IsHeld = Callable[[str, int], bool]


class TaskTarget(NamedTuple):
    epoch: int
    tasks: Tasks
    processes: TaskProcesses
    owned: Tasks | None  # as the member reports; None: it reports nothing


def reconcile(member: StreamsMember, target: TaskTarget) -> StreamsMember:
    """Returns the same object if nothing changes. Raises FENCED_MEMBER_EPOCH."""
    state = member.state
    if state is StreamsMemberState.STABLE:
        return member if member.epoch == target.epoch else _step(member, member.epoch, target)
    if state is StreamsMemberState.UNREVOKED_TASKS:
        if target.owned is None or _owns_any(target.owned, member.pending_revocation):
            return member
        return _step(member, member.epoch + 1, target)
    if state is StreamsMemberState.UNRELEASED_TASKS:
        return _step(member, member.epoch, target)
    if target.owned is None or any(target.owned):
        raise Refused(
            ErrorCode.fenced_member_epoch,
            "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin.",
        )
    return _step(member, target.epoch, target)


def _step(member: StreamsMember, epoch: int, target: TaskTarget) -> StreamsMember:
    process_id, processes = member.about.process_id, target.processes

    def is_taken(subtopology: str, partition: int) -> bool:
        return processes.is_active(subtopology, partition) or processes.has_copy(process_id, subtopology, partition)

    def is_here(subtopology: str, partition: int) -> bool:
        return processes.is_in(process_id, subtopology, partition)

    active = _Difference(member.assigned.active, target.tasks.active, is_taken)
    standby = _Difference(_unepoched(member.assigned.standby), target.tasks.standby, is_here)
    warmup = _Difference(_unepoched(member.assigned.warmup), target.tasks.warmup, is_here)
    to_revoke = EpochedTasks(active.revoked, _ids(standby.revoked), _ids(warmup.revoked))
    if any(to_revoke) and (target.owned is None or _owns_any(target.owned, to_revoke)):
        return replace(
            member,
            epoch=epoch,
            previous_epoch=member.epoch,
            state=StreamsMemberState.UNREVOKED_TASKS,
            assigned=EpochedTasks(active.kept, _ids(standby.kept), _ids(warmup.kept)),
            pending_revocation=to_revoke,
        )
    waits = active.waits or standby.waits or warmup.waits
    moved = replace(
        member,
        epoch=target.epoch,
        previous_epoch=member.epoch,
        state=StreamsMemberState.UNRELEASED_TASKS if waits else StreamsMemberState.STABLE,
        assigned=EpochedTasks(
            active.with_new(target.epoch), _ids(standby.with_new(target.epoch)), _ids(warmup.with_new(target.epoch))
        ),
        pending_revocation=NO_EPOCHED_TASKS,
    )
    return member if moved == member else moved


class _Difference:
    """Between the tasks that a member has in one role and its target: kept, revoked, new and not yet free ones."""

    def __init__(self, has: Mapping[str, Mapping[int, int]], wants: TaskIds, is_held: _IsHeld) -> None:
        self.kept: dict[str, dict[int, int]] = {}
        self.revoked: dict[str, dict[int, int]] = {}
        self._new: dict[str, list[int]] = {}
        self.waits = False
        for subtopology, epochs in has.items():
            wanted = wants.get(subtopology, frozenset())
            for partition, since in epochs.items():
                place = self.kept if partition in wanted else self.revoked
                place.setdefault(subtopology, {})[partition] = since
        for subtopology, partitions in wants.items():
            for partition in sorted(partitions.difference(self.kept.get(subtopology, ()))):
                if is_held(subtopology, partition):
                    self.waits = True
                else:
                    self._new.setdefault(subtopology, []).append(partition)

    def with_new(self, epoch: int) -> dict[str, dict[int, int]]:
        found = {subtopology: dict(epochs) for subtopology, epochs in self.kept.items()}
        for subtopology, partitions in self._new.items():
            found.setdefault(subtopology, {}).update(dict.fromkeys(partitions, epoch))
        return found


def _unepoched(tasks: TaskIds) -> dict[str, dict[int, int]]:
    return {subtopology: dict.fromkeys(partitions, -1) for subtopology, partitions in tasks.items()}


def _ids(tasks: Mapping[str, Mapping[int, int]]) -> dict[str, frozenset[int]]:
    return {subtopology: frozenset(epochs) for subtopology, epochs in tasks.items()}


def _owns_any(owned: Tasks, tasks: EpochedTasks) -> bool:
    """In the same role."""
    return any(
        not mine.get(subtopology, frozenset()).isdisjoint(partitions)
        for mine, theirs in zip(owned, tasks, strict=True)
        for subtopology, partitions in theirs.items()
    )
