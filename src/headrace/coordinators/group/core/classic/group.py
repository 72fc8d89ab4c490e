"""One classic group: its members, its generation, the protocol they share, its leader.

          first member            all joined, or time is up        the leader's assignment
    Empty ───────────► PreparingRebalance ─────────► CompletingRebalance ─────────► Stable
      ▲                 │        ▲  ▲                        │                        │
      └─────────────────┘        │  └────────────────────────┘                        │
        no member left           └────────────────────────────────────────────────────┘   a member joins, leaves or dies

The group is in memory. Its record in the log is a snapshot that is written when a generation has its assignment (or is
empty); another broker can continue from it. A member that waits for an answer (a join, a sync) is kept as a token.

Invariants: at least one protocol is supported by every member; the leader is a member; a static instance id
belongs to one member. Mirrors Kafka's ClassicGroup.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import field
from enum import Enum
from typing import Final

from headrace.coordinators.codec.classic_groups import (
    ClassicMemberValue,
    GroupMetadataValue,
    group_metadata_key,
    group_metadata_value,
)
from headrace.coordinators.codec.primitives import UnreadableRecord
from headrace.coordinators.codec.rebalance_causes import MAX_CAUSES, CauseKind, RebalanceCause
from headrace.coordinators.group.core.classic import embedded_protocol as consumer_protocol
from headrace.coordinators.group.core.classic.messages import JoinedMember, JoinReply, Protocols, SyncReply
from headrace.coordinators.group.core.consumer.java_order import in_java_order
from headrace.coordinators.group.core.effects import Effects
from headrace.coordinators.runtime.result import Token
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Refused


class ClassicState(Enum):
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_MAY_FOLLOW: Final = {
    ClassicState.EMPTY: {ClassicState.PREPARING_REBALANCE},
    ClassicState.PREPARING_REBALANCE: {
        ClassicState.STABLE,
        ClassicState.COMPLETING_REBALANCE,
        ClassicState.EMPTY,
    },
    ClassicState.COMPLETING_REBALANCE: {ClassicState.PREPARING_REBALANCE},
    ClassicState.STABLE: {ClassicState.COMPLETING_REBALANCE},
    ClassicState.DEAD: set(ClassicState),
}


@dataclass(slots=True, eq=False)
class ClassicMember:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    join_token: Token = None
    sync_token: Token = None

    @property
    def awaits_join(self) -> bool:
        return self.join_token is not None

    @property
    def heartbeat_is_satisfied(self) -> bool:
        """A member with a waiting request is alive. Not a new member: its client may have gone before it got its id."""
        return not self.is_new and (self.join_token is not None or self.sync_token is not None)

    @property
    def protocol_names(self) -> set[str]:
        """A duplicate name counts once."""
        return {name for name, _ in self.protocols}

    def metadata(self, protocol: str | None) -> bytes:
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def vote(self, candidates: set[str]) -> str:
        return next(name for name, _ in self.protocols if name in candidates)


@dataclass(slots=True, eq=False)
class ClassicGroup:
    group_id: str
    state: ClassicState = ClassicState.EMPTY
    previous_state: ClassicState = ClassicState.EMPTY
    state_since_ms: int = -1
    generation: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str | None = None
    members: dict[str, ClassicMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    pending_members: set[str] = field(default_factory=set)
    pending_syncs: set[str] = field(default_factory=set)
    supported: Counter[str] = field(default_factory=Counter)
    awaiting_joins: int = 0
    new_member_added: bool = False
    subscribed_topics: frozenset[str] | None = None
    # What the next record tells about the rebalance before it.
    causes: list[RebalanceCause] = field(default_factory=list)

    # Questions

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == consumer_protocol.PROTOCOL_TYPE

    @property
    def all_have_joined(self) -> bool:
        return len(self.members) == self.awaiting_joins and not self.pending_members

    @property
    def can_rebalance(self) -> bool:
        return self.state in _MAY_FOLLOW[ClassicState.PREPARING_REBALANCE]

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((0, *(m.rebalance_timeout_ms for m in self.members.values())))

    def is_leader(self, member_id: str) -> bool:
        return self.leader == member_id

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        if self.is_empty:
            return bool(protocol_type) and bool(protocols)
        return protocol_type == self.protocol_type and any(
            self.supported[name] == len(self.members) for name, _ in protocols
        )

    def is_subscribed_to(self, topic: str) -> bool:
        """An unknown subscription counts as subscribed, so that no offset is deleted."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def require_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """Raises UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID when another member has taken the instance id over."""
        if instance_id is not None:
            holder = self.static_members.get(instance_id)
            if holder is None:
                raise Refused(ErrorCode.unknown_member_id, f"group {self.group_id} has no instance {instance_id!r}")
            if holder != member_id:
                raise Refused(ErrorCode.fenced_instance_id, f"instance {instance_id!r} is now member {holder!r}")
        member = self.members.get(member_id)
        if member is None:
            raise Refused(ErrorCode.unknown_member_id, f"group {self.group_id} has no member {member_id!r}")
        return member

    # Changes

    def become(self, state: ClassicState, now_ms: int) -> None:
        assert self.state in _MAY_FOLLOW[state], f"{self.group_id}: {self.state} cannot become {state}"
        self.previous_state, self.state, self.state_since_ms = self.state, state, now_ms

    def add(self, member: ClassicMember) -> None:
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members, f"{member.instance_id} has a member already"
            self.static_members[member.instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self.supported.update(member.protocol_names)
        self.awaiting_joins += member.awaits_join
        self.pending_members.discard(member.member_id)

    def note(self, kind: CauseKind, member_id: str, reason: str = "") -> None:
        if len(self.causes) < MAX_CAUSES:
            self.causes.append(RebalanceCause(kind, member_id, reason))

    def remove(self, member_id: str, cause: CauseKind, reason: str = "") -> None:
        member = self.members.pop(member_id, None)
        if member is not None:
            self.note(cause, member_id, reason)
            self.supported.subtract(member.protocol_names)
            self.awaiting_joins -= member.awaits_join
            if member.instance_id is not None:
                self.static_members.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_members.discard(member_id)
        self.pending_syncs.discard(member_id)

    def update(
        self,
        member: ClassicMember,
        protocols: Protocols,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        token: Token,
    ) -> None:
        self.supported.subtract(member.protocol_names)
        member.protocols = protocols
        self.supported.update(member.protocol_names)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        self.awaiting_joins += (token is not None) - member.awaits_join
        member.join_token = token

    def replace_static(self, instance_id: str, new_member_id: str, effects: Effects) -> ClassicMember:
        """A static member returned under a new id; a request that waits under the old id is fenced at once."""
        old_id = self.static_members[instance_id]
        member = self.members.pop(old_id)
        self.answer_join(member, JoinReply(old_id, ErrorCode.fenced_instance_id), effects)
        self.answer_sync(member, SyncReply(ErrorCode.fenced_instance_id), effects)
        member.member_id = new_member_id
        # It waits under its new id: as long as it waits, it is alive.
        member.is_new = False
        self.members[new_member_id] = member
        self.static_members[instance_id] = new_member_id
        self.pending_syncs.discard(old_id)
        if self.leader == old_id:
            self.leader = new_member_id
        return member

    def answer_join(self, member: ClassicMember, reply: JoinReply, effects: Effects) -> None:
        if member.join_token is not None:
            effects.answer(member.join_token, reply)
            member.join_token = None
            self.awaiting_joins -= 1

    def answer_sync(self, member: ClassicMember, reply: SyncReply, effects: Effects) -> bool:
        if member.sync_token is None:
            return False
        effects.answer(member.sync_token, reply)
        member.sync_token = None
        return True

    def elect_joined_leader(self) -> bool:
        """Replaces a leader that did not rejoin in time by a member that did. False if no member did."""
        if self.leader is None:
            return False
        if self.members[self.leader].awaits_join:
            return True
        joined = next((m.member_id for m in self.members.values() if m.awaits_join), None)
        if joined is None:
            return False
        self.leader = joined
        return True

    def begin_generation(self, now_ms: int) -> None:
        self.generation += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self.compute_subscribed_topics()
        self.pending_syncs.clear()
        self.become(ClassicState.COMPLETING_REBALANCE if self.members else ClassicState.EMPTY, now_ms)

    def select_protocol(self) -> str:
        """Each member votes for the first of its protocols that all support; the most votes win. A tie goes
        to the first in Kafka's table of votes, so that a group that moves here keeps its protocol.
        """
        candidates = {name for name, count in self.supported.items() if count == len(self.members)}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return max(in_java_order(votes), key=votes.__getitem__)

    def compute_subscribed_topics(self) -> frozenset[str] | None:
        """The subscribed topics, or None if unknown (another protocol, unreadable bytes)."""
        if not self.uses_consumer_protocol:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        try:
            return frozenset().union(
                *(consumer_protocol.subscribed_topics(m.metadata(self.protocol_name)) for m in self.members.values())
            )
        except (UnreadableRecord, UnicodeDecodeError):
            return None

    # Pictures

    def joined_members(self) -> tuple[JoinedMember, ...]:
        name = self.protocol_name
        return tuple(JoinedMember(m.member_id, m.instance_id, m.metadata(name)) for m in self.members.values())

    def join_reply(self, member_id: str, *, with_members: bool, skip_assignment: bool = False) -> JoinReply:
        return JoinReply(
            member_id,
            ErrorCode.none,
            self.generation,
            self.protocol_type,
            self.protocol_name,
            self.leader or "",
            skip_assignment,
            self.joined_members() if with_members else (),
        )

    def write_to(self, effects: Effects, assignments: dict[str, bytes] | None = None) -> None:
        """Writes the record of this group; `assignments` are those of the next generation."""
        members = tuple(
            ClassicMemberValue(
                m.member_id,
                m.instance_id,
                m.client_id,
                m.client_host,
                m.rebalance_timeout_ms,
                m.session_timeout_ms,
                m.metadata(self.protocol_name),
                m.assignment if assignments is None else assignments.get(m.member_id, b""),
            )
            for m in self.members.values()
        )
        value = GroupMetadataValue(
            self.protocol_type or "", self.generation, self.protocol_name, self.leader, self.state_since_ms, members
        )
        effects.write(group_metadata_key(self.group_id), group_metadata_value(value), self.causes)


def from_record(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    group = ClassicGroup(
        group_id,
        state=ClassicState.STABLE if value.members else ClassicState.EMPTY,
        state_since_ms=value.current_state_timestamp_ms,
        generation=value.generation,
        protocol_type=value.protocol_type or None,
        protocol_name=value.protocol,
        leader=value.leader,
    )
    for m in value.members:
        group.add(
            ClassicMember(
                m.member_id,
                m.group_instance_id,
                m.client_id,
                m.client_host,
                m.rebalance_timeout_ms,
                m.session_timeout_ms,
                value.protocol_type,
                ((value.protocol or "", m.subscription),),
                m.assignment,
            )
        )
    group.leader = value.leader  # may be None, which has a meaning (`migration.downgrade`)
    group.subscribed_topics = group.compute_subscribed_topics()
    return group
