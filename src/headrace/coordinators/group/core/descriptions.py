"""Answers of DescribeGroups, ConsumerGroupDescribe and ListGroups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import NamedTuple

from headrace.coordinators.group.core.classic.group import ClassicGroup, ClassicState
from headrace.coordinators.group.core.consumer.group import ConsumerGroup
from headrace.coordinators.group.core.share.group import ShareGroup
from headrace.coordinators.group.core.streams.group import PROTOCOL_TYPE as STREAMS
from headrace.coordinators.group.core.streams.group import StreamsGroup
from headrace.kernel.dataclass import dataclass

Group = ClassicGroup | ConsumerGroup | ShareGroup | StreamsGroup


class ListedGroup(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
    type: str


class DescribedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes = b""
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class DescribedClassicGroup:
    group_id: str
    state: str
    protocol_type: str
    protocol: str = ""
    members: tuple[DescribedMember, ...] = field(default=())


def list_groups(
    groups: Mapping[str, Group], states: Iterable[str] = (), types: Iterable[str] = ()
) -> list[ListedGroup]:
    """Filters ignore case; an empty filter matches everything."""
    wanted_states = {state.lower() for state in states}
    wanted_types = {kind.lower() for kind in types}
    listed = []
    for group_id, group in groups.items():
        if isinstance(group, ConsumerGroup):
            entry = ListedGroup(group_id, group.protocol_type, group.state_name, "consumer")
        elif isinstance(group, ShareGroup):
            entry = ListedGroup(group_id, "share", group.state_name, "share")
        elif isinstance(group, StreamsGroup):
            entry = ListedGroup(group_id, STREAMS, group.state_name, STREAMS)
        else:
            entry = ListedGroup(group_id, group.protocol_type or "", group.state.value, "classic")
        # As in Kafka the filter of this one state has an underscore.
        state = "not_ready" if entry.state == "NotReady" else entry.state.lower()
        if wanted_states and state not in wanted_states:
            continue
        if wanted_types and entry.type.lower() not in wanted_types:
            continue
        listed.append(entry)
    return listed


def describe_classic(group: Group | None) -> DescribedClassicGroup | None:
    """None for an unknown group, or one of another type."""
    if not isinstance(group, ClassicGroup):
        return None
    if group.state is ClassicState.STABLE:
        members = tuple(
            DescribedMember(
                m.member_id, m.instance_id, m.client_id, m.client_host, m.metadata(group.protocol_name), m.assignment
            )
            for m in group.members.values()
        )
        return DescribedClassicGroup(
            group.group_id, group.state.value, group.protocol_type or "", group.protocol_name or "", members
        )
    # During a rebalance no subscription is shown; the last assignments are, as in Kafka.
    bare = tuple(
        DescribedMember(m.member_id, m.instance_id, m.client_id, m.client_host, assignment=m.assignment)
        for m in group.members.values()
    )
    return DescribedClassicGroup(group.group_id, group.state.value, group.protocol_type or "", "", bare)
