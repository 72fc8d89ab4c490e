"""Replays the records of `__consumer_offsets` into groups and offsets: the only way their durable state changes.

A record of an unknown type or version was written by a newer release. It is skipped, so that a broker starts after a
downgrade and loses only the state it cannot read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headrace.coordinators.codec import classic_groups, consumer_groups, offsets, streams_groups
from headrace.coordinators.codec.primitives import UnreadableRecord, int16, key_type, key_words
from headrace.coordinators.group.core.classic.group import ClassicGroup, from_record
from headrace.coordinators.group.core.consumer.group import ConsumerGroup, ResolvedRegex
from headrace.coordinators.group.core.offsets.committed import Offsets
from headrace.coordinators.group.core.share import replay as share_records
from headrace.coordinators.group.core.share.group import ShareGroup
from headrace.coordinators.group.core.streams import replay as streams_records
from headrace.coordinators.group.core.streams.group import StreamsGroup

Group = ClassicGroup | ConsumerGroup | StreamsGroup
# First bytes of a key: most records are offsets, so their type is checked first.
_OFFSETS: Final = frozenset(map(int16, (offsets.OFFSET_COMMIT, offsets.LEGACY_OFFSET_COMMIT)))
_KEY_WORDS: Final = {
    consumer_groups.GROUP_METADATA: 1,
    consumer_groups.TARGET_METADATA: 1,
    consumer_groups.MEMBER_METADATA: 2,
    consumer_groups.TARGET_MEMBER: 2,
    consumer_groups.CURRENT_ASSIGNMENT: 2,
    consumer_groups.REGULAR_EXPRESSION: 2,
}


class GroupRecords:
    def __init__(self, groups: dict[str, Group], share_groups: dict[str, ShareGroup], committed: Offsets) -> None:
        self._groups = groups
        self._share_groups = share_groups
        self._committed = committed
        self.unreadable = 0
        self._by_type: dict[int, Callable[[list[str], bytes | None], None]] = {
            consumer_groups.GROUP_METADATA: self._group_epoch,
            consumer_groups.TARGET_METADATA: self._target_epoch,
            consumer_groups.MEMBER_METADATA: self._member,
            consumer_groups.TARGET_MEMBER: self._target,
            consumer_groups.CURRENT_ASSIGNMENT: self._current,
            consumer_groups.REGULAR_EXPRESSION: self._regex,
        }

    def replay(self, key: bytes, value: bytes | None, offset: int, producer_id: int) -> None:
        try:
            if key[:2] in _OFFSETS:
                group_id = self._committed.replay(key, value, offset, producer_id)
                if group_id is not None and group_id not in self._groups:
                    # Offsets without members: a consumer with manual assignment.
                    self._groups[group_id] = ClassicGroup(group_id)
                return
            record_type = key_type(key)
            if record_type == classic_groups.GROUP_METADATA:
                self._classic(key_words(key, 1)[0], value)
            elif record_type in share_records.KINDS:
                share_records.replay_share_record(self._share_groups, record_type, key, value)
            elif record_type in streams_records.KINDS:
                self._streams(record_type, streams_records.words_of(record_type, key), value)
            elif record_type in self._by_type:
                self._by_type[record_type](key_words(key, _KEY_WORDS[record_type]), value)
        except (UnreadableRecord, UnicodeDecodeError):
            self.unreadable += 1

    def _classic(self, group_id: str, value: bytes | None) -> None:
        if value is not None:
            self._groups[group_id] = from_record(group_id, classic_groups.read_group_metadata_value(value))
        elif isinstance(self._groups.get(group_id), ClassicGroup):
            del self._groups[group_id]

    def _streams(self, record_type: int, words: list[str], value: bytes | None) -> None:
        group_id = words[0]
        group = self._groups.get(group_id)
        if not isinstance(group, StreamsGroup):
            # A group that had only offsets so far gets the type of its members.
            if value is None or (group is not None and not group.is_empty):
                return
            group = self._groups[group_id] = StreamsGroup(group_id)
        if record_type == streams_groups.GROUP_METADATA and value is None:
            del self._groups[group_id]
            return
        streams_records.replay_streams_record(group, record_type, words[-1], value)

    def _consumer(self, group_id: str, *, create: bool) -> ConsumerGroup | None:
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        # A group that had only offsets so far gets the type of its members.
        if create and (group is None or group.is_empty):
            fresh = self._groups[group_id] = ConsumerGroup(group_id)
            return fresh
        return None

    def _group_epoch(self, words: list[str], value: bytes | None) -> None:
        group = self._consumer(words[0], create=value is not None)
        if group is None:
            return
        if value is None:
            del self._groups[words[0]]
        else:
            group.epoch, group.metadata_hash = consumer_groups.read_group_metadata_value(value)

    def _target_epoch(self, words: list[str], value: bytes | None) -> None:
        group = self._consumer(words[0], create=value is not None)
        if group is not None:
            group.assignment_epoch, group.assigned_at_ms = (
                (-1, 0) if value is None else consumer_groups.read_target_metadata_value(value)
            )

    def _member(self, words: list[str], value: bytes | None) -> None:
        group = self._consumer(words[0], create=value is not None)
        if group is not None:
            group.replay_member(words[1], None if value is None else consumer_groups.read_member_metadata_value(value))

    def _target(self, words: list[str], value: bytes | None) -> None:
        group = self._consumer(words[0], create=value is not None)
        if group is not None:
            group.replay_target(words[1], None if value is None else consumer_groups.read_target_member_value(value))

    def _current(self, words: list[str], value: bytes | None) -> None:
        group = self._consumer(words[0], create=value is not None)
        if group is not None:
            group.replay_current(
                words[1], None if value is None else consumer_groups.read_current_assignment_value(value)
            )

    def _regex(self, words: list[str], value: bytes | None) -> None:
        group = self._consumer(words[0], create=value is not None)
        if group is None:
            return
        if value is None:
            group.regexes.pop(words[1], None)
        else:
            group.regexes[words[1]] = ResolvedRegex(*consumer_groups.read_regular_expression_value(value))
