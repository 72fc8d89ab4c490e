"""Topics, partitions and brokers of v2."""

from __future__ import annotations

from starlette.responses import Response

from headrace.client.offsets import EARLIEST, LATEST, list_offsets
from headrace.http.call import Call
from headrace.http.endpoint import OBJECT, TEXT, Endpoint, a_list
from headrace.http.v2.formats import V2_JSON, v2_json
from headrace.http.v3.topics import described_topic
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.kernel.ids import TopicPartition
from headrace.kernel.json_values import JsonObject
from headrace.web.errors import Problem
from headrace.wire.apis import ApiKey
from headrace.wire.entities import Entity

TOPIC = "/topics/{topic_name}"
PARTITION = f"{TOPIC}/partitions/{{partition_id}}"
_V2 = (V2_JSON,)


async def list_topics(call: Call) -> Response:
    async with call.client() as client:
        topics = (await client.refresh(None)).topics
        return v2_json(sorted(name for name, topic in topics.items() if not topic.error_code))


async def list_brokers(call: Call) -> Response:
    async with call.client() as client:
        return v2_json({"brokers": sorted((await client.refresh(())).nodes)})


def _partition(found: Entity) -> JsonObject:
    leader, in_sync = int(found.leader_id), {int(one) for one in found.isr_nodes}
    replicas = [
        {"broker": int(one), "leader": int(one) == leader, "in_sync": int(one) in in_sync}
        for one in found.replica_nodes
    ]
    return {"partition": int(found.partition_index), "leader": leader, "replicas": replicas}


async def _partitions(call: Call) -> list[JsonObject]:
    async with call.client() as client:
        topic = await described_topic(client, call.path("topic_name"))
    return sorted((_partition(one) for one in topic.partitions), key=lambda one: int(one["partition"]))


async def get_topic(call: Call) -> Response:
    name = call.path("topic_name")
    partitions = await _partitions(call)
    body = {
        "resources": [{"resource_type": 2, "resource_name": name, "configuration_keys": None}],
        "include_synonyms": False,
        "include_documentation": False,
    }
    async with call.client() as client:
        result = (await client.request(ApiKey.DESCRIBE_CONFIGS, body)).results[0]
    code = ErrorCode(result.error_code)
    if code is not ErrorCode.none:
        raise Refused(code, result.error_message or f"configs of topic {name!r}: {code.name}")
    configs = {str(entry.name): entry.value for entry in result.configs}
    return v2_json({"name": name, "configs": configs, "partitions": partitions})


async def list_partitions(call: Call) -> Response:
    return v2_json(await _partitions(call))


async def get_partition(call: Call) -> Response:
    return v2_json(await _found(call))


async def _found(call: Call) -> JsonObject:
    number = call.number_in_path("partition_id")
    for one in await _partitions(call):
        if one["partition"] == number:
            return one
    raise Problem(404, 40402, f"partition {number} of topic {call.path('topic_name')!r} does not exist")


async def get_offsets(call: Call) -> Response:
    found = await _found(call)
    partition = TopicPartition(call.path("topic_name"), found["partition"])
    leaders = {partition: found["leader"]}
    ends = []
    async with call.client() as client:
        for time in (EARLIEST, LATEST):
            answer = (await list_offsets(client, {partition: time}, leaders))[partition]
            if isinstance(answer, Fault):
                raise answer
            ends.append(answer.offset)
    return v2_json({"beginning_offset": ends[0], "end_offset": ends[1]})


ENDPOINTS = (
    Endpoint("GET", "/topics", list_topics, "List the names of topics.", answer=a_list(TEXT), answer_types=_V2),
    Endpoint("GET", "/brokers", list_brokers, "List the ids of brokers.", answer=OBJECT, answer_types=_V2),
    Endpoint("GET", TOPIC, get_topic, "Describe a topic.", answer=OBJECT, answer_types=_V2),
    Endpoint(
        "GET", f"{TOPIC}/partitions", list_partitions, "List partitions.", answer=a_list(OBJECT), answer_types=_V2
    ),
    Endpoint("GET", PARTITION, get_partition, "Describe a partition.", answer=OBJECT, answer_types=_V2),
    Endpoint("GET", f"{PARTITION}/offsets", get_offsets, "Show first and end offset.", answer=OBJECT, answer_types=_V2),
)
