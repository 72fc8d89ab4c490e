"""One consumer group of the new protocol (KIP-848): the state in its records, and nothing more.

Three epochs drive it. The *group epoch* rises when an input of the assignment changes (a member, its subscription, the
topics). The *assignment epoch* follows when a target has been computed for that epoch. A *member epoch* follows when
that member has revoked the partitions that the target takes from it:

    group epoch ≥ assignment epoch ≥ member epoch        Empty · Assigning · Reconciling · Stable

State changes only by the `replay_…` methods. `holders` maps each partition to the member that owns it or has not yet
released it. Invariant of the protocol: a member gets a partition only when no other member may still read it. Mirrors
Kafka's ConsumerGroup.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from enum import IntEnum
from typing import Final, NamedTuple

from headrace.coordinators.codec import consumer_groups as codec
from headrace.coordinators.codec.consumer_groups import CurrentAssignment, MemberMetadata
from headrace.coordinators.codec.rebalance_causes import RebalanceCause
from headrace.coordinators.group.core.classic import embedded_protocol as consumer_protocol
from headrace.coordinators.group.core.effects import Effects
from headrace.kernel.dataclass import dataclass

LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2

Partitions = Mapping[uuid.UUID, frozenset[int]]
Epoched = Mapping[uuid.UUID, Mapping[int, int]]


class MemberState(IntEnum):
    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    member_id: str
    about: MemberMetadata
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Epoched = field(default_factory=dict)
    pending_revocation: Epoched = field(default_factory=dict)

    @property
    def uses_classic_protocol(self) -> bool:
        return self.about.classic is not None

    @property
    def assigned_partitions(self) -> Partitions:
        return {topic_id: frozenset(epochs) for topic_id, epochs in self.assigned.items()}

    def held_since(self, topic_id: uuid.UUID | None, partition: int) -> int:
        """The epoch at which the partition was assigned to this member, also while it is being revoked, or -1."""
        if topic_id is None:
            return -1
        pending = self.pending_revocation.get(topic_id, {}).get(partition, -1)
        return self.assigned.get(topic_id, {}).get(partition, pending)

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def moved_to(self, epoch: int) -> ConsumerMember:
        return replace(self, epoch=epoch, previous_epoch=self.epoch)

    def owns_only(self, owned: Partitions | None) -> bool:
        return owned is not None and all(
            partitions <= set(self.assigned.get(topic_id, ())) for topic_id, partitions in owned.items()
        )


NO_METADATA: Final = MemberMetadata(None, None, "", "", (), None, -1, None)


class ResolvedRegex(NamedTuple):
    topics: frozenset[str]
    version: int
    timestamp_ms: int


@dataclass(slots=True, eq=False)
class ConsumerGroup:
    group_id: str
    epoch: int = 1  # of a group without members so far: its first member raises it to 2, as in Kafka
    metadata_hash: int = 0
    assignment_epoch: int = 0
    assigned_at_ms: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    target: dict[str, Partitions] = field(default_factory=dict)
    regexes: dict[str, ResolvedRegex] = field(default_factory=dict)
    holders: dict[tuple[uuid.UUID, int], str] = field(default_factory=dict)
    # Not durable: the image in which the topics were resolved last, and their names.
    seen_image_version: int = -2
    seen_topic_names: frozenset[str] | None = None

    # Questions

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def protocol_type(self) -> str:
        return consumer_protocol.PROTOCOL_TYPE

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def is_held_by_another(self, topic_id: uuid.UUID, partition: int, member_id: str) -> bool:
        return self.holders.get((topic_id, partition), member_id) != member_id

    def is_subscribed_to(self, topic: str) -> bool:
        return any(
            topic in member.about.topic_names
            or (member.about.topic_regex in self.regexes and topic in self.regexes[member.about.topic_regex].topics)
            for member in self.members.values()
        )

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether another member still holds a partition of this member's target."""
        return any(
            partition not in member.assigned.get(topic_id, ())
            and self.is_held_by_another(topic_id, partition, member.member_id)
            for topic_id, partitions in self.target.get(member.member_id, {}).items()
            for partition in partitions
        )

    def shown_assignor(self, default: str) -> str:
        """The assignor with the most votes; `uniform` after a tie, as in Kafka."""
        votes = self._votes(self.members.values())
        return max(votes, key=lambda name: (votes[name], name == "uniform")) if votes else default

    def next_assignor(self, members: Mapping[str, ConsumerMember], speaker: str, default: str) -> str:
        """The assignor with the most votes among the members as they will be after `speaker`'s heartbeat. After a tie
        the one that only the speaker asks for wins, then `uniform`, as in Kafka.
        """
        votes, own = self._votes(members.values()), members[speaker].about.server_assignor

        def rank(name: str) -> tuple[int, bool, bool]:
            return votes[name], name == own and votes[name] == 1, name == "uniform"

        return max(votes, key=rank) if votes else default

    @staticmethod
    def _votes(members: Iterable[ConsumerMember]) -> Counter[str]:
        return Counter(m.about.server_assignor for m in members if m.about.server_assignor)

    # Replay

    def put(self, member: ConsumerMember) -> None:
        old = self.members.get(member.member_id)
        if old is not None:
            self._release(old)
        self.members[member.member_id] = member
        for held in (member.assigned, member.pending_revocation):
            for topic_id, epochs in held.items():
                self.holders.update(((topic_id, partition), member.member_id) for partition in epochs)
        if member.about.instance_id is not None:
            self.static_members[member.about.instance_id] = member.member_id

    def replay_member(self, member_id: str, about: MemberMetadata | None) -> None:
        if about is None:
            gone = self.members.pop(member_id, None)
            if gone is not None:
                self._release(gone)
                instance_id = gone.about.instance_id
                if instance_id is not None and self.static_members.get(instance_id) == member_id:
                    del self.static_members[instance_id]
            return
        known = self.members.get(member_id)
        self.put(ConsumerMember(member_id, about) if known is None else replace(known, about=about))

    def replay_current(self, member_id: str, current: CurrentAssignment | None) -> None:
        known = self.members.get(member_id)
        if known is None:
            if current is None:
                return
            known = ConsumerMember(member_id, NO_METADATA)
        if current is None:
            current = CurrentAssignment(LEAVE_EPOCH, known.epoch, MemberState.STABLE, {}, {})
        try:
            state = MemberState(current.state)
        except ValueError:
            state = MemberState.UNKNOWN
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

    def replay_target(self, member_id: str, partitions: Partitions | None) -> None:
        if partitions is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = partitions

    def _release(self, member: ConsumerMember) -> None:
        for held in (member.assigned, member.pending_revocation):
            for topic_id, epochs in held.items():
                for partition in epochs:
                    if self.holders.get((topic_id, partition)) == member.member_id:
                        del self.holders[topic_id, partition]

    # Records

    def write_member(self, member: ConsumerMember, effects: Effects) -> None:
        key = codec.key(codec.MEMBER_METADATA, self.group_id, member.member_id)
        effects.write(key, codec.member_metadata_value(member.about))

    def write_current(self, member: ConsumerMember, effects: Effects) -> None:
        value = CurrentAssignment(
            member.epoch, member.previous_epoch, member.state, member.assigned, member.pending_revocation
        )
        key = codec.key(codec.CURRENT_ASSIGNMENT, self.group_id, member.member_id)
        effects.write(key, codec.current_assignment_value(value))

    def write_epoch(self, epoch: int, metadata_hash: int, effects: Effects) -> None:
        effects.write(codec.key(codec.GROUP_METADATA, self.group_id), codec.group_metadata_value(epoch, metadata_hash))

    def write_target(self, member_id: str, partitions: Partitions, effects: Effects) -> None:
        key = codec.key(codec.TARGET_MEMBER, self.group_id, member_id)
        effects.write(key, codec.target_member_value(partitions))

    def write_target_epoch(self, epoch: int, now_ms: int, effects: Effects) -> None:
        key = codec.key(codec.TARGET_METADATA, self.group_id)
        effects.write(key, codec.target_metadata_value(epoch, now_ms))

    def write_removal(self, member_id: str, effects: Effects, *causes: RebalanceCause) -> None:
        """No cause: the member continues under another id."""
        for record_type in (codec.CURRENT_ASSIGNMENT, codec.TARGET_MEMBER):
            effects.write(codec.key(record_type, self.group_id, member_id), None)
        effects.write(codec.key(codec.MEMBER_METADATA, self.group_id, member_id), None, causes)

    def write_tombstones(self, effects: Effects) -> None:
        """Deletes the whole group."""
        members = list(self.members)
        for member_id in members:
            effects.write(codec.key(codec.CURRENT_ASSIGNMENT, self.group_id, member_id), None)
        for member_id in {*members, *self.target}:
            effects.write(codec.key(codec.TARGET_MEMBER, self.group_id, member_id), None)
        effects.write(codec.key(codec.TARGET_METADATA, self.group_id), None)
        for member_id in members:
            effects.write(codec.key(codec.MEMBER_METADATA, self.group_id, member_id), None)
        # Written by releases of Kafka before 4.1 only; a directory of theirs may hold one.
        effects.write(codec.key(codec.PARTITION_METADATA, self.group_id), None)
        for regex in self.regexes:
            effects.write(codec.key(codec.REGULAR_EXPRESSION, self.group_id, regex), None)
        effects.write(codec.key(codec.GROUP_METADATA, self.group_id), None)
