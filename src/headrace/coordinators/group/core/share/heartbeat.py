"""ShareGroupHeartbeat (KIP-932): join, stay, change the subscription, leave. Epoch 0 joins, -1 leaves.

`simple_assignor` decides which member reads which partition. As in Kafka it assigns only share partitions that are
initialised: a member that subscribes to a new topic first gets an answer without it, and gets the partitions with a
heartbeat after the share coordinator has initialised them. That heartbeat raises the group's epoch. librdkafka relies
on the answer in between: it then stops reading the topics that the member gave up. For the same reason a member never
keeps a partition of a topic that it does not subscribe to, also while the assignment interval delays the next target.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from headrace.cluster.core.image import ClusterImage, TopicInfo
from headrace.coordinators.codec.rebalance_causes import CauseKind, RebalanceCause
from headrace.coordinators.codec.share_groups import ShareMemberMetadata
from headrace.coordinators.group.core.consumer.group import LEAVE_EPOCH
from headrace.coordinators.group.core.consumer.target import may_assign
from headrace.coordinators.group.core.effects import Effects
from headrace.coordinators.group.core.groups import Groups
from headrace.coordinators.group.core.heartbeat_messages import HeartbeatReply, ShareHeartbeatRequest
from headrace.coordinators.group.core.share.group import Partitions, ShareGroup, ShareMember
from headrace.coordinators.group.core.share.initialization import note_initializing
from headrace.coordinators.group.core.share.simple_assignor import assign_simple
from headrace.coordinators.runtime.result import NOTHING, Result
from headrace.kernel.errors import ErrorCode, Refused


class ShareHeartbeats:
    def __init__(self, groups: Groups) -> None:
        self._groups = groups

    def heartbeat(self, request: ShareHeartbeatRequest, now_ms: int) -> Result:
        if request.epoch == LEAVE_EPOCH:
            return self._leave(request)
        group = self._groups.share_groups.get(request.group_id)
        if request.epoch == 0:
            group = group or self._groups.new_share_group(request.group_id)
        if group is None:
            raise Refused(ErrorCode.group_id_not_found, f"Share group {request.group_id} not found.")
        member = self._member(group, request)
        about = ShareMemberMetadata(
            member.about.rack_id if request.rack_id is None else request.rack_id,
            request.client_id,
            request.client_host,
            member.about.topic_names if request.topic_names is None else tuple(sorted(request.topic_names)),
        )
        effects = Effects()
        final = self._advance(group, member, replace(member, about=about), effects, now_ms)
        self.keep_alive(group.group_id, member.member_id, effects)
        if effects.records:
            effects.then = partial(self._look_again, group, member.member_id)
        tell = request.epoch == 0 or request.topic_names is not None or final.assigned != member.assigned
        interval_ms = self._own(group.group_id, "share.heartbeat.interval.ms", self._groups.settings.share_heartbeat_ms)
        return effects.result(
            HeartbeatReply(member.member_id, final.epoch, interval_ms, final.assigned if tell else None)
        )

    def _look_again(self, group: ShareGroup, member_id: str, error: ErrorCode, now_ms: int) -> Result | None:
        """If a heartbeat is not written, the next one must find the same changes of topics. The member is alive."""
        if error is ErrorCode.none:
            return None
        group.seen_image_version = -2
        if self._groups.share_groups.get(group.group_id) is not group or member_id not in group.members:
            return None
        effects = Effects()
        self.keep_alive(group.group_id, member_id, effects)
        return effects.result()

    def _member(self, group: ShareGroup, request: ShareHeartbeatRequest) -> ShareMember:
        known = group.members.get(request.member_id)
        if known is None:
            limit = self._groups.settings.share_max_size
            if request.epoch != 0:
                raise Refused(
                    ErrorCode.unknown_member_id,
                    f"Member {request.member_id} is not a member of group {request.group_id}.",
                )
            if len(group.members) >= limit:
                raise Refused(
                    ErrorCode.group_max_size_reached,
                    f"The share group has reached its maximum capacity of {limit} members.",
                )
            return ShareMember(request.member_id, ShareMemberMetadata(None, "", "", ()))
        if request.epoch not in (0, known.epoch, known.previous_epoch):
            raise Refused(
                ErrorCode.fenced_member_epoch,
                f"The share group member has another member epoch ({request.epoch}) than the one known by the group "
                f"coordinator ({known.epoch}). The member must abandon all its partitions and rejoin.",
            )
        return known

    def _advance(
        self, group: ShareGroup, member: ShareMember, updated: ShareMember, effects: Effects, now_ms: int
    ) -> ShareMember:
        image = self._groups.image
        members = {**group.members, updated.member_id: updated}
        is_new = updated.member_id not in group.members
        if is_new or updated.about != member.about:
            group.write_member(updated, effects)
        resubscribed = updated.about.topic_names != member.about.topic_names
        begun = group.epoch == group.assignment_epoch and group.has_unassigned_share_partitions()
        epoch = group.epoch
        if resubscribed or begun or image.version != group.seen_image_version:
            seen_hash = _topics_hash(members, image)
            group.seen_image_version = image.version
            if resubscribed or begun or seen_hash != group.metadata_hash:
                epoch += 1
                group.write_epoch(epoch, seen_hash, effects)
                note_initializing(group, _subscribed(members, image), image, effects)
        target = group.target.get(updated.member_id, {})
        target_epoch = group.assignment_epoch
        if epoch > group.assignment_epoch and self._may_assign(group, now_ms):
            targets = _targets(group, members, image)
            for each, partitions in targets.items():
                if group.target.get(each) != partitions:
                    group.write_target(each, partitions, effects)
            group.write_target_epoch(epoch, now_ms, effects)
            target, target_epoch = targets[updated.member_id], epoch
        wanted = {
            topic_id: indexes
            for topic_id, indexes in target.items()
            if image.topic_names.get(topic_id) in updated.about.topic_names
        }
        if updated.epoch == target_epoch and updated.assigned == wanted:
            return updated
        final = replace(updated, epoch=target_epoch, previous_epoch=updated.epoch, assigned=wanted)
        group.write_current(final, effects)
        return final

    def _may_assign(self, group: ShareGroup, now_ms: int) -> bool:
        if not any(group.target.values()):
            return True  # no member has partitions yet, so the interval would protect nothing
        default = self._groups.settings.share_assignment_interval_ms
        interval_ms = self._own(group.group_id, "share.assignment.interval.ms", default)
        return may_assign(group.assigned_at_ms, interval_ms, now_ms)

    def _leave(self, request: ShareHeartbeatRequest) -> Result:
        group = self._groups.share_groups.get(request.group_id)
        if group is None:
            raise Refused(ErrorCode.group_id_not_found, f"Share group {request.group_id} not found.")
        if request.member_id not in group.members:
            raise Refused(
                ErrorCode.unknown_member_id, f"Member {request.member_id} is not a member of group {request.group_id}."
            )
        effects = Effects()
        self._remove(group, RebalanceCause(CauseKind.LEFT, request.member_id), effects)
        return effects.result(HeartbeatReply(request.member_id, LEAVE_EPOCH))

    def _remove(self, group: ShareGroup, cause: RebalanceCause, effects: Effects) -> None:
        member_id = cause.member_id
        group.write_removal(member_id, effects, cause)
        effects.disarm(("share-session", group.group_id, member_id))
        rest = {m: member for m, member in group.members.items() if m != member_id}
        group.write_epoch(group.epoch + 1, _topics_hash(rest, self._groups.image), effects)

    # Sessions

    def keep_alive(self, group_id: str, member_id: str, effects: Effects) -> None:
        timeout_ms = self._own(group_id, "share.session.timeout.ms", self._groups.settings.share_session_timeout_ms)
        key = ("share-session", group_id, member_id)
        effects.arm(key, timeout_ms, lambda now_ms: self._expired(group_id, member_id))

    def _expired(self, group_id: str, member_id: str) -> Result:
        group = self._groups.share_groups.get(group_id)
        if group is None or member_id not in group.members:
            return NOTHING
        effects = Effects()
        self._remove(group, RebalanceCause(CauseKind.SESSION_EXPIRED, member_id), effects)
        return effects.result()

    def _own(self, group_id: str, name: str, default: int) -> int:
        return int(self._groups.image.config_of("group", group_id).get(name, default))


def _subscribed(members: Mapping[str, ShareMember], image: ClusterImage) -> dict[str, TopicInfo]:
    """The existing topics that a member subscribes to, by name."""
    names = sorted({name for member in members.values() for name in member.about.topic_names})
    return {name: image.topics[name] for name in names if name in image.topics}


def _targets(group: ShareGroup, members: Mapping[str, ShareMember], image: ClusterImage) -> dict[str, Partitions]:
    topics = _subscribed(members, image)
    return assign_simple(
        {
            member_id: frozenset(topics[name].id for name in member.about.topic_names if name in topics)
            for member_id, member in members.items()
        },
        {
            topic.id: sorted(group.initialized[topic.id][1])
            for topic in topics.values()
            if topic.id in group.initialized
        },
        group.target,
    )


def _topics_hash(members: Mapping[str, ShareMember], image: ClusterImage) -> int:
    digest = hashlib.blake2b(digest_size=8)
    found = False
    for name in sorted({name for member in members.values() for name in member.about.topic_names}):
        topic = image.topics.get(name)
        if topic is not None:
            found = True
            digest.update(f"{name}\0{topic.id}\0{len(topic.partitions)}\0".encode())
    return int.from_bytes(digest.digest(), "big", signed=True) if found else 0
