"""StreamsGroupDescribe (key 89, version 0): streams groups (KIP-1071): topology, members and their tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar

from headrace.coordinators.codec.streams_topology import InternalTopicInfo
from headrace.coordinators.group.coordinator import GroupCoordinator
from headrace.coordinators.group.core.streams.group import NO_TASKS, StreamsGroup, StreamsMember
from headrace.handlers.dispatch.authorization import NOT_ASKED, Access, Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.security.acl.model import Operation, ResourceType
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages import streams_group_describe as wire


@dataclass(frozen=True)
class StreamsGroupDescribe(Handler):
    groups: GroupCoordinator

    api_key: ClassVar[ApiKey] = ApiKey.STREAMS_GROUP_DESCRIBE
    versions: ClassVar[range] = range(1)
    needs: ClassVar[Needs] = Needs(group=Operation.DESCRIBE, topic=Operation.DESCRIBE)

    async def serve(
        self, request: wire.StreamsGroupDescribeRequest, context: RequestContext
    ) -> wire.StreamsGroupDescribeResponse:
        asks, access = request.include_authorized_operations, context.access
        described = (self._describe(g, access, asks_operations=asks) for g in request.group_ids)
        return {"groups": await asyncio.gather(*described)}

    async def _describe(self, group_id: str, access: Access, *, asks_operations: bool) -> wire.DescribedGroup:
        try:
            self.groups.require_streams()
            access.require(Operation.DESCRIBE, ResourceType.GROUP, group_id)
            group = await self.groups.describe_streams(group_id)
            topology = _topology(group)
            _check_topics(topology, access)
        except Fault as fault:
            return {
                "error_code": fault.code,
                "error_message": fault.message,
                "group_id": group_id,
                "group_state": "",
                "group_epoch": 0,
                "assignment_epoch": 0,
                "topology": None,
                "members": [],
                "authorized_operations": NOT_ASKED,
            }
        return {
            "error_code": ErrorCode.none,
            "error_message": None,
            "group_id": group.group_id,
            "group_state": group.state_name,
            "group_epoch": group.epoch,
            "assignment_epoch": group.assignment_epoch,
            "topology": topology,
            "members": [_member(member, group) for member in group.members.values()],
            "authorized_operations": access.operations(ResourceType.GROUP, group_id) if asks_operations else NOT_ASKED,
        }


def _topology(group: StreamsGroup) -> wire.Topology:
    """With decided partition counts once the topics fit, otherwise as the application sent it."""
    configured = group.configured
    if configured is not None and configured.is_ready:
        return {
            "epoch": configured.epoch,
            "subtopologies": [
                _subtopology(
                    name,
                    each.source_topics,
                    each.repartition_sink_topics,
                    each.repartition_source_topics,
                    each.changelog_topics,
                )
                for name, each in (configured.subtopologies or {}).items()
            ],
        }
    if group.topology is None:
        raise Refused(ErrorCode.unknown_server_error, f"streams group {group.group_id} has no topology")
    return {
        "epoch": group.topology.epoch,
        "subtopologies": [
            _subtopology(
                name,
                each.source_topics,
                each.repartition_sink_topics,
                each.repartition_source_topics,
                each.changelog_topics,
            )
            for name, each in sorted(group.topology.by_id.items())
        ],
    }


def _subtopology(
    name: str,
    source_topics: Iterable[str],
    sink_topics: Iterable[str],
    repartition_topics: Iterable[InternalTopicInfo],
    changelog_topics: Iterable[InternalTopicInfo],
) -> wire.Subtopology:
    return {
        "subtopology_id": name,
        "source_topics": sorted(source_topics),
        "repartition_sink_topics": sorted(sink_topics),
        "state_changelog_topics": [_topic_info(topic) for topic in sorted(changelog_topics)],
        "repartition_source_topics": [_topic_info(topic) for topic in sorted(repartition_topics)],
    }


def _topic_info(topic: InternalTopicInfo) -> wire.TopicInfo:
    return {
        "name": topic.name,
        "partitions": topic.partitions,
        "replication_factor": topic.replication_factor,
        "topic_configs": [{"key": key, "value": value} for key, value in topic.configs],
    }


def _check_topics(topology: wire.Topology, access: Access) -> None:
    """A client that may not describe a topic of the application does not see the group."""
    for each in topology["subtopologies"] or ():
        internal = (*each["state_changelog_topics"], *each["repartition_source_topics"])
        names = (*each["source_topics"], *each["repartition_sink_topics"], *(topic["name"] for topic in internal))
        if not all(access.may(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in names):
            raise Refused(
                ErrorCode.topic_authorization_failed,
                "The described group uses topics that the client is not authorized to describe.",
            )


def _member(member: StreamsMember, group: StreamsGroup) -> wire.Member:
    about = member.about
    endpoint = about.user_endpoint
    return {
        "member_id": member.member_id,
        "member_epoch": member.epoch,
        "instance_id": about.instance_id,
        "rack_id": about.rack_id,
        "client_id": about.client_id,
        "client_host": about.client_host,
        "topology_epoch": about.topology_epoch,
        "process_id": about.process_id,
        "user_endpoint": None if endpoint is None else {"host": endpoint.host, "port": endpoint.port},
        "client_tags": [{"key": key, "value": value} for key, value in about.client_tags],
        "task_offsets": [],
        "task_end_offsets": [],
        "assignment": _assignment(*member.assigned),
        "target_assignment": _assignment(*group.target.get(member.member_id, NO_TASKS)),
        "is_classic": False,
    }


def _assignment(
    active: Mapping[str, Collection[int]],
    standby: Mapping[str, Collection[int]],
    warmup: Mapping[str, Collection[int]],
) -> wire.Assignment:
    return {"active_tasks": _task_ids(active), "standby_tasks": _task_ids(standby), "warmup_tasks": _task_ids(warmup)}


def _task_ids(tasks: Mapping[str, Collection[int]]) -> list[wire.TaskIds]:
    return [{"subtopology_id": name, "partitions": sorted(numbers)} for name, numbers in sorted(tasks.items())]
