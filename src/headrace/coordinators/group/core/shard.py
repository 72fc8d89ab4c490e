"""All groups of one partition of `__consumer_offsets`: finds the group of a request, replays the records of the log.

Owns the groups of every type by id, and their offsets. Requests of every protocol enter here and go to the state
machine of their group; a group changes its type here (`migration`). Pure: the runtime does the writing, waiting and
timing.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final

from headrace.cluster.core.image import EMPTY_IMAGE, ClusterImage
from headrace.coordinators.codec.classic_groups import group_metadata_key
from headrace.coordinators.codec.share_groups import NamedPartitions, StatePartitionMetadata
from headrace.coordinators.group.core.classic.group import ClassicGroup, ClassicState
from headrace.coordinators.group.core.classic.join import ClassicJoin
from headrace.coordinators.group.core.classic.membership import Membership
from headrace.coordinators.group.core.classic.messages import (
    NO_MEMBER_ID,
    JoinReply,
    JoinRequest,
    LeavingMember,
    LeftMember,
    SyncReply,
    SyncRequest,
)
from headrace.coordinators.group.core.classic.rebalance import Rebalances
from headrace.coordinators.group.core.consumer.classic_members import ClassicMembers
from headrace.coordinators.group.core.consumer.downgrade import Downgrades
from headrace.coordinators.group.core.consumer.group import ConsumerGroup, MemberState
from headrace.coordinators.group.core.consumer.heartbeat import ConsumerHeartbeats
from headrace.coordinators.group.core.effects import Effects
from headrace.coordinators.group.core.groups import Group, Groups
from headrace.coordinators.group.core.heartbeat_messages import HeartbeatRequest, ShareHeartbeatRequest
from headrace.coordinators.group.core.offsets.requests import CommitRequest, OffsetRequests
from headrace.coordinators.group.core.replay import GroupRecords
from headrace.coordinators.group.core.settings import GroupSettings
from headrace.coordinators.group.core.share import initialization as share_initialization
from headrace.coordinators.group.core.share.group import ShareGroup
from headrace.coordinators.group.core.share.heartbeat import ShareHeartbeats
from headrace.coordinators.group.core.streams.group import StreamsGroup
from headrace.coordinators.group.core.streams.heartbeat import StreamsHeartbeats
from headrace.coordinators.group.core.streams.messages import StreamsHeartbeatRequest
from headrace.coordinators.runtime.result import DEFERRED, Answer, Result, Timer, Token
from headrace.kernel.errors import ErrorCode, Refused
from headrace.kernel.ids import uuid_to_text

# Tombstones of one clean-up, about 100 bytes each: enough for most, and short enough not to delay others.
_MOST_TOMBSTONES: Final = 2_000
_CLEAN_UP: Final = "clean-up"


class GroupShard:
    def __init__(
        self, settings: GroupSettings, new_uuid: Callable[[], uuid.UUID], image: ClusterImage = EMPTY_IMAGE
    ) -> None:
        self._all = groups = Groups(settings, image)
        self.groups = groups.by_id
        self.share_groups = groups.share_groups
        self.offsets = OffsetRequests(self.groups, settings)
        self._records = GroupRecords(self.groups, self.share_groups, self.offsets.offsets)
        self._rebalances = Rebalances(groups.classic, settings)
        self._joining = ClassicJoin(self._rebalances, lambda: str(new_uuid()))
        self._membership = Membership(self._rebalances)
        downgrades = Downgrades(groups, self._rebalances)
        self._heartbeats = ConsumerHeartbeats(groups, downgrades, lambda: uuid_to_text(new_uuid()))
        self._share_heartbeats = ShareHeartbeats(groups)
        self._streams_heartbeats = StreamsHeartbeats(groups)
        self._classic_members = ClassicMembers(groups, self._heartbeats, lambda: uuid_to_text(new_uuid()))

    @property
    def settings(self) -> GroupSettings:
        return self._all.settings

    @property
    def image(self) -> ClusterImage:
        return self._all.image

    def settings_changed(self, settings: GroupSettings) -> None:
        self._all.settings = settings

    def follow(self, image: ClusterImage) -> None:
        self._all.image = image

    # Questions

    def consumer_group(self, group_id: str) -> ConsumerGroup:
        return self._all.consumer_group(group_id)

    def streams_group(self, group_id: str) -> StreamsGroup:
        return self._all.streams_group(group_id, missing="Group {} not found.")

    def share_group(self, group_id: str) -> ShareGroup:
        return self._all.share_group(group_id)

    def empty_share_group(self, group_id: str) -> ShareGroup:
        return self._all.empty_share_group(group_id)

    # The classic protocol

    def join(self, request: JoinRequest, token: Token, now_ms: int) -> Result:
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return self._join_consumer_group(group, request, token, now_ms)
        self._all.check_no_share_group(request.group_id, ErrorCode.inconsistent_group_protocol)
        effects = Effects()
        if isinstance(group, StreamsGroup) and not group.is_empty:
            effects.answer(token, JoinReply(NO_MEMBER_ID, ErrorCode.inconsistent_group_protocol))
            return effects.result(DEFERRED)
        if isinstance(group, ConsumerGroup | StreamsGroup):
            self._write_tombstones(group, effects)
            group = None
        is_new = group is None
        if group is None:
            if request.member_id != NO_MEMBER_ID:
                effects.answer(token, JoinReply(request.member_id, ErrorCode.unknown_member_id))
                return effects.result(DEFERRED)
            group = self.groups[request.group_id] = ClassicGroup(request.group_id, state_since_ms=now_ms)
        self._joining.join(group, request, token, effects, now_ms)
        if is_new and not any(r.key == group_metadata_key(group.group_id) for r in effects.records):
            # A group exists from its first request on: the next coordinator must find it in the log.
            effects.write(group_metadata_key(group.group_id), _empty_group(now_ms))
        return effects.result(DEFERRED, replay=False)

    def _join_consumer_group(self, group: ConsumerGroup, request: JoinRequest, token: Token, now_ms: int) -> Result:
        effects = Effects()
        try:
            downgrade = self._classic_members.join(group, request, token, effects, now_ms)
        except Refused as refused:
            return Result(reply=DEFERRED, answers=[(token, JoinReply(NO_MEMBER_ID, refused.code))])
        if downgrade is None:
            return effects.result(DEFERRED)
        # The records of the consumer group are obsolete.
        answers = Effects()
        answers.answers = effects.answers
        self._heartbeats.become_classic(
            group, [downgrade.replaced], downgrade.joining, answers, now_ms, rebalances=downgrade.rebalances
        )
        return answers.result(DEFERRED, replay=False)

    def sync(self, request: SyncRequest, token: Token) -> Result:
        group = self.groups.get(request.group_id)
        if group is None or group.is_empty or isinstance(group, StreamsGroup):
            raise Refused(ErrorCode.unknown_member_id, f"group {request.group_id} has no member {request.member_id!r}")
        effects = Effects()
        if isinstance(group, ConsumerGroup):
            effects.answer(token, self._classic_members.sync(group, request, effects))
        else:
            self._membership.sync(group, request, token, effects)
        return effects.result(DEFERRED, replay=False)

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int) -> Result:
        group = self.groups.get(group_id)
        if group is None or isinstance(group, StreamsGroup):
            raise Refused(ErrorCode.unknown_member_id, f"group {group_id} has no member {member_id!r}")
        effects = Effects()
        if isinstance(group, ConsumerGroup):
            error = self._classic_members.heartbeat(group, member_id, instance_id, generation, effects)
        else:
            error = self._membership.heartbeat(group, member_id, instance_id, generation, effects)
        return effects.result(error, replay=False)

    def leave(self, group_id: str, leaving: Sequence[LeavingMember], now_ms: int) -> Result:
        group = self.groups.get(group_id)
        effects = Effects()
        if group is None or isinstance(group, StreamsGroup):
            return Result(
                reply=[LeftMember(one.member_id, one.instance_id, ErrorCode.unknown_member_id) for one in leaving]
            )
        if isinstance(group, ConsumerGroup):
            return self._classic_members.leave(group, leaving, now_ms)
        return effects.result(self._membership.leave(group, leaving, effects, now_ms), replay=False)

    # The consumer protocol

    def consumer_heartbeat(self, request: HeartbeatRequest, now_ms: int) -> Result:
        return self._heartbeats.heartbeat(request, now_ms)

    # Streams groups

    def streams_heartbeat(self, request: StreamsHeartbeatRequest, now_ms: int) -> Result:
        return self._streams_heartbeats.heartbeat(request, now_ms)

    # Share groups

    def share_heartbeat(self, request: ShareHeartbeatRequest, now_ms: int) -> Result:
        return self._share_heartbeats.heartbeat(request, now_ms)

    def begin_share_partitions(self, group_id: str, partitions: NamedPartitions) -> Result:
        """An administrator resets share partitions, also of a new group. The reply is the group's epoch."""
        known = group_id in self.share_groups
        group = self.empty_share_group(group_id) if known else self._all.new_share_group(group_id)
        effects = Effects()
        if partitions:
            group.write_state_partitions(
                share_initialization.begin(group.noted or StatePartitionMetadata(), partitions), effects
            )
        return effects.result(group.epoch)

    def share_partitions_begun(self, group_id: str, partitions: NamedPartitions) -> Result:
        group = self.share_group(group_id)
        effects = Effects()
        group.write_state_partitions(
            share_initialization.have_begun(group.noted or StatePartitionMetadata(), partitions), effects
        )
        return effects.result()

    def end_share_partitions(self, group_id: str, topics: Sequence[str]) -> Result:
        """The reply is a `DeletionPlan`."""
        effects = Effects()
        group = self.empty_share_group(group_id)
        return effects.result(share_initialization.note_going(group, topics, self.image, effects))

    def end_share_group(self, group_id: str) -> Result:
        """The reply is all its share partitions, to be deleted before `delete_share_group`."""
        effects = Effects()
        group = self.empty_share_group(group_id)
        return effects.result(share_initialization.note_all_going(group, self.image, effects))

    def share_partitions_ended(self, group_id: str, topic_ids: Collection[uuid.UUID]) -> Result:
        effects = Effects()
        group = self.share_group(group_id)
        if group.noted is not None:
            deleting = {i: name for i, name in group.noted.deleting.items() if i not in topic_ids}
            group.write_state_partitions(replace(group.noted, deleting=deleting), effects)
        return effects.result()

    def share_topics_deleted(self, topic_ids: Collection[uuid.UUID]) -> Result:
        effects = Effects()
        for group in self.share_groups.values():
            if group.noted is not None:
                rest = share_initialization.without_topics(group.noted, topic_ids)
                if rest != group.noted:
                    group.write_state_partitions(rest, effects)
        return effects.result(atomic=False)

    def delete_share_group(self, group_id: str) -> Result:
        effects = Effects()
        self.empty_share_group(group_id).write_tombstones(effects)
        return effects.result()

    # Offsets

    def commit_offsets(self, request: CommitRequest, now_ms: int) -> Result:
        """The reply is the set of partitions whose metadata is too long. Raises Refused."""
        group_id = request.group_id
        if group_id in self.share_groups:
            self._all.check_no_share_group(group_id, ErrorCode.group_id_not_found)
        records, too_long = self.offsets.commit(request, now_ms)
        group = self.groups.get(group_id)
        if group is None and not records:
            # As in Kafka a commit creates its group, even if every partition is refused.
            self.groups[group_id] = ClassicGroup(group_id)
        if (
            isinstance(group, ClassicGroup)
            and (member := group.members.get(request.member_id)) is not None
            and group.state in (ClassicState.STABLE, ClassicState.PREPARING_REBALANCE)
        ):
            # A commit counts as a heartbeat of a classic member.
            effects = Effects()
            effects.records = records
            self._rebalances.keep_alive(group, member, effects)
            return effects.result(too_long)
        return Result(records, too_long)

    def commit_transactional_offsets(self, request: CommitRequest, producer: tuple[int, int], now_ms: int) -> Result:
        """The reply is the set of partitions whose metadata is too long. Raises Refused."""
        self._all.check_no_share_group(request.group_id, ErrorCode.group_id_not_found)
        result = self.offsets.commit_transactional(request, producer, now_ms)
        if not result.records and request.group_id not in self.groups:
            self.groups[request.group_id] = ClassicGroup(request.group_id)  # as for any refused commit
        return result

    # Groups as a whole

    def delete_groups(self, group_ids: Iterable[str]) -> Result:
        effects = Effects()
        errors: dict[str, ErrorCode] = {}
        for group_id in group_ids:
            group = self.groups.get(group_id)
            if group is None:
                errors[group_id] = ErrorCode.group_id_not_found
            elif not group.is_empty:
                errors[group_id] = ErrorCode.non_empty_group
            else:
                errors[group_id] = ErrorCode.none
                self.offsets.offsets.forget_group(group_id, effects)
                self._write_tombstones(group, effects)
        return effects.result(errors)

    def _write_tombstones(self, group: Group, effects: Effects) -> None:
        if isinstance(group, StreamsGroup):
            self._streams_heartbeats.forget_delay(group.group_id, effects)
        if isinstance(group, ConsumerGroup | StreamsGroup):
            group.write_tombstones(effects)
        else:
            effects.write(group_metadata_key(group.group_id), None)

    def clean_up(self, now_ms: int) -> Result:
        """Deletes expired offsets, and groups without members and offsets. Repeats after the interval."""
        effects = Effects()
        if self.image.deleted_topics:
            self.offsets.offsets.forget_ids(self.image.deleted_topics, effects)
        delay_ms = self.settings.offsets_retention_check_interval_ms
        for group in self.groups.values():
            if self.offsets.expire(group, now_ms, effects) and group.is_empty:
                self._write_tombstones(group, effects)
            if len(effects.records) >= _MOST_TOMBSTONES:
                delay_ms = 10  # the rest in a moment, so that other requests run in between
                break
        interval_ms = self.settings.offsets_retention_check_interval_ms
        effects.timers.append(Timer(_CLEAN_UP, delay_ms, self.clean_up, retry_ms=interval_ms))
        return effects.result(atomic=False)

    # Life

    def replay(self, key: bytes, value: bytes | None, offset: int, producer_id: int, producer_epoch: int) -> None:
        self._records.replay(key, value, offset, producer_id)

    def replay_end_marker(self, producer_id: int, producer_epoch: int, commit: bool) -> None:
        self.offsets.offsets.replay_end_marker(producer_id, commit)

    def loaded(self, now_ms: int) -> Result:
        effects = Effects()
        for share_group in self.share_groups.values():
            for member_id in share_group.members:
                self._share_heartbeats.keep_alive(share_group.group_id, member_id, effects)
        for group in self.groups.values():
            if isinstance(group, ConsumerGroup):
                self._watch_consumer_members(group, effects)
                continue
            if isinstance(group, StreamsGroup):
                for streams_member in group.members.values():
                    self._streams_heartbeats.keep_alive(group.group_id, streams_member.member_id, effects)
                    self._streams_heartbeats.watch_revocation(group.group_id, streams_member, effects)
                continue
            for member in group.members.values():
                self._rebalances.keep_alive(group, member, effects)
            is_left_behind = group.leader is None and bool(group.members)
            if is_left_behind:
                group.leader = next(iter(group.members))
            if is_left_behind or len(group.members) > self.settings.max_size:
                self._rebalances.prepare(group, effects, now_ms)
        effects.timers.append(Timer(_CLEAN_UP, self.settings.offsets_retention_check_interval_ms, self.clean_up))
        return effects.result(replay=False)

    def _watch_consumer_members(self, group: ConsumerGroup, effects: Effects) -> None:
        for member in group.members.values():
            classic = member.about.classic
            timeout_ms = self.settings.consumer_session_timeout_ms if classic is None else classic.session_timeout_ms
            self._heartbeats.keep_alive(group.group_id, member.member_id, timeout_ms, effects)
            if classic is None and member.state is MemberState.UNREVOKED_PARTITIONS:
                self._heartbeats.watch_rebalance(group.group_id, member, effects)

    def unloaded(self) -> list[Answer]:
        return self.refuse_waiting()

    def refuse_waiting(self) -> list[Answer]:
        effects = Effects()
        for group in self.groups.values():
            if isinstance(group, ClassicGroup):
                for member in group.members.values():
                    group.answer_join(member, JoinReply(member.member_id, ErrorCode.not_coordinator), effects)
                    group.answer_sync(member, SyncReply(ErrorCode.not_coordinator), effects)
        return effects.answers


def _empty_group(now_ms: int) -> bytes:
    effects = Effects()
    ClassicGroup("", state=ClassicState.EMPTY, state_since_ms=now_ms).write_to(effects)
    value = effects.records[0].value
    assert value is not None
    return value
