"""Consumer groups, their members, and lag."""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from headrace.client.cluster_client import ClusterClient
from headrace.client.group_members import GroupMember, assigned_partitions, classic_assignment
from headrace.client.offsets import LATEST, list_offsets
from headrace.http.call import Call, as_json
from headrace.http.endpoint import Endpoint
from headrace.http.v3.resources import CLUSTER, LIST_ANSWER, RESOURCE_ANSWER, Links, check_cluster
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.kernel.ids import TopicPartition
from headrace.kernel.json_values import JsonObject
from headrace.web.errors import Problem
from headrace.wire.apis import ApiKey

GROUP = f"{CLUSTER}/consumer-groups/{{consumer_group_id}}"


@dataclass(frozen=True, slots=True)
class Group:
    id: str
    state: str
    assignor: str
    is_simple: bool
    coordinator: int
    members: tuple[GroupMember, ...]


async def described_group(client: ClusterClient, name: str) -> Group:
    """By ConsumerGroupDescribe, then by DescribeGroups for classic groups. Raises Refused for an unknown group."""
    node = await client.coordinator(name)
    connection = await client.connection(node)
    body = {"group_ids": [name], "groups": [name], "include_authorized_operations": False}
    if ApiKey.CONSUMER_GROUP_DESCRIBE in connection.versions:
        group = (await connection.request(ApiKey.CONSUMER_GROUP_DESCRIBE, body)).groups[0]
        if not group.error_code:
            members = tuple(
                GroupMember(
                    str(m.member_id),
                    m.instance_id,
                    str(m.client_id),
                    str(m.client_host),
                    assigned_partitions(m.assignment),
                )
                for m in group.members
            )
            return Group(name, str(group.group_state), str(group.assignor_name), False, node, members)
    group = (await connection.request(ApiKey.DESCRIBE_GROUPS, body)).groups[0]
    code = ErrorCode(group.error_code)
    if code is ErrorCode.none and str(group.group_state) == "Dead":
        code = ErrorCode.group_id_not_found
    if code is not ErrorCode.none:
        gone = code is ErrorCode.group_id_not_found
        raise Refused(code, f"consumer group {name!r} does not exist" if gone else f"group {name!r}: {code.name}")
    members = tuple(
        GroupMember(
            str(m.member_id),
            m.group_instance_id,
            str(m.client_id),
            str(m.client_host),
            classic_assignment(m.member_assignment),
        )
        for m in group.members
    )
    return Group(name, str(group.group_state), str(group.protocol_data), not group.protocol_type, node, members)


def _group(links: Links, group: Group) -> JsonObject:
    path = ("consumer-groups", group.id)
    return links.resource(
        "KafkaConsumerGroup",
        path,
        {
            "consumer_group_id": group.id,
            "is_simple": group.is_simple,
            "partition_assignor": group.assignor,
            "state": group.state.upper().replace(" ", "_"),
            "coordinator": links.related("brokers", group.coordinator),
            "consumers": links.related(*path, "consumers"),
            "lag_summary": links.related(*path, "lag-summary"),
        },
    )


async def list_groups(call: Call) -> Response:
    async with call.client() as client:
        links = Links(call, await check_cluster(call, client))
        body: dict[str, list[str]] = {"states_filter": [], "types_filter": []}
        nodes = (await client.refresh(())).nodes
        answers = await asyncio.gather(*(client.request(ApiKey.LIST_GROUPS, body, node=node) for node in nodes))
        shown = []
        for node, answer in zip(nodes, answers, strict=True):
            for one in answer.groups:
                if str(getattr(one, "group_type", "classic")).lower() == "share":
                    continue
                state = str(getattr(one, "group_state", ""))
                group = Group(str(one.group_id), state, "", not one.protocol_type, node, ())
                shown.append(_group(links, group))
    shown.sort(key=lambda one: str(one["consumer_group_id"]))
    return as_json(links.listed("KafkaConsumerGroupList", ("consumer-groups",), shown))


async def _called(call: Call, client: ClusterClient) -> tuple[Links, Group]:
    links = Links(call, await check_cluster(call, client))
    return links, await described_group(client, call.path("consumer_group_id"))


async def get_group(call: Call) -> Response:
    async with call.client() as client:
        return as_json(_group(*await _called(call, client)))


def _consumer(links: Links, group: Group, member: GroupMember) -> JsonObject:
    path = ("consumer-groups", group.id, "consumers", member.id)
    fields = {
        "consumer_group_id": group.id,
        "consumer_id": member.id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "assignments": links.related(*path, "assignments"),
    }
    return links.resource("KafkaConsumer", path, fields)


async def list_consumers(call: Call) -> Response:
    async with call.client() as client:
        links, group = await _called(call, client)
    shown = [_consumer(links, group, member) for member in group.members]
    return as_json(links.listed("KafkaConsumerList", ("consumer-groups", group.id, "consumers"), shown))


async def get_consumer(call: Call) -> Response:
    wanted = call.path("consumer_id")
    async with call.client() as client:
        links, group = await _called(call, client)
    for member in group.members:
        if member.id == wanted:
            return as_json(_consumer(links, group, member))
    raise Problem(404, 404, f"group {group.id!r} has no consumer {wanted!r}")


