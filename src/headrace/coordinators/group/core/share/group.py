"""One share group (KIP-932): its members and their assigned partitions. Several members may read the same partition.

A member moves to its target in one step. It has no partition to revoke first, because the share partition decides which
member gets a record. A target holds only initialised share partitions. State changes only by replay. Mirrors Kafka's
ShareGroup.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import field

from headrace.coordinators.codec import consumer_groups, share_groups
from headrace.coordinators.codec.primitives import key_of
from headrace.coordinators.codec.rebalance_causes import RebalanceCause
from headrace.coordinators.codec.share_groups import (
    NamedPartitions,
    ShareCurrentAssignment,
    ShareMemberMetadata,
    StatePartitionMetadata,
)
from headrace.coordinators.group.core.effects import Effects
from headrace.kernel.dataclass import dataclass

Partitions = Mapping[uuid.UUID, frozenset[int]]
_STABLE = 0


@dataclass(frozen=True, slots=True)
class ShareMember:
    member_id: str
    about: ShareMemberMetadata
    epoch: int = 0
    previous_epoch: int = -1
    assigned: Partitions = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class ShareGroup:
    group_id: str
    epoch: int = 1  # of a group without members so far: its first member raises it to 2, as in Kafka
    metadata_hash: int = 0
    assignment_epoch: int = 0
    assigned_at_ms: int = 0
    members: dict[str, ShareMember] = field(default_factory=dict)
    target: dict[str, Partitions] = field(default_factory=dict)
    # Which share partitions are initialised, initialising or deleting; None: there is no such record yet.
    noted: StatePartitionMetadata | None = None
    seen_image_version: int = -2
    # The record in which `has_unassigned_share_partitions` last found none: it does not search the same record again.
    _searched: StatePartitionMetadata | None = None

    @property
    def initialized(self) -> NamedPartitions:
        return {} if self.noted is None else self.noted.initialized

    @property
    def initializing(self) -> NamedPartitions:
        return {} if self.noted is None else self.noted.initializing

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state_name(self) -> str:
        return "Stable" if self.members else "Empty"

    def has_unassigned_share_partitions(self) -> bool:
        """Whether an initialised share partition of a subscribed topic is in no member's target yet."""
        if self.noted is None or self.noted is self._searched:
            return False
        names = {name for member in self.members.values() for name in member.about.topic_names}
        for topic_id, (name, indexes) in self.initialized.items():
            if name in names and not indexes <= self._read_partitions(topic_id):
                return True
        self._searched = self.noted
        return False

    def _read_partitions(self, topic_id: uuid.UUID) -> frozenset[int]:
        return frozenset().union(*(target.get(topic_id, ()) for target in self.target.values()))

    # Records

    def write_member(self, member: ShareMember, effects: Effects) -> None:
        key = key_of(share_groups.MEMBER_METADATA, self.group_id, member.member_id)
        effects.write(key, share_groups.member_metadata_value(member.about))

    def write_epoch(self, epoch: int, metadata_hash: int, effects: Effects) -> None:
        key = key_of(share_groups.GROUP_METADATA, self.group_id)
        effects.write(key, share_groups.group_metadata_value(epoch, metadata_hash))

    def write_target(self, member_id: str, partitions: Partitions, effects: Effects) -> None:
        key = key_of(share_groups.TARGET_MEMBER, self.group_id, member_id)
        effects.write(key, consumer_groups.target_member_value(partitions))

    def write_target_epoch(self, epoch: int, now_ms: int, effects: Effects) -> None:
        key = key_of(share_groups.TARGET_METADATA, self.group_id)
        effects.write(key, consumer_groups.target_metadata_value(epoch, now_ms))

    def write_current(self, member: ShareMember, effects: Effects) -> None:
        value = ShareCurrentAssignment(member.epoch, member.previous_epoch, _STABLE, member.assigned)
        key = key_of(share_groups.CURRENT_ASSIGNMENT, self.group_id, member.member_id)
        effects.write(key, share_groups.current_assignment_value(value))

    def write_state_partitions(self, noted: StatePartitionMetadata, effects: Effects) -> None:
        key = key_of(share_groups.STATE_PARTITION_METADATA, self.group_id)
        effects.write(key, share_groups.state_partition_metadata_value(noted))

    def write_removal(self, member_id: str, effects: Effects, *causes: RebalanceCause) -> None:
        for kind in (share_groups.CURRENT_ASSIGNMENT, share_groups.TARGET_MEMBER):
            effects.write(key_of(kind, self.group_id, member_id), None)
        effects.write(key_of(share_groups.MEMBER_METADATA, self.group_id, member_id), None, causes)

    def write_tombstones(self, effects: Effects) -> None:
        for member_id in {*self.members, *self.target}:
            self.write_removal(member_id, effects)
        for kind in (
            share_groups.TARGET_METADATA,
            share_groups.STATE_PARTITION_METADATA,
            share_groups.GROUP_METADATA,
        ):
            effects.write(key_of(kind, self.group_id), None)
