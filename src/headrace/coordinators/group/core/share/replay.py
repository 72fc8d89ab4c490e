"""Replays the records of share groups (types 10 to 15)."""

from __future__ import annotations

from dataclasses import replace

from headrace.coordinators.codec import consumer_groups, share_groups
from headrace.coordinators.codec.primitives import key_words
from headrace.coordinators.codec.share_groups import ShareMemberMetadata
from headrace.coordinators.group.core.share.group import ShareGroup, ShareMember

KINDS = range(share_groups.MEMBER_METADATA, share_groups.STATE_PARTITION_METADATA + 1)
_OF_MEMBERS = (share_groups.MEMBER_METADATA, share_groups.TARGET_MEMBER, share_groups.CURRENT_ASSIGNMENT)
_NOBODY = ShareMemberMetadata(None, "", "", ())


def replay_share_record(groups: dict[str, ShareGroup], kind: int, key: bytes, value: bytes | None) -> None:
    words = key_words(key, 2 if kind in _OF_MEMBERS else 1)
    group = groups.get(words[0])
    if group is None:
        if value is None:
            return
        group = groups[words[0]] = ShareGroup(words[0])
    if kind == share_groups.GROUP_METADATA:
        if value is None:
            del groups[words[0]]
        else:
            group.epoch, group.metadata_hash = share_groups.read_group_metadata_value(value)
    elif kind == share_groups.TARGET_METADATA:
        group.assignment_epoch, group.assigned_at_ms = (
            (0, 0) if value is None else consumer_groups.read_target_metadata_value(value)
        )
    elif kind == share_groups.STATE_PARTITION_METADATA:
        group.noted = None if value is None else share_groups.read_state_partition_metadata_value(value)
    else:
        _replay_member(group, kind, words[1], value)


def _replay_member(group: ShareGroup, kind: int, member_id: str, value: bytes | None) -> None:
    if kind == share_groups.TARGET_MEMBER:
        if value is None:
            group.target.pop(member_id, None)
        else:
            group.target[member_id] = consumer_groups.read_target_member_value(value)
        return
    known = group.members.get(member_id)
    if kind == share_groups.MEMBER_METADATA:
        if value is None:
            group.members.pop(member_id, None)
            return
        about = share_groups.read_member_metadata_value(value)
        group.members[member_id] = ShareMember(member_id, about) if known is None else replace(known, about=about)
    elif value is None:
        if known is not None:
            group.members[member_id] = replace(known, epoch=-1, assigned={})
    else:
        current = share_groups.read_current_assignment_value(value)
        group.members[member_id] = replace(
            known or ShareMember(member_id, _NOBODY),
            epoch=current.member_epoch,
            previous_epoch=current.previous_member_epoch,
            assigned=current.assigned,
        )
