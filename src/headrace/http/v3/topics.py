"""Topics: list, create, describe, delete, and more partitions."""

from __future__ import annotations

from starlette.responses import Response

from headrace.client.cluster_client import ClusterClient
from headrace.http.call import MOST_INT32, Call, as_json, checked_integer, field, no_content, reason_of
from headrace.http.endpoint import FLAG, NUMBER, TEXT, Endpoint, a_list, an_object
from headrace.http.v3.resources import CLUSTER, LIST_ANSWER, RESOURCE_ANSWER, Links, check_cluster
from headrace.kernel.errors import ErrorCode, Refused
from headrace.kernel.internal_topics import refusal
from headrace.kernel.json_values import JsonObject
from headrace.web.errors import bad_request, unprocessable
from headrace.wire.apis import ApiKey
from headrace.wire.entities import Entity

TOPIC = f"{CLUSTER}/topics/{{topic_name}}"
_TIMEOUT_MS = 30_000


def topic_document(links: Links, topic: Entity) -> JsonObject:
    name = str(topic.name)
    path = ("topics", name)
    return links.resource(
        "KafkaTopic",
        path,
        {
            "topic_name": name,
            "is_internal": bool(topic.is_internal),
            "replication_factor": max((len(one.replica_nodes) for one in topic.partitions), default=0),
            "partitions_count": len(topic.partitions),
            "partitions": links.related(*path, "partitions"),
            "configs": links.related(*path, "configs"),
            "partition_reassignments": links.related(*path, "partitions", "-", "reassignment"),
            "authorized_operations": [],
        },
    )


async def described_topic(client: ClusterClient, name: str) -> Entity:
    """Raises Refused for a topic that is unknown or hidden."""
    found = (await client.refresh([name])).topics.get(name)
    code = ErrorCode.unknown_topic_or_partition if found is None else ErrorCode(found.error_code)
    if code is not ErrorCode.none:
        client.metadata.topics.pop(name, None)
        raise Refused(code, reason_of(name, code))
    return found


async def list_topics(call: Call) -> Response:
    async with call.client() as client:
        links = Links(call, await check_cluster(call, client))
        topics = (await client.refresh(None)).topics
        shown = [topic_document(links, topics[name]) for name in sorted(topics) if not topics[name].error_code]
    return as_json(links.listed("KafkaTopicList", ("topics",), shown))


async def get_topic(call: Call) -> Response:
    async with call.client() as client:
        links = Links(call, await check_cluster(call, client))
        return as_json(topic_document(links, await described_topic(client, call.path("topic_name"))))


def _new_topic(body: JsonObject) -> JsonObject:
    configs = []
    for one in field(body, "configs", list, []):
        if not isinstance(one, dict):
            raise unprocessable("configs: each must be an object with name and value")
        configs.append({"name": field(one, "name", str), "value": field(one, "value", str, None)})
    assignments = []
    for one in field(body, "replicas_assignments", list, []):
        if not isinstance(one, dict):
            raise unprocessable("replicas_assignments: each must be an object")
        replicas = [
            checked_integer(id_, "broker_ids", least=0, most=MOST_INT32) for id_ in field(one, "broker_ids", list)
        ]
        number = checked_integer(field(one, "partition_id", int), "partition_id", least=0, most=MOST_INT32)
        assignments.append({"partition_index": number, "broker_ids": replicas})
    count = checked_integer(field(body, "partitions_count", int, -1), "partitions_count", least=-1, most=MOST_INT32)
    factor = checked_integer(field(body, "replication_factor", int, -1), "replication_factor", least=-1, most=32767)
    return {
        "name": field(body, "topic_name", str),
        "num_partitions": -1 if assignments else count,
        "replication_factor": -1 if assignments else factor,
        "assignments": assignments,
        "configs": configs,
    }


async def create_topic(call: Call) -> Response:
    body = await call.document()
    new = _new_topic(body)
    is_dry = field(body, "validate_only", bool, False)
    async with call.client() as client:
        links = Links(call, await check_cluster(call, client))
        request = {"topics": [new], "timeout": _TIMEOUT_MS, "validate_only": is_dry}
        result = (await client.to_controller(ApiKey.CREATE_TOPICS, request)).topics[0]
        _check(result.error_code, result.error_message, new["name"])
        path = ("topics", new["name"])
        fields = {
            "topic_name": new["name"],
            "is_internal": False,
            "replication_factor": int(result.replication_factor),
            "partitions_count": int(result.num_partitions),
            "partitions": links.related(*path, "partitions"),
            "configs": links.related(*path, "configs"),
            "partition_reassignments": links.related(*path, "partitions", "-", "reassignment"),
            "authorized_operations": [],
        }
    return as_json(links.resource("KafkaTopic", path, fields), 200 if is_dry else 201)


async def delete_topic(call: Call) -> Response:
    name = call.path("topic_name")
    why_not = None if call.flag("internal", False) else refusal([name], "?internal=true")
    if why_not is not None:
        raise bad_request(why_not)
    async with call.client() as client:
        await check_cluster(call, client)
        request = {"topic_names": [name], "topics": [{"name": name, "topic_id": None}], "timeout": _TIMEOUT_MS}
        result = (await client.to_controller(ApiKey.DELETE_TOPICS, request)).responses[0]
        _check(result.error_code, getattr(result, "error_message", None), name)
        client.metadata.topics.pop(name, None)
    return no_content()


async def update_partitions(call: Call) -> Response:
    body = await call.document()
    name = call.path("topic_name")
    count = checked_integer(field(body, "partitions_count", int), "partitions_count", least=1, most=MOST_INT32)
    async with call.client() as client:
        links = Links(call, await check_cluster(call, client))
        request = {
            "topics": [{"name": name, "count": count, "assignments": None}],
            "timeout": _TIMEOUT_MS,
            "validate_only": False,
        }
        result = (await client.to_controller(ApiKey.CREATE_PARTITIONS, request)).results[0]
        _check(result.error_code, result.error_message, name)
        client.metadata.topics.pop(name, None)
        return as_json(topic_document(links, await described_topic(client, name)))


def _check(code: int, message: str | None, name: str) -> None:
    error = ErrorCode(code)
    if error is not ErrorCode.none:
        raise Refused(error, message or reason_of(name, error))


_NEW_TOPIC = an_object(
    "topic_name",
    topic_name=TEXT,
    partitions_count={"type": "integer"},
    replication_factor={"type": "integer"},
    configs=a_list(an_object("name", name=TEXT, value=TEXT)),
    replicas_assignments=a_list(
        an_object("partition_id", "broker_ids", partition_id=NUMBER, broker_ids=a_list(NUMBER))
    ),
    validate_only=FLAG,
)
ENDPOINTS = (
    Endpoint("GET", f"{CLUSTER}/topics", list_topics, "List the topics that the caller may see.", answer=LIST_ANSWER),
    Endpoint(
        "POST", f"{CLUSTER}/topics", create_topic, "Create a topic.", body=_NEW_TOPIC, status=201,
        answer=RESOURCE_ANSWER,
    ),
    Endpoint("GET", TOPIC, get_topic, "Describe a topic.", answer=RESOURCE_ANSWER),
    Endpoint(
        "PATCH", TOPIC, update_partitions, "Add partitions to a topic.",
        body=an_object("partitions_count", partitions_count=NUMBER), answer=RESOURCE_ANSWER,
    ),
    Endpoint(
        "DELETE", TOPIC, delete_topic, "Delete a topic and its records. An internal topic needs internal=true.",
        query={"internal": FLAG}, status=204, answer=None,
    ),
)  # fmt: skip
