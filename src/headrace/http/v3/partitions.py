"""Partitions and replicas of a topic."""

from __future__ import annotations

from starlette.responses import Response

from headrace.http.call import Call, as_json
from headrace.http.endpoint import Endpoint
from headrace.http.v3.resources import LIST_ANSWER, RESOURCE_ANSWER, Links, check_cluster
from headrace.http.v3.topics import TOPIC, described_topic
from headrace.kernel.json_values import JsonObject
from headrace.web.errors import Problem
from headrace.wire.entities import Entity

PARTITION = f"{TOPIC}/partitions/{{partition_id}}"


def _partition(links: Links, topic: str, found: Entity) -> JsonObject:
    number, leader = int(found.partition_index), int(found.leader_id)
    path = ("topics", topic, "partitions", number)
    return links.resource(
        "KafkaPartition",
        path,
        {
            "topic_name": topic,
            "partition_id": number,
            "leader": links.related(*path, "replicas", leader) if leader >= 0 else None,
            "replicas": links.related(*path, "replicas"),
            "reassignment": links.related(*path, "reassignment"),
        },
    )


def _replica(links: Links, topic: str, found: Entity, broker: int) -> JsonObject:
    number = int(found.partition_index)
    return links.resource(
        "KafkaReplica",
        ("topics", topic, "partitions", number, "replicas", broker),
        {
            "topic_name": topic,
            "partition_id": number,
            "broker_id": broker,
            "is_leader": broker == int(found.leader_id),
            "is_in_sync": broker in [int(one) for one in found.isr_nodes],
            "broker": links.related("brokers", broker),
        },
    )


async def _topic(call: Call) -> tuple[Links, str, dict[int, Entity]]:
    name = call.path("topic_name")
    async with call.client() as client:
        links = Links(call, await check_cluster(call, client))
        topic = await described_topic(client, name)
    return links, name, {int(one.partition_index): one for one in topic.partitions}


async def _found(call: Call) -> tuple[Links, str, Entity]:
    number = call.number_in_path("partition_id")
    links, name, partitions = await _topic(call)
    if number not in partitions:
        raise Problem(404, 40402, f"partition {number} does not exist: topic {name!r} has {len(partitions)}")
    return links, name, partitions[number]


async def list_partitions(call: Call) -> Response:
    links, name, partitions = await _topic(call)
    shown = [_partition(links, name, partitions[number]) for number in sorted(partitions)]
    return as_json(links.listed("KafkaPartitionList", ("topics", name, "partitions"), shown))


async def get_partition(call: Call) -> Response:
    return as_json(_partition(*await _found(call)))


async def list_replicas(call: Call) -> Response:
    links, name, found = await _found(call)
    shown = [_replica(links, name, found, int(broker)) for broker in found.replica_nodes]
    path = ("topics", name, "partitions", int(found.partition_index), "replicas")
    return as_json(links.listed("KafkaReplicaList", path, shown))


ENDPOINTS = (
    Endpoint("GET", f"{TOPIC}/partitions", list_partitions, "List the partitions of a topic.", answer=LIST_ANSWER),
    Endpoint("GET", PARTITION, get_partition, "Describe a partition.", answer=RESOURCE_ANSWER),
    Endpoint("GET", f"{PARTITION}/replicas", list_replicas, "List the replicas of a partition.", answer=LIST_ANSWER),
)
