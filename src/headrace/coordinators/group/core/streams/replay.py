"""Replays the records of streams groups (types 17 and 19 to 23)."""

from __future__ import annotations

from typing import Final

from headrace.coordinators.codec import consumer_groups, streams_groups
from headrace.coordinators.codec.primitives import key_words
from headrace.coordinators.codec.streams_topology import TOPOLOGY, read_topology_value
from headrace.coordinators.group.core.streams.group import StreamsGroup

KINDS: Final = frozenset(
    (
        streams_groups.GROUP_METADATA,
        streams_groups.MEMBER_METADATA,
        streams_groups.TARGET_METADATA,
        streams_groups.TARGET_MEMBER,
        streams_groups.CURRENT_ASSIGNMENT,
        TOPOLOGY,
    )
)
_OF_MEMBERS: Final = (
    streams_groups.MEMBER_METADATA,
    streams_groups.TARGET_MEMBER,
    streams_groups.CURRENT_ASSIGNMENT,
)


def words_of(kind: int, key: bytes) -> list[str]:
    """The group id, and the member id for a record of a member."""
    return key_words(key, 2 if kind in _OF_MEMBERS else 1)


def replay_streams_record(group: StreamsGroup, kind: int, member_id: str, value: bytes | None) -> None:
    """A tombstone of the group's metadata is the caller's: it removes the group."""
    if kind == streams_groups.GROUP_METADATA:
        assert value is not None, "the caller removes the group"
        group.replay_metadata(streams_groups.read_group_metadata_value(value))
    elif kind == TOPOLOGY:
        group.topology = None if value is None else read_topology_value(value)
    elif kind == streams_groups.TARGET_METADATA:
        group.assignment_epoch, group.assigned_at_ms = (
            (-1, 0) if value is None else consumer_groups.read_target_metadata_value(value)
        )
    elif kind == streams_groups.MEMBER_METADATA:
        group.replay_member(member_id, None if value is None else streams_groups.read_member_metadata_value(value))
    elif kind == streams_groups.TARGET_MEMBER:
        group.replay_target(member_id, None if value is None else streams_groups.read_target_member_value(value))
    else:
        group.replay_current(member_id, None if value is None else streams_groups.read_current_assignment_value(value))