async def committed_offsets(client: ClusterClient, group: str) -> dict[TopicPartition, int]:
    """The committed offsets of a group that the caller may see. Raises Refused."""
    body = {
        "group_id": group,
        "topics": None,
        "groups": [{"group_id": group, "member_id": None, "member_epoch": -1, "topics": None}],
        "require_stable": False,
    }
    answer = await client.to_coordinator(group, ApiKey.OFFSET_FETCH, body, at_most=9)
    found = answer.groups[0]
    code = ErrorCode(found.error_code)
    if code is not ErrorCode.none:
        raise Refused(code, f"group {group!r}: {code.name}")
    return {
        TopicPartition(str(topic.name), int(one.partition_index)): int(one.committed_offset)
        for topic in found.topics
        for one in topic.partitions
        if int(one.committed_offset) >= 0 and not one.error_code
    }


@dataclass(frozen=True, slots=True)
class Lag:
    partition: TopicPartition
    current: int
    end: int
    member: GroupMember | None

    @property
    def lag(self) -> int:
        return max(self.end - self.current, 0)


async def _lags(client: ClusterClient, group: Group) -> list[Lag]:
    offsets = await committed_offsets(client, group.id)
    leaders = await client.leaders(sorted({one.topic for one in offsets})) if offsets else {}
    ends = await list_offsets(client, dict.fromkeys(offsets, LATEST), leaders)
    owners = {partition: member for member in group.members for partition in member.assigned}
    found = []
    for partition in sorted(offsets):
        end = ends[partition]
        if isinstance(end, Fault):
            raise end
        found.append(Lag(partition, offsets[partition], end.offset, owners.get(partition)))
    return found


def _lag(links: Links, group: Group, lag: Lag) -> JsonObject:
    topic, number = lag.partition.topic, lag.partition.partition
    fields = {
        "consumer_group_id": group.id,
        "topic_name": topic,
        "partition_id": number,
        "current_offset": lag.current,
        "log_end_offset": lag.end,
        "lag": lag.lag,
        "consumer_id": lag.member.id if lag.member else "",
        "instance_id": lag.member.instance_id if lag.member else None,
        "client_id": lag.member.client_id if lag.member else "",
    }
    return links.resource(
        "KafkaConsumerLag", ("consumer-groups", group.id, "lags", topic, "partitions", number), fields
    )


async def list_lags(call: Call) -> Response:
    async with call.client() as client:
        links, group = await _called(call, client)
        lags = await _lags(client, group)
    shown = [_lag(links, group, lag) for lag in lags]
    return as_json(links.listed("KafkaConsumerLagList", ("consumer-groups", group.id, "lags"), shown))


async def get_lag(call: Call) -> Response:
    wanted = TopicPartition(call.path("topic_name"), call.number_in_path("partition_id"))
    async with call.client() as client:
        links, group = await _called(call, client)
        lags = await _lags(client, group)
    for lag in lags:
        if lag.partition == wanted:
            return as_json(_lag(links, group, lag))
    raise Problem(404, 404, f"group {group.id!r} has no committed offset of {wanted}")


async def lag_summary(call: Call) -> Response:
    async with call.client() as client:
        links, group = await _called(call, client)
        lags = await _lags(client, group)
    worst = max(lags, key=lambda lag: lag.lag, default=None)
    if worst is None:
        raise Problem(404, 404, f"group {group.id!r} has no committed offsets")
    member = worst.member
    partition = worst.partition
    fields = {
        "consumer_group_id": group.id,
        "max_lag_consumer_id": member.id if member else "",
        "max_lag_instance_id": member.instance_id if member else None,
        "max_lag_client_id": member.client_id if member else "",
        "max_lag_topic_name": partition.topic,
        "max_lag_partition_id": partition.partition,
        "max_lag": worst.lag,
        "total_lag": sum(lag.lag for lag in lags),
        "max_lag_consumer": (links.related("consumer-groups", group.id, "consumers", member.id) if member else None),
        "max_lag_partition": links.related("topics", partition.topic, "partitions", partition.partition),
    }
    return as_json(links.resource("KafkaConsumerGroupLagSummary", ("consumer-groups", group.id, "lag-summary"), fields))


ENDPOINTS = (
    Endpoint("GET", f"{CLUSTER}/consumer-groups", list_groups, "List the consumer groups.", answer=LIST_ANSWER),
    Endpoint("GET", GROUP, get_group, "Describe a consumer group.", answer=RESOURCE_ANSWER),
    Endpoint("GET", f"{GROUP}/consumers", list_consumers, "List the members of a group.", answer=LIST_ANSWER),
    Endpoint(
        "GET", f"{GROUP}/consumers/{{consumer_id}}", get_consumer, "Describe a member of a group.",
        answer=RESOURCE_ANSWER,
    ),
    Endpoint("GET", f"{GROUP}/lag-summary", lag_summary, "Show the largest and the total lag.", answer=RESOURCE_ANSWER),
    Endpoint("GET", f"{GROUP}/lags", list_lags, "List the lag of each partition.", answer=LIST_ANSWER),
    Endpoint(
        "GET", f"{GROUP}/lags/{{topic_name}}/partitions/{{partition_id}}", get_lag, "Show the lag of a partition.",
        answer=RESOURCE_ANSWER,
    ),
)  # fmt: skip
