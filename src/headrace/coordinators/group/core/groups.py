"""The groups of one partition of `__consumer_offsets` by id, with the image and the settings that they depend on.

The shard and the state machines of the protocols share it. Replayed records add and remove groups.
"""

from __future__ import annotations

from headrace.cluster.core.image import EMPTY_IMAGE, ClusterImage
from headrace.coordinators.codec.classic_groups import group_metadata_key
from headrace.coordinators.group.core.classic.group import ClassicGroup
from headrace.coordinators.group.core.consumer.group import ConsumerGroup
from headrace.coordinators.group.core.effects import Effects
from headrace.coordinators.group.core.settings import GroupSettings
from headrace.coordinators.group.core.share.group import ShareGroup
from headrace.coordinators.group.core.streams.group import StreamsGroup
from headrace.kernel.errors import ErrorCode, Refused

Group = ClassicGroup | ConsumerGroup | StreamsGroup


class Groups:
    """`by_id` has classic, consumer and streams groups, `share_groups` the others. An id is in one of them at most."""

    def __init__(self, settings: GroupSettings, image: ClusterImage = EMPTY_IMAGE) -> None:
        self.settings = settings
        self.image = image
        self.by_id: dict[str, Group] = {}
        self.share_groups: dict[str, ShareGroup] = {}

    def classic(self, group_id: str) -> ClassicGroup | None:
        group = self.by_id.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def consumer_group(self, group_id: str) -> ConsumerGroup:
        """Raises GROUP_ID_NOT_FOUND."""
        group = self.by_id.get(group_id)
        if not isinstance(group, ConsumerGroup):
            raise Refused(ErrorCode.group_id_not_found, f"Consumer group {group_id} not found.")
        return group

    def streams_group(self, group_id: str, missing: str = "Streams group {} not found.") -> StreamsGroup:
        """Raises GROUP_ID_NOT_FOUND."""
        group = self.by_id.get(group_id)
        if isinstance(group, StreamsGroup):
            return group
        is_other = group is not None or group_id in self.share_groups
        message = f"Group {group_id} is not a streams group." if is_other else missing.format(group_id)
        raise Refused(ErrorCode.group_id_not_found, message)

    def streams_group_to_join(self, group_id: str, effects: Effects) -> StreamsGroup:
        """Possibly a new group, also in place of an empty classic group. Only its replayed records add it. Raises
        GROUP_ID_NOT_FOUND for a group of another type."""
        group = self.by_id.get(group_id)
        if isinstance(group, ClassicGroup) and group.is_empty:
            effects.write(group_metadata_key(group_id), None)
            return StreamsGroup(group_id)
        if group is None and group_id not in self.share_groups:
            return StreamsGroup(group_id)
        return self.streams_group(group_id)

    def share_group(self, group_id: str) -> ShareGroup:
        """Raises GROUP_ID_NOT_FOUND."""
        group = self.share_groups.get(group_id)
        if group is None:
            raise Refused(ErrorCode.group_id_not_found, f"Share group {group_id} not found.")
        return group

    def empty_share_group(self, group_id: str) -> ShareGroup:
        """Raises GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP."""
        group = self.share_group(group_id)
        if not group.is_empty:
            raise Refused(ErrorCode.non_empty_group, f"Share group {group_id} has members: stop them first.")
        return group

    def new_share_group(self, group_id: str) -> ShareGroup:
        """Not added to the groups: its replayed records do that. Raises GROUP_ID_NOT_FOUND for a group of another
        type."""
        if group_id in self.by_id:
            raise Refused(ErrorCode.group_id_not_found, f"Group {group_id} is not a share group.")
        return ShareGroup(group_id)

    def check_no_share_group(self, group_id: str, code: ErrorCode) -> None:
        if group_id in self.share_groups:
            raise Refused(code, f"Group {group_id} is a share group.")
