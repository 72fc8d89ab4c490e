"""Online migration: a classic group becomes a consumer group when the first member with the new protocol joins, and a
classic group again when the last such member leaves (`group.consumer.migration.policy`).

Upgrade: every classic member keeps its partitions and becomes a member with the classic protocol; its generation
becomes its epoch. Downgrade: the target of each member becomes its assignment, and a rebalance begins.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable

from headrace.cluster.core.image import ClusterImage
from headrace.coordinators.codec.classic_groups import group_metadata_key
from headrace.coordinators.codec.consumer_groups import ClassicMemberMetadata, MemberMetadata
from headrace.coordinators.codec.primitives import UnreadableRecord
from headrace.coordinators.group.core.classic import embedded_protocol as consumer_protocol
from headrace.coordinators.group.core.classic.group import ClassicGroup, ClassicMember, ClassicState
from headrace.coordinators.group.core.classic.messages import JoinReply, SyncReply
from headrace.coordinators.group.core.consumer import target as consumer_target
from headrace.coordinators.group.core.consumer.group import ConsumerGroup, ConsumerMember
from headrace.coordinators.group.core.effects import Effects
from headrace.coordinators.group.core.settings import GroupSettings
from headrace.kernel.errors import ErrorCode, Refused


def check_upgrade(group: ClassicGroup, member_id: str, settings: GroupSettings) -> None:
    """Raises GROUP_ID_NOT_FOUND, or GROUP_MAX_SIZE_REACHED if only the new member exceeds the limit."""
    size, limit = len(group.members), settings.consumer_max_size
    if not settings.may_upgrade:
        why = "online upgrade is disabled (group.consumer.migration.policy)"
    elif not group.uses_consumer_protocol:
        why = "the group does not use the consumer embedded protocol"
    elif size > limit:
        why = f"its {size} members are more than the {limit} of group.consumer.max.size"
    elif size == limit and member_id not in group.members:
        raise Refused(ErrorCode.group_max_size_reached, f"The consumer group has reached its capacity of {limit}.")
    else:
        return
    raise Refused(
        ErrorCode.group_id_not_found, f"Cannot upgrade classic group {group.group_id} to consumer group because {why}."
    )


def may_downgrade(group: ConsumerGroup, gone: Collection[ConsumerMember], settings: GroupSettings) -> bool:
    """Whether members are left and all of them use the classic protocol."""
    left_ids = {member.member_id for member in gone}
    rest = [member for member in group.members.values() if member.member_id not in left_ids]
    return settings.may_downgrade and 0 < len(rest) <= settings.max_size and _all_classic(rest)


def may_downgrade_by_replacing(group: ConsumerGroup, replaced: ConsumerMember, settings: GroupSettings) -> bool:
    """Whether all members are classic once a classic member replaces `replaced`."""
    rest = [member for member in group.members.values() if member is not replaced]
    return (
        settings.may_downgrade
        and not replaced.uses_classic_protocol
        and len(group.members) <= settings.max_size
        and _all_classic(rest)
    )


def _all_classic(members: Iterable[ConsumerMember]) -> bool:
    return all(member.uses_classic_protocol for member in members)


def upgrade(classic: ClassicGroup, image: ClusterImage, effects: Effects) -> ConsumerGroup:
    """Writes the records that make `classic` a consumer group. Raises Refused for unreadable members."""
    group = ConsumerGroup(classic.group_id, epoch=classic.generation, assignment_epoch=classic.generation)
    try:
        for member in classic.members.values():
            joined = _as_consumer_member(classic, member, image)
            group.put(joined)
            group.target[member.member_id] = joined.assigned_partitions
    except (UnreadableRecord, UnicodeDecodeError) as bad:
        raise Refused(
            ErrorCode.group_id_not_found,
            f"Cannot upgrade the classic group {classic.group_id}: its consumer protocol is malformed ({bad}).",
        ) from bad
    if classic.state is ClassicState.STABLE:
        group.metadata_hash = consumer_target.topics_hash(group.members, {}, image)
    # Otherwise the assignments are of an earlier generation. Without a hash a member that joins raises the epoch, also
    # if it only replaces a static member, and all members get a new target.
    for member in classic.members.values():
        # Members that wait for the rebalance of the classic group take part in the new one.
        classic.answer_join(member, JoinReply(member.member_id, ErrorCode.rebalance_in_progress), effects)
        classic.answer_sync(member, SyncReply(ErrorCode.rebalance_in_progress), effects)
    for timer in (("join", classic.group_id), ("sync", classic.group_id)):
        effects.disarm(timer)
    effects.write(group_metadata_key(classic.group_id), None)
    for each in group.members.values():
        group.write_member(each, effects)
    group.write_epoch(group.epoch, group.metadata_hash, effects)
    for member_id, partitions in group.target.items():
        group.write_target(member_id, partitions, effects)
    group.write_target_epoch(group.epoch, 0, effects)  # no target yet: the first one does not wait for the interval
    for each in group.members.values():
        group.write_current(each, effects)
    return group


def _as_consumer_member(classic: ClassicGroup, member: ClassicMember, image: ClusterImage) -> ConsumerMember:
    subscription = consumer_protocol.read_subscription(member.metadata(classic.protocol_name))
    assigned: dict[uuid.UUID, dict[int, int]] = {}
    if member.assignment:
        topics, user_data = consumer_protocol.read_assignment(member.assignment)
        if user_data:
            raise Refused(
                ErrorCode.group_id_not_found,
                f"Cannot upgrade classic group {classic.group_id} to consumer group because an unsupported custom "
                "assignor is in use, whose user data would be lost: switch to a default assignor first.",
            )
        for name, partitions in topics.items():
            if name in image.topics and partitions:
                assigned[image.topics[name].id] = dict.fromkeys(partitions, classic.generation)
    about = MemberMetadata(
        member.instance_id,
        subscription.rack,
        member.client_id,
        member.client_host,
        tuple(sorted(set(subscription.topics))),
        None,
        member.rebalance_timeout_ms,
        None,
        ClassicMemberMetadata(member.session_timeout_ms, member.protocols),
    )
    return ConsumerMember(member.member_id, about, classic.generation, classic.generation, assigned=assigned)


def downgrade(
    group: ConsumerGroup,
    gone: Collection[ConsumerMember],
    joining: ConsumerMember | None,
    image: ClusterImage,
    effects: Effects,
    now_ms: int,
    rebalances: bool,
) -> ClassicGroup:
    """Makes `group` a classic group, in memory and as a record; `joining` replaces the member that left.

    The record of a group that must rebalance names no leader. The partitions of members that left are unassigned until
    then. A new coordinator loads a stable group without those members, so the record must tell it to rebalance
    (`shard.loaded`). Kafka leaves those partitions unread in that case.
    """
    group.write_tombstones(effects)
    left_ids = {member.member_id for member in gone}
    members = [m for m in group.members.values() if m.member_id not in left_ids]
    if joining is not None:
        members.append(joining)
    classic = ClassicGroup(
        group.group_id,
        state=ClassicState.STABLE,
        state_since_ms=now_ms,
        generation=group.epoch,
        protocol_type=consumer_protocol.PROTOCOL_TYPE,
    )
    for member in members:
        about = member.about
        assert about.classic is not None, "only classic members are left"
        classic.add(
            ClassicMember(
                member.member_id,
                about.instance_id,
                about.client_id,
                about.client_host,
                about.rebalance_timeout_ms,
                about.classic.session_timeout_ms,
                consumer_protocol.PROTOCOL_TYPE,
                about.classic.protocols,
            )
        )
    classic.protocol_name = classic.select_protocol()
    classic.subscribed_topics = classic.compute_subscribed_topics()
    replaced_id = next(iter(left_ids))
    for each in classic.members.values():
        taken = replaced_id if joining is not None and each.member_id == joining.member_id else each.member_id
        version = int.from_bytes(each.metadata(classic.protocol_name)[:2], "big")
        topics = tuple(
            sorted(
                (image.topic_names[topic_id], tuple(sorted(partitions)))
                for topic_id, partitions in group.target.get(taken, {}).items()
                if topic_id in image.topic_names
            )
        )
        each.assignment = consumer_protocol.write_assignment(topics, version)
    leader, classic.leader = classic.leader, None if rebalances else classic.leader
    classic.write_to(effects)
    classic.leader = leader
    return classic
