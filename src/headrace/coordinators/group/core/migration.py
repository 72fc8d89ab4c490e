"""Online migration: a classic group becomes a consumer group when the first member of the new protocol joins it, and
goes back when the last such member leaves (`group.consumer.migration.policy`).

Up: every classic member keeps its partitions and becomes a member that speaks the classic protocol, at the epoch that
its generation was. Down: what each member was to have becomes its assignment, and a rebalance begins.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace

from headrace.cluster.core.image import ClusterImage
from headrace.coordinators.codec.classic_groups import group_metadata_key
from headrace.coordinators.codec.consumer_groups import ClassicMemberMetadata, MemberMetadata
from headrace.coordinators.codec.primitives import UnreadableRecord
from headrace.coordinators.group.core import consumer_protocol
from headrace.coordinators.group.core.classic_group import ClassicGroup, ClassicMember, ClassicState
from headrace.coordinators.group.core.classic_messages import JoinReply, SyncReply
from headrace.coordinators.group.core.consumer_group import ConsumerGroup, ConsumerMember, Partitions
from headrace.coordinators.group.core.effects import Effects
from headrace.coordinators.group.core.settings import GroupSettings
from headrace.kernel.errors import ErrorCode, Refused


def may_upgrade(group: ClassicGroup, settings: GroupSettings) -> bool:
    return settings.may_upgrade and group.uses_consumer_protocol and len(group.members) < settings.consumer_max_size


def may_downgrade(group: ConsumerGroup, without: str, settings: GroupSettings, *, replaced: bool) -> bool:
    """Whether everyone but `without` speaks the classic protocol, and somebody is left."""
    others = [m for m in group.members.values() if m.member_id != without]
    size = len(group.members) if replaced else len(others)
    return (
        settings.may_downgrade
        and not group.members[without].uses_classic_protocol
        and all(m.uses_classic_protocol for m in others)
        and (replaced or bool(others))
        and size <= settings.max_size
    )


def upgrade(classic: ClassicGroup, image: ClusterImage, effects: Effects) -> ConsumerGroup:
    """The consumer group that `classic` becomes by the records written here. Raises Refused for unreadable members."""
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
    for member in classic.members.values():
        # Whoever waits for the rebalance of the classic group takes part in the one that begins now.
        classic.answer_join(member, JoinReply(member.member_id, ErrorCode.rebalance_in_progress), effects)
        classic.answer_sync(member, SyncReply(ErrorCode.rebalance_in_progress), effects)
    for timer in (("join", classic.group_id), ("sync", classic.group_id)):
        effects.disarm(timer)
    effects.write(group_metadata_key(classic.group_id), None)
    for each in group.members.values():
        group.write_member(each, effects)
    group.write_epoch(group.epoch, 0, effects)
    for member_id, partitions in group.target.items():
        group.write_target(member_id, partitions, effects)
    group.write_target_epoch(group.epoch, 0, effects)  # no target yet: the first one is not to wait
    for each in group.members.values():
        group.write_current(each, effects)
    return group


def _as_consumer_member(classic: ClassicGroup, member: ClassicMember, image: ClusterImage) -> ConsumerMember:
    subscription = consumer_protocol.read_subscription(member.metadata(classic.protocol_name))
    assigned: dict[uuid.UUID, dict[int, int]] = {}
    if member.assignment:
        for name, partitions in consumer_protocol.read_assignment(member.assignment).items():
            if name in image.topics and partitions:
                assigned[image.topics[name].id] = dict.fromkeys(partitions, classic.generation)
    about = MemberMetadata(
        member.instance_id,
        subscription.rack,
        member.client_id,
        member.client_host,
        tuple(sorted(subscription.topics)),
        None,
        member.rebalance_timeout_ms,
        None,
        ClassicMemberMetadata(member.session_timeout_ms, member.protocols),
    )
    return ConsumerMember(member.member_id, about, classic.generation, classic.generation, assigned=assigned)


def downgrade(
    group: ConsumerGroup,
    without: str,
    joining: ConsumerMember | None,
    targets: Mapping[str, Partitions],
    image: ClusterImage,
    effects: Effects,
    now_ms: int,
) -> ClassicGroup:
    """The classic group that `group` becomes, in memory and as a record; `joining` takes the place of `without`."""
    group.write_tombstones(effects)
    members = [m for m in group.members.values() if m.member_id != without]
    if joining is not None:
        members.append(replace(joining))
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
    for each in classic.members.values():
        taken = without if joining is not None and each.member_id == joining.member_id else each.member_id
        version = int.from_bytes(each.metadata(classic.protocol_name)[:2], "big")
        topics = tuple(
            sorted(
                (image.topic_names[topic_id], tuple(sorted(partitions)))
                for topic_id, partitions in targets.get(taken, {}).items()
                if topic_id in image.topic_names
            )
        )
        each.assignment = consumer_protocol.write_assignment(topics, version)
    classic.write_to(effects)
    return classic
