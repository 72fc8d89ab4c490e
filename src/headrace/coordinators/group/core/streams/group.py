"""One streams group (KIP-1071): the state in its records, and a little that is only in memory.

The epochs are those of a consumer group: group epoch ≥ assignment epoch ≥ member epoch. What is assigned are tasks: a
task is one partition of all topics that a subtopology reads. An active task processes and commits. A standby task
keeps a copy of the state of an active task of another process.

    Empty · NotReady (the topics do not fit the topology) · Assigning · Reconciling · Stable

State changes only by the `replay_…` methods, except for the fields marked as not durable. `processes` says which
process holds a task, also while a member must still revoke it. Invariant of the protocol: a member gets an active task
only when no other member may still process it, and a process never holds a task twice. Mirrors Kafka's StreamsGroup.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from enum import IntEnum
from typing import Final

from headrace.coordinators.codec import consumer_groups
from headrace.coordinators.codec import streams_groups as codec
from headrace.coordinators.codec.primitives import key_of
from headrace.coordinators.codec.rebalance_causes import RebalanceCause
from headrace.coordinators.codec.streams_groups import (
    EpochedTasks,
    StreamsCurrentAssignment,
    StreamsGroupMetadata,
    StreamsMemberMetadata,
    Tasks,
)
from headrace.coordinators.codec.streams_topology import TOPOLOGY, StreamsTopology, topology_value
from headrace.coordinators.group.core.effects import Effects
from headrace.coordinators.group.core.streams.internal_topics import ConfiguredTopology
from headrace.kernel.dataclass import dataclass

PROTOCOL_TYPE: Final = "streams"
NO_TASKS: Final = Tasks({}, {}, {})
NO_EPOCHED_TASKS: Final = EpochedTasks({}, {}, {})
NO_METADATA: Final = StreamsMemberMetadata(None, None, "", "", -1, -1, "", None, ())


class StreamsMemberState(IntEnum):
    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127


@dataclass(frozen=True, slots=True)
class StreamsMember:
    member_id: str
    about: StreamsMemberMetadata
    epoch: int = 0
    previous_epoch: int = 0
    state: StreamsMemberState = StreamsMemberState.STABLE
    assigned: EpochedTasks = NO_EPOCHED_TASKS
    pending_revocation: EpochedTasks = NO_EPOCHED_TASKS

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is StreamsMemberState.STABLE and self.epoch == epoch

    def held_since(self, subtopology: str | None, partition: int) -> int:
        """The epoch at which the active task was assigned to this member, also while it is being revoked, or -1."""
        if subtopology is None:
            return -1
        pending = self.pending_revocation.active.get(subtopology, {}).get(partition, -1)
        return self.assigned.active.get(subtopology, {}).get(partition, pending)


class TaskProcesses:
    """Which processes hold each task. An active task has one, standby and warm-up tasks may have several."""

    def __init__(self) -> None:
        self._active: dict[tuple[str, int], str] = {}
        self._standby: dict[tuple[str, int], set[str]] = {}
        self._warmup: dict[tuple[str, int], set[str]] = {}

    def is_active(self, subtopology: str, partition: int) -> bool:
        return (subtopology, partition) in self._active

    def is_in(self, process_id: str, subtopology: str, partition: int) -> bool:
        return self._active.get((subtopology, partition)) == process_id or self.has_copy(
            process_id, subtopology, partition
        )

    def has_copy(self, process_id: str, subtopology: str, partition: int) -> bool:
        """As standby or warm-up task."""
        task = (subtopology, partition)
        return process_id in self._standby.get(task, ()) or process_id in self._warmup.get(task, ())

    def add(self, tasks: EpochedTasks, process_id: str) -> None:
        for subtopology, epochs in tasks.active.items():
            self._active.update(((subtopology, partition), process_id) for partition in epochs)
        for copies, held in ((self._standby, tasks.standby), (self._warmup, tasks.warmup)):
            for subtopology, partitions in held.items():
                for partition in partitions:
                    copies.setdefault((subtopology, partition), set()).add(process_id)

    def remove(self, tasks: EpochedTasks, process_id: str) -> None:
        for subtopology, epochs in tasks.active.items():
            for partition in epochs:
                if self._active.get((subtopology, partition)) == process_id:
                    del self._active[subtopology, partition]
        for copies, held in ((self._standby, tasks.standby), (self._warmup, tasks.warmup)):
            for subtopology, partitions in held.items():
                for partition in partitions:
                    left = copies.get((subtopology, partition), set())
                    left.discard(process_id)
                    if not left:
                        copies.pop((subtopology, partition), None)


@dataclass(slots=True, eq=False)
class StreamsGroup:
    group_id: str
    epoch: int = 1  # of a group without members so far: its first member raises it to 2, as in Kafka
    metadata_hash: int = 0
    validated_topology_epoch: int = 0
    assignment_configs: tuple[tuple[str, str], ...] = ()  # of the last target
    assignment_epoch: int = 1
    assigned_at_ms: int = 0
    topology: StreamsTopology | None = None
    members: dict[str, StreamsMember] = field(default_factory=dict)
    target: dict[str, Tasks] = field(default_factory=dict)
    processes: TaskProcesses = field(default_factory=TaskProcesses)
    # Not durable: the topology with the topics of the image of this version, the member that asked for a shutdown of
    # the application, and the version of the assignments that members with an endpoint learn.
    configured: ConfiguredTopology | None = None
    seen_image_version: int = -2
    shutdown_member_id: str | None = None
    endpoint_epoch: int = 0

    # Questions

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return "NotReady"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    def is_subscribed_to(self, topic: str) -> bool:
        return bool(self.members) and self.topology is not None and topic in self.topology.readers

    # Replay

    def put(self, member: StreamsMember) -> None:
        old = self.members.get(member.member_id)
        if old is not None:
            self._release(old)
        self.members[member.member_id] = member
        self.processes.add(member.assigned, member.about.process_id)
        self.processes.add(member.pending_revocation, member.about.process_id)

    def replay_member(self, member_id: str, about: StreamsMemberMetadata | None) -> None:
        if about is not None:
            known = self.members.get(member_id)
            self.put(StreamsMember(member_id, about) if known is None else replace(known, about=about))
            return
        gone = self.members.pop(member_id, None)
        if gone is not None:
            self._release(gone)
        if not self.members:
            self.shutdown_member_id = None

    def replay_current(self, member_id: str, current: StreamsCurrentAssignment | None) -> None:
        known = self.members.get(member_id)
        if known is None:
            if current is None:
                return
            known = StreamsMember(member_id, NO_METADATA)
        if current is None:
            current = StreamsCurrentAssignment(
                -1, known.epoch, StreamsMemberState.STABLE, NO_EPOCHED_TASKS, NO_EPOCHED_TASKS
            )
        try:
            state = StreamsMemberState(current.state)
        except ValueError:
            state = StreamsMemberState.UNKNOWN
        self.put(
            replace(
                known,
                epoch=current.member_epoch,
                previous_epoch=current.previous_member_epoch,
                state=state,
                assigned=current.assigned,
                pending_revocation=current.pending_revocation,
            )
        )

    def replay_metadata(self, found: StreamsGroupMetadata) -> None:
        self.epoch, self.metadata_hash, self.validated_topology_epoch, self.assignment_configs = found

    def replay_target(self, member_id: str, tasks: Tasks | None) -> None:
        if tasks is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = tasks

    def _release(self, member: StreamsMember) -> None:
        self.processes.remove(member.assigned, member.about.process_id)
        self.processes.remove(member.pending_revocation, member.about.process_id)

    # Records

    def write_member(self, member: StreamsMember, effects: Effects) -> None:
        key = key_of(codec.MEMBER_METADATA, self.group_id, member.member_id)
        effects.write(key, codec.member_metadata_value(member.about))

    def write_topology(self, topology: StreamsTopology, effects: Effects) -> None:
        effects.write(key_of(TOPOLOGY, self.group_id), topology_value(topology))

    def write_metadata(self, metadata: StreamsGroupMetadata, effects: Effects) -> None:
        effects.write(key_of(codec.GROUP_METADATA, self.group_id), codec.group_metadata_value(metadata))

    def write_current(self, member: StreamsMember, effects: Effects) -> None:
        value = StreamsCurrentAssignment(
            member.epoch, member.previous_epoch, member.state, member.assigned, member.pending_revocation
        )
        key = key_of(codec.CURRENT_ASSIGNMENT, self.group_id, member.member_id)
        effects.write(key, codec.current_assignment_value(value))

    def write_targets(self, targets: Mapping[str, Tasks], epoch: int, now_ms: int, effects: Effects) -> None:
        for member_id, tasks in targets.items():
            if self.target.get(member_id) != tasks:
                effects.write(key_of(codec.TARGET_MEMBER, self.group_id, member_id), codec.target_member_value(tasks))
        effects.write(
            key_of(codec.TARGET_METADATA, self.group_id), consumer_groups.target_metadata_value(epoch, now_ms)
        )

    def write_removal(self, cause: RebalanceCause, effects: Effects) -> None:
        """Removes a member, and raises the epoch: the others get its tasks."""
        member_id = cause.member_id
        for record_type in (codec.CURRENT_ASSIGNMENT, codec.TARGET_MEMBER):
            effects.write(key_of(record_type, self.group_id, member_id), None)
        effects.write(key_of(codec.MEMBER_METADATA, self.group_id, member_id), None, (cause,))
        self.write_metadata(
            StreamsGroupMetadata(
                self.epoch + 1, self.metadata_hash, self.validated_topology_epoch, self.assignment_configs
            ),
            effects,
        )

    def write_tombstones(self, effects: Effects) -> None:
        """Deletes the whole group."""
        members = list(self.members)
        for member_id in members:
            effects.write(key_of(codec.CURRENT_ASSIGNMENT, self.group_id, member_id), None)
        for member_id in {*members, *self.target}:
            effects.write(key_of(codec.TARGET_MEMBER, self.group_id, member_id), None)
        effects.write(key_of(codec.TARGET_METADATA, self.group_id), None)
        for member_id in members:
            effects.write(key_of(codec.MEMBER_METADATA, self.group_id, member_id), None)
        effects.write(key_of(codec.GROUP_METADATA, self.group_id), None)
        effects.write(key_of(TOPOLOGY, self.group_id), None)
