"""Rules: which member may commit, fetch and delete the offsets of a group, and when they expire."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headrace.coordinators.codec.offsets import OffsetValue
from headrace.coordinators.group.core.classic.group import ClassicGroup, ClassicState
from headrace.coordinators.group.core.consumer.group import ConsumerGroup, ConsumerMember
from headrace.coordinators.group.core.offsets.committed import TopicCommit
from headrace.coordinators.group.core.streams.group import StreamsGroup
from headrace.kernel.errors import ErrorCode, Refused

Group = ClassicGroup | ConsumerGroup | StreamsGroup


def check_classic_commit(
    group: ClassicGroup, member_id: str, instance_id: str | None, generation: int, *, transactional: bool
) -> None:
    """Raises Refused."""
    if generation < 0 and group.is_empty:
        return  # an administrator, or a consumer that assigns its partitions itself
    if generation >= 0 or member_id or instance_id is not None:
        group.require_member(member_id, instance_id)
        if generation != group.generation:
            raise Refused(ErrorCode.illegal_generation, f"generation {generation}: it is {group.generation}")
    elif not transactional and not group.is_empty:
        raise Refused(ErrorCode.unknown_member_id, f"group {group.group_id} has members: only they may commit")
    if not transactional and group.state is ClassicState.COMPLETING_REBALANCE:
        # The member knows the new generation but not yet its assignment: it should finish the rebalance first.
        raise Refused(ErrorCode.rebalance_in_progress, "the group is rebalancing")


def check_consumer_commit(
    group: ConsumerGroup,
    member_id: str,
    instance_id: str | None,
    epoch: int,
    topics: Iterable[TopicCommit],
    *,
    transactional: bool,
    api_version: int,
    longest_metadata: int,
) -> None:
    """Raises Refused.

    A member whose epoch was raised while its commit was in flight still owns its former partitions. Such a commit is
    accepted if every partition in it was assigned at or before the commit's epoch (KIP-1251), also one that the
    member must revoke. Partitions with metadata that is too long are not checked.
    """
    if epoch < 0 and group.is_empty:
        return
    if transactional and epoch == -1 and not member_id and instance_id is None:
        return
    member = group.members.get(member_id)
    if member is None:
        raise Refused(ErrorCode.unknown_member_id, f"group {group.group_id} has no member {member_id!r}")
    if not transactional and not member.uses_classic_protocol and api_version < 9:
        raise Refused(ErrorCode.unsupported_version, "members of the consumer protocol commit with version 9 or later")
    if epoch == member.epoch:
        return
    if epoch > member.epoch or not all(
        0 <= member.held_since(topic.topic_id, commit.partition) <= epoch
        for topic in topics
        for commit in topic.partitions
        if len(commit.metadata) <= longest_metadata
    ):
        if member.uses_classic_protocol:
            raise Refused(ErrorCode.illegal_generation, f"generation {epoch}: it is {member.epoch}")
        raise Refused(ErrorCode.stale_member_epoch, f"member epoch {epoch}: it is {member.epoch}")


def check_streams_commit(
    group: StreamsGroup,
    member_id: str,
    instance_id: str | None,
    epoch: int,
    topics: Iterable[TopicCommit],
    *,
    transactional: bool,
    api_version: int,
    longest_metadata: int,
) -> None:
    """Raises Refused. As `check_consumer_commit`; the task of a partition says since when the member has it."""
    if epoch < 0 and group.is_empty:
        return
    if transactional and epoch == -1 and not member_id and instance_id is None:
        return
    member = group.members.get(member_id)
    if member is None:
        raise Refused(ErrorCode.unknown_member_id, f"Member {member_id} is not a member of group {group.group_id}.")
    if not transactional and api_version < 9:
        raise Refused(
            ErrorCode.unsupported_version,
            "OffsetCommit version 9 or above must be used by members using the streams group protocol",
        )
    if epoch == member.epoch:
        return
    readers = group.topology.readers if group.topology is not None else {}
    if epoch > member.epoch or not all(
        0 <= member.held_since(readers.get(topic.topic), commit.partition) <= epoch
        for topic in topics
        for commit in topic.partitions
        if len(commit.metadata) <= longest_metadata
    ):
        raise Refused(ErrorCode.stale_member_epoch, f"member epoch {epoch}: it is {member.epoch}")


def check_fetch(group: Group, member_id: str | None, epoch: int) -> None:
    if isinstance(group, ClassicGroup) or (member_id is None and epoch < 0):
        return
    member = group.members.get(member_id or "")
    if member is None:
        raise Refused(ErrorCode.unknown_member_id, f"group {group.group_id} has no member {member_id!r}")
    if epoch != member.epoch:
        is_classic = isinstance(member, ConsumerMember) and member.uses_classic_protocol
        code = ErrorCode.illegal_generation if is_classic else ErrorCode.stale_member_epoch
        raise Refused(code, f"member epoch {epoch}: it is {member.epoch}")


def check_offset_delete(group: Group) -> None:
    # Consumer and streams groups lose the offsets of unsubscribed topics; the topics of other protocols are unknown.
    if isinstance(group, ClassicGroup) and not group.is_empty and not group.uses_consumer_protocol:
        raise Refused(ErrorCode.non_empty_group, f"group {group.group_id} has members")


def check_group_delete(group: Group) -> None:
    if not group.is_empty:
        raise Refused(ErrorCode.non_empty_group, f"group {group.group_id} has members: stop them first")


def expires_from(group: Group) -> Callable[[OffsetValue], int] | None:
    """The time at which the retention of an offset starts; None while no offset of this group expires."""
    if isinstance(group, ConsumerGroup | StreamsGroup) or group.protocol_type is None:
        return _commit_time
    if group.is_empty:
        since_ms = group.state_since_ms
        return _commit_time if since_ms < 0 else lambda value: since_ms
    if group.uses_consumer_protocol and group.subscribed_topics is not None and group.state is ClassicState.STABLE:
        return _commit_time
    return None


def _commit_time(value: OffsetValue) -> int:
    return value.commit_timestamp_ms
